import type { Clock } from '../accounts/clock.ts'
import type { Identity } from '../accounts/keys.ts'
import type { Config } from '../config/load.ts'
import { GatewayError } from '../error.ts'
import type { MemoryBudget } from '../http/memory-budget.ts'
import { readBody, withBody } from '../http/serve.ts'
import type { Chunk, TextSource, WriteNow } from '../http/stream.ts'
import type { OpenGeneration } from '../ledger/ledger.ts'
import type { DiskSpace } from '../store/disk-space.ts'
import type { Store, StoredAnswer } from '../store/store.ts'

export const IDEMPOTENCY_KEY = 'idempotency-key'

/** A larger answer is not kept. */
const ANSWER_BYTES = 32 * 1024 * 1024
/** The same while the disk is short. */
const ANSWER_BYTES_WHEN_SHORT = 64 * 1024

/** Those of an answer that its replay has, too. */
const KEPT_HEADERS = [
  'content-type',
  'cache-control',
  'x-accel-buffering',
  'retry-after',
  'x-generation-id',
  'x-request-id',
  'request-id',
  'x-sluice-provider',
  'x-sluice-attempts',
  'x-sluice-translation',
  'x-sluice-route',
]

/** The longest wait for an answer whose client has its end already, until it is stored. */
const STORING_MS = 1_000

/** Statuses of requests that nothing worked on, or that ask for a retry. */
const RETRIED = new Set([408, 409, 422, 429, 502, 503, 504, 529])

type Modules = {
  store: Store
  clock: Clock
  config: Config
  memory: MemoryBudget
  /** Absent, the disk is never short. */
  space?: Pick<DiskSpace, 'isShort'>
}

/** A request whose key was accepted. `execution` is set for one with an `Idempotency-Key`. */
type Inbound = {
  request: Request
  path: string
  query: URLSearchParams
  identity: Identity
  execution?: Execution | undefined
}

/** One request with an `Idempotency-Key` that is being answered. */
export class Execution {
  readonly digest: Buffer
  /** Set when it is admitted: it goes on without its client from then on. */
  open: OpenGeneration | undefined
  /** The text of a streamed answer, once it has come to its end; undefined for one that is not to be kept. */
  streamed: Promise<string | undefined> | undefined
  readonly #released = Promise.withResolvers<true>()

  constructor(digest: Buffer) {
    this.digest = digest
  }

  /** Its answer is stored, or is not to be kept. */
  release(): void {
    this.#released.resolve(true)
  }

  /** Resolves to true once it is released, which takes milliseconds where its generation has ended; else to false. */
  async endsNow(): Promise<boolean> {
    if (this.open?.meter.outcome === undefined) return false
    return Promise.race([this.#released.promise, Bun.sleep(STORING_MS).then(() => false)])
  }

  /** Keeps what a source gives. */
  record(source: TextSource): TextSource {
    const { promise, resolve } = Promise.withResolvers<string | undefined>()
    this.streamed = promise
    const recording = new Recording(source, (text) =>
      resolve(this.open?.meter.outcome === 'completed' ? text : undefined),
    )
    return recording
  }
}

/** A source whose texts are kept until its end. */
class Recording implements TextSource {
  readonly #source: TextSource
  readonly #onEnd: (text: string | undefined) => void
  #texts: string[] = []
  #length = 0

  constructor(source: TextSource, onEnd: (text: string | undefined) => void) {
    this.#source = source
    this.#onEnd = onEnd
  }

  async pull(write?: WriteNow): Promise<Chunk | undefined> {
    try {
      const chunk = await this.#source.pull(write === undefined ? undefined : (text) => this.#write(text, write))
      if (chunk === undefined) this.#onEnd(this.#length <= ANSWER_BYTES ? this.#texts.join('') : undefined)
      else if (typeof chunk === 'string') this.#add(chunk)
      else for (const { text } of chunk) this.#add(text)
      return chunk
    } catch (error) {
      this.#onEnd(undefined)
      throw error
    }
  }

  cancel(reason: 'client-left' | 'shutdown'): void {
    this.#source.cancel(reason)
  }

  #write(text: string, write: WriteNow): ReturnType<WriteNow> {
    const result = write(text)
    if (result !== 'refused') this.#add(text)
    return result
  }

  #add(text: string): void {
    this.#length += text.length
    if (this.#length <= ANSWER_BYTES) this.#texts.push(text)
    else this.#texts = []
  }
}

/** Requests with an `Idempotency-Key`: each is carried out once, and answered again from the store. */
export class Idempotency {
  readonly #store: Store
  readonly #clock: Clock
  readonly #config: Config
  readonly #memory: MemoryBudget
  readonly #space: Modules['space']
  /** By account and key. */
  readonly #running = new Map<string, Execution>()

  constructor({ store, clock, config, memory, space }: Modules) {
    this.#space = space
    this.#memory = memory
    this.#store = store
    this.#clock = clock
    this.#config = config
  }

  /**
   * The answer of `respond`, which never rejects, or the same answer as before. Throws invalid_request for a key of
   * another request, and request_in_progress while the first is under way.
   */
  async answer(inbound: Inbound, key: string, respond: () => Promise<Response>): Promise<Response> {
    const { limits, idempotency } = this.#config
    if (idempotency.keepMs === 0 || inbound.identity.idempotency === false) return respond()
    if (!/^[\x21-\x7e]{1,255}$/.test(key)) throw refused('must be 1 to 255 printable ASCII characters without spaces')
    const { accountId } = inbound.identity
    const bytes = await readBody(inbound.request, limits.bodyBytes, this.#memory, accountId)
    inbound.request = withBody(inbound.request, bytes)
    const hash = sha256(key)
    const digest = sha256(`${inbound.path}?${inbound.query}\n`, bytes)
    const name = `${accountId} ${hash.toString('base64')}`
    for (let running = this.#running.get(name); running !== undefined; running = this.#running.get(name)) {
      if (!running.digest.equals(digest)) throw ofAnother()
      if (!(await running.endsNow())) throw inProgress(running)
    }
    const execution = new Execution(digest)
    this.#running.set(name, execution)
    try {
      const elsewhere = await this.#store.idempotency.claims?.claim(accountId, hash, digest)
      const stored = await this.#store.idempotency.find(accountId, hash, this.#clock.now())
      if (stored !== undefined) return replay(stored, digest)
      if (elsewhere !== undefined) throw digest.equals(elsewhere) ? inProgress() : ofAnother()
      inbound.execution = execution
      const response = await respond()
      if (execution.streamed === undefined) return await this.#keepWhole(accountId, hash, execution, response)
      this.#keepStream(accountId, hash, execution, response, () => this.#release(name, accountId, hash, execution))
      return response
    } finally {
      if (execution.streamed === undefined) this.#release(name, accountId, hash, execution)
    }
  }

  #release(name: string, accountId: string, key: Buffer, execution: Execution): void {
    this.#running.delete(name)
    execution.release()
    // Where that fails, the key is another process's again once this one has ended.
    void this.#store.idempotency.claims?.release(accountId, key).catch(() => {})
  }

  purge(): Promise<void> {
    return this.#store.idempotency.purge(this.#clock.now())
  }

  async #keepWhole(accountId: string, key: Buffer, execution: Execution, response: Response): Promise<Response> {
    const { status, headers } = response
    if (!isFinal(status, execution)) return response
    const body = await response.bytes()
    if (body.length <= ANSWER_BYTES)
      await this.#save(accountId, key, execution, { status, headers, body }).catch(() => {})
    return new Response(body, { status, headers })
  }

  #keepStream(
    accountId: string,
    key: Buffer,
    execution: Execution,
    { status, headers }: Response,
    done: () => void,
  ): void {
    const save = async (): Promise<void> => {
      const text = await execution.streamed
      if (text !== undefined) await this.#save(accountId, key, execution, { status, headers, body: Buffer.from(text) })
    }
    // An answer that cannot be kept was sent nevertheless.
    void save()
      .catch(() => {})
      .finally(done)
  }

  #save(
    accountId: string,
    key: Buffer,
    { digest }: Execution,
    { status, headers, body }: { status: number; headers: Headers; body: Uint8Array },
  ): Promise<void> {
    if (this.#space?.isShort === true && body.length > ANSWER_BYTES_WHEN_SHORT) return Promise.resolve()
    const { keepMs, accountBytes, totalBytes } = this.#config.idempotency
    const kept = KEPT_HEADERS.flatMap((name) => (headers.has(name) ? [[name, headers.get(name)]] : []))
    const createdAt = this.#clock.now()
    const answer = { accountId, key, digest, createdAt, expiresAt: createdAt + keepMs, status, body }
    return this.#store.idempotency.save(
      { ...answer, headers: JSON.stringify(Object.fromEntries(kept)) },
      { accountBytes, totalBytes },
    )
  }
}

/** True for the answer to a request that was carried out: another try would not be answered otherwise, or be billed. */
const isFinal = (status: number, { open }: Execution): boolean =>
  status < 300 || (open?.meter.attempts.some(({ sent }) => sent === true) === true && !RETRIED.has(status))

function replay({ digest, status, headers, body }: StoredAnswer, requested: Buffer): Response {
  if (!requested.equals(digest)) throw ofAnother()
  return new Response(body, {
    status,
    headers: {
      ...(JSON.parse(headers) as Record<string, string>),
      'idempotent-replayed': 'true',
      // Every other try would get the same answer.
      ...(status < 300 ? {} : { 'x-should-retry': 'false' }),
    },
  })
}

const refused = (problem: string): GatewayError =>
  new GatewayError('invalid_request', `${IDEMPOTENCY_KEY}: ${problem}`, {
    param: IDEMPOTENCY_KEY,
    shouldRetry: false,
  })

const ofAnother = (): GatewayError =>
  refused('was used for another request; use a new key for each request, and the same one to repeat it')

/** `execution`: absent for one of another process. */
const inProgress = ({ open }: Partial<Execution> = {}): GatewayError =>
  new GatewayError(
    'request_in_progress',
    `${IDEMPOTENCY_KEY}: the request with this key is in progress` +
      `${open === undefined ? '' : ` (generation ${open.request.id})`}; retry later for its answer`,
    { param: IDEMPOTENCY_KEY, retryAfterSeconds: 1, shouldRetry: true },
  )

function sha256(...parts: (string | Uint8Array)[]): Buffer {
  const hasher = new Bun.CryptoHasher('sha256')
  for (const part of parts) hasher.update(part)
  return hasher.digest()
}
