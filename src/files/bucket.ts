import type { S3Location } from '../config/config.ts'
import { GatewayError } from '../error.ts'
import { type ByteSource, send } from '../http/call.ts'
import { hideSecret } from '../log/secrets.ts'
import { type BucketFailure, BucketHealth, type BucketOperation } from './bucket-health.ts'
import { escaped, type S3Credentials, signatureOf } from './s3-signature.ts'

/** The longest that one operation may take, with its repetitions. One try gets half of it. */
const LIMIT_MS = 30_000
const CONNECT_MS = 5_000
const TRIES = 3
/** Before the second try, and twice as long before the third; at random up to this. */
const PAUSE_MS = 400
/** Objects and pages of a list are smaller. */
const ANSWER_BYTES = 8 * 2 ** 20

/** `reason`: the server's code, or what happened, without secrets. */
export class BucketError extends Error {
  readonly failure: BucketFailure
  readonly reason: string

  constructor(failure: BucketFailure, reason: string, cause?: unknown) {
    super(reason, { cause })
    this.failure = failure
    this.reason = reason
  }
}

/** An object in a list; its time is in ISO 8601. */
export type Listed = { key: string; lastModified: string }

export type BucketOptions = {
  location: Pick<S3Location, 'bucket'>
  env: Readonly<Record<string, string | undefined>>
  now?: (() => number) | undefined
  limitMs?: number | undefined
}

const METHODS = { read: 'GET', list: 'GET', write: 'PUT', remove: 'DELETE' } as const

type Operation = { kind: BucketOperation; key: string; query?: Record<string, string>; content?: Uint8Array }
type Answer = { status: number; body: Uint8Array }

const NEVER = new AbortController().signal
const NOTHING = new Uint8Array()

/**
 * A bucket of an S3-compatible server. Methods throw BucketError. Every operation may be repeated, and is, a few times,
 * where that can help; a request that takes too long is ended with its connection.
 */
export class Bucket {
  readonly health: BucketHealth
  readonly #base: string
  readonly #region: string
  readonly #credentials: S3Credentials
  readonly #now: () => number
  readonly #limitMs: number

  /** Throws an error for the operator where the environment has no credentials. */
  constructor({ location, env, now = Date.now, limitMs = LIMIT_MS }: BucketOptions) {
    const { id, secret, token, region, endpoint } = settingsOf(env)
    for (const one of [secret, token ?? '']) hideSecret(one)
    this.health = new BucketHealth(location.bucket, now)
    this.#base = `${endpoint.replace(/\/+$/, '')}/${location.bucket}`
    this.#region = region
    this.#credentials = { id, secret, token }
    this.#now = now
    this.#limitMs = limitMs
  }

  /** Undefined if there is no such object. */
  async get(key: string): Promise<Uint8Array | undefined> {
    return (await this.#perform({ kind: 'read', key }))?.body
  }

  async put(key: string, content: Uint8Array): Promise<void> {
    await this.#perform({ kind: 'write', key, content })
  }

  async delete(key: string): Promise<void> {
    await this.#perform({ kind: 'remove', key })
  }

  /** A page of objects in the order of their keys, after one of them. */
  async list(
    prefix: string,
    { after, limit }: { after?: string | undefined; limit?: number } = {},
  ): Promise<{
    objects: Listed[]
    isEnd: boolean
  }> {
    const query = {
      'list-type': '2',
      ...(limit === undefined ? {} : { 'max-keys': String(limit) }),
      prefix,
      ...(after === undefined ? {} : { 'start-after': after }),
    }
    const answer = await this.#perform({ kind: 'list', key: '', query })
    const text = textOf(answer?.body ?? NOTHING)
    if (!text.includes('<ListBucketResult')) throw new BucketError('failed', 'the answer is not a list of objects')
    const objects = [...text.matchAll(/<Contents>(.*?)<\/Contents>/gs)].map(([, object = '']) => ({
      key: memberOf(object, 'Key') ?? '',
      lastModified: memberOf(object, 'LastModified') ?? '',
    }))
    return { objects, isEnd: memberOf(text, 'IsTruncated') !== 'true' || objects.length === 0 }
  }

  /** Undefined where there is no such object. */
  async #perform(operation: Operation): Promise<Answer | undefined> {
    const end = performance.now() + this.#limitMs
    const { kind } = operation
    for (let tries = 1; ; tries++) {
      try {
        const answer = await this.#try(operation, Math.min(this.#limitMs / 2, end - performance.now()))
        this.health.count(kind, 'done')
        this.health.succeeded(kind)
        return answer
      } catch (error) {
        if (!(error instanceof BucketError)) throw error
        this.health.count(kind, error.failure)
        const pause = Math.random() * PAUSE_MS * tries
        const isLast = error.failure === 'refused' || tries === TRIES || performance.now() + pause >= end
        if (isLast) {
          this.health.failed(kind, error.reason)
          throw error
        }
        await Bun.sleep(pause)
      }
    }
  }

  async #try({ kind, key, query = {}, content }: Operation, limitMs: number): Promise<Answer | undefined> {
    const url = new URL(key === '' ? this.#base : `${this.#base}/${key.split('/').map(escaped).join('/')}`)
    const sorted = Object.entries(query).sort(([one], [other]) => (one < other ? -1 : 1))
    const method = METHODS[kind]
    const signed = { method, url, query: sorted, content: content ?? NOTHING, region: this.#region, at: this.#now() }
    const search = sorted.map(([name, value]) => `${escaped(name)}=${escaped(value)}`).join('&')
    const { status, body } = await send({
      url: search === '' ? url.href : `${url.href}?${search}`,
      method,
      headers: signatureOf(signed, this.#credentials),
      ...(content === undefined ? {} : { body: [content] }),
      timeouts: { connectMs: CONNECT_MS, firstByteMs: limitMs, idleMs: limitMs, totalMs: limitMs },
      signal: NEVER,
    })
      .then(async (response) => ({ status: response.status, body: await readBytes(response.body) }))
      .catch((error: unknown) => {
        throw failureOf(error, limitMs)
      })
    if (status < 300) return { status, body }
    const reason = codeIn(body) ?? `status ${status}`
    if (status === 404 && reason === 'NoSuchKey' && kind !== 'write') return undefined
    const isPassing = status >= 500 || status === 429 || reason === 'RequestTimeout'
    throw new BucketError(isPassing ? 'failed' : 'refused', reason)
  }
}

const DEFAULT_REGION = 'us-east-1'

/** The names that S3's own tools read, and those of Bun before them. */
function settingsOf(env: BucketOptions['env']): S3Credentials & { region: string; endpoint: string } {
  const valueOf = (...names: string[]): string | undefined =>
    names.map((name) => env[name]).find((value) => value !== undefined && value !== '')
  const id = valueOf('S3_ACCESS_KEY_ID', 'AWS_ACCESS_KEY_ID')
  const secret = valueOf('S3_SECRET_ACCESS_KEY', 'AWS_SECRET_ACCESS_KEY')
  if (id === undefined || secret === undefined)
    throw new Error('files.store needs the key of the bucket: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY')
  const token = valueOf('S3_SESSION_TOKEN', 'AWS_SESSION_TOKEN')
  const region = valueOf('S3_REGION', 'AWS_REGION') ?? DEFAULT_REGION
  const given = valueOf('S3_ENDPOINT', 'AWS_ENDPOINT_URL_S3', 'AWS_ENDPOINT_URL')
  const endpoint = given ?? `https://s3.${region}.amazonaws.com`
  if (!/^https?:$/.test(URL.parse(endpoint)?.protocol ?? ''))
    throw new Error('AWS_ENDPOINT_URL of files.store must be a URL that begins with https:// or http://')
  return { id, secret, token, region, endpoint }
}

async function readBytes(source: ByteSource): Promise<Uint8Array> {
  const chunks: Uint8Array[] = []
  let length = 0
  for (let chunk = await source.read(); chunk !== undefined; chunk = await source.read()) {
    length += chunk.length
    if (length > ANSWER_BYTES) {
      source.cancel()
      throw new BucketError('failed', `an answer of more than ${ANSWER_BYTES} bytes`)
    }
    chunks.push(chunk)
  }
  return Buffer.concat(chunks, length)
}

/** The text of what failed below is about providers. */
function failureOf(error: unknown, limitMs: number): unknown {
  if (!(error instanceof GatewayError)) return error
  if (error.code === 'upstream_timeout')
    return new BucketError('timeout', `no answer in ${Math.ceil(limitMs / 1000)} seconds`, error)
  const { code } = (error.cause ?? {}) as { code?: string }
  return new BucketError('connection', code ?? 'the connection failed', error)
}

/** The code in an error of S3: one word, or what answers is no such server. */
const codeIn = (body: Uint8Array): string | undefined => /<Code>(\w{1,64})<\/Code>/.exec(textOf(body))?.[1]

const textOf = (bytes: Uint8Array): string => new TextDecoder().decode(bytes)

const ENTITIES: Record<string, string> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" }

const memberOf = (xml: string, name: string): string | undefined =>
  new RegExp(`<${name}>([^<]*)</${name}>`)
    .exec(xml)?.[1]
    ?.replace(/&(amp|lt|gt|quot|apos);/g, (_, entity: string) => ENTITIES[entity]!)
