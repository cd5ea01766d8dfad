import { randomBytes } from 'node:crypto'
import { decrypted, encrypted } from '../../accounts/encryption.ts'
import type { Clock } from '../../accounts/clock.ts'
import type { Identity, Keys } from '../../accounts/keys.ts'
import type { Config } from '../../config/config.ts'
import { invalid } from '../../error.ts'
import type { Store, StoredBodies } from '../../store/store.ts'
import { BodyWriter } from './body-writer.ts'
import { CapturedRequest } from './captured-request.ts'
import { CaptureRules } from './capture-rules.ts'
import { readRecord, type RecordedPart } from './record.ts'
import { Segments } from './segments.ts'

const KEY_BYTES = 32
const PURPOSE = 'bodies'
const OPT_OUT = 'x-sluice-capture'
/** Bodies of playground requests are for the user who just sent them. */
const PLAYGROUND_MS = 3_600_000

type Modules = { config: Pick<Config, 'capture' | 'data'>; store: Store; keys: Keys; clock: Clock }

/** Bodies of requests and answers: captured where the rules say so, encrypted under a key of their account. */
export class Bodies {
  readonly rules: CaptureRules
  /** True where the configuration allows no body to be captured. */
  readonly isOff: boolean
  readonly #modules: Modules
  readonly #segments: Segments
  readonly #writer: BodyWriter
  readonly #writing = new Set<Promise<void>>()

  private constructor(rules: CaptureRules, modules: Modules) {
    this.rules = rules
    this.isOff = modules.config.capture.most === 'off'
    this.#modules = modules
    this.#segments = new Segments(modules.config.data)
    this.#writer = new BodyWriter(modules.config.capture)
  }

  static async open(modules: Modules): Promise<Bodies> {
    const { config, store, clock } = modules
    return new Bodies(await CaptureRules.open(store, config.capture, clock.now), modules)
  }

  /** Requests of which bodies were left out, because too much waited, or because they could not be written. */
  get leftOut(): number {
    return this.#writer.leftOut
  }

  /** Undefined where the bodies of a request are not captured, or its client does not want that. */
  begin(inbound: { id: string; identity: Identity; request: Request }): CapturedRequest | undefined {
    const { id, identity, request } = inbound
    const mode = this.rules.modeOf(identity)
    if (mode === 'off' || isRefused(request.headers)) return undefined
    const { store, config, clock } = this.#modules
    if (store.space.isShort || this.#writer.isFull) {
      this.#writer.leftOut++
      return undefined
    }
    const { keyId, accountId, isPlayground } = identity
    const keepMs = isPlayground === true ? PLAYGROUND_MS : config.capture.keepMs
    const terms = { id, keyId, accountId, errorsOnly: mode === 'errors', expiresAt: clock.now() + keepMs }
    return new CapturedRequest(terms, request.headers, this.#writer, (captured) => this.#ended(captured))
  }

  #ended(captured: CapturedRequest): void {
    if (!captured.isWanted) return captured.free()
    if (captured.isIncomplete) this.#writer.leftOut++
    const writing = this.#write(captured)
      .catch((error: unknown) => this.#writer.failed(error))
      .finally(() => {
        captured.free()
        this.#writing.delete(writing)
      })
    this.#writing.add(writing)
  }

  async #write(captured: CapturedRequest): Promise<void> {
    const { id, accountId, keyId, expiresAt } = captured.terms
    const { store, keys } = this.#modules
    const secret = keys.derive(PURPOSE, accountId)
    const stored =
      (await store.bodies.keyOf(accountId)) ??
      (await store.bodies.keyOf(accountId, encrypted(secret, randomBytes(KEY_BYTES), accountId)))
    // It was removed at once: so is what it would have been for.
    if (stored === undefined) return
    const segment = this.#segments.nameFor(expiresAt)
    const written = await this.#writer.write({
      id,
      key: decrypted(secret, stored, accountId),
      file: this.#segments.pathOf(segment),
      parts: await captured.parts(),
    })
    await store.bodies.add({ id, accountId, keyId, segment, expiresAt, ...written })
  }

  /** Where the bodies of a request are. */
  find(id: string): Promise<StoredBodies | undefined> {
    return this.#modules.store.bodies.find(id, this.#modules.clock.now())
  }

  /** Those of these requests that have bodies. */
  among(ids: readonly string[]): Promise<Set<string>> {
    return this.#modules.store.bodies.among(ids, this.#modules.clock.now())
  }

  /** Undefined where they were deleted meanwhile. */
  async read({ id, accountId, segment, offset, length }: StoredBodies): Promise<RecordedPart[] | undefined> {
    const { store, keys } = this.#modules
    const stored = await store.bodies.keyOf(accountId)
    const bytes = await this.#segments.read(segment, offset, length)
    if (stored === undefined || bytes === undefined) return undefined
    try {
      return readRecord(decrypted(keys.derive(PURPOSE, accountId), stored, accountId), id, bytes)
    } catch {
      return undefined
    }
  }

  async remove({ id, segment, offset, length }: StoredBodies): Promise<boolean> {
    const isRemoved = await this.#modules.store.bodies.remove(id)
    if (isRemoved) await this.#segments.erase(segment, offset, length)
    return isRemoved
  }

  /** Makes all bodies of an account unreadable, at once. False where it has none. */
  removeAccount(accountId: string): Promise<boolean> {
    return this.#modules.store.bodies.removeAccount(accountId)
  }

  /** Removes what has expired, and what is beyond the quota. */
  async purge(): Promise<void> {
    const { store, clock, config } = this.#modules
    for (const segment of await this.#segments.purge(clock.now(), config.capture.quotaBytes))
      await store.bodies.removeSegment(segment)
    await store.bodies.purge(clock.now())
  }

  /** Resolves when what has ended is written. */
  async stop(): Promise<void> {
    await Promise.all(this.#writing)
    this.#writer.end()
  }
}

/** Throws invalid_request (400) for a value that its client may mistake for a refusal. */
function isRefused(headers: Headers): boolean {
  const value = headers.get(OPT_OUT)
  if (value !== null && value !== 'off') throw invalid(OPT_OUT, "must be 'off', or be left out")
  return value === 'off'
}
