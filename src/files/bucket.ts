import { createHash } from 'node:crypto'
import { AwsV4Signer } from 'aws4fetch'
import type { S3Location } from '../config/config.ts'
import { BucketHealth, type BucketOperation } from './bucket-health.ts'
import { type Answer, answerTo, BucketError, memberOf, refusalOf, textOf } from './bucket-request.ts'
import { credentialsOf, type CredentialSource, type S3Environment, valueIn } from './s3-credentials.ts'

/** The longest that one operation may take, with its repetitions. One try gets half of it. */
const LIMIT_MS = 30_000
const TRIES = 3
/** Before the second try, and twice as long before the third; at random up to this. */
const PAUSE_MS = 400

/** An object in a list; its time is in ISO 8601. */
export type Listed = { key: string; lastModified: string }

export type BucketOptions = {
  location: Pick<S3Location, 'bucket'>
  env: S3Environment
  now?: (() => number) | undefined
  limitMs?: number | undefined
}

const METHODS = { read: 'GET', list: 'GET', write: 'PUT', remove: 'DELETE' } as const

type Operation = { kind: BucketOperation; key: string; query?: Record<string, string>; content?: Uint8Array }

const NOTHING = new Uint8Array()

/**
 * A bucket of an S3-compatible server. Methods throw BucketError. Every operation may be repeated, and is, a few times,
 * where that can help; a request that takes too long is ended with its connection.
 */
export class Bucket {
  readonly health: BucketHealth
  readonly #base: string
  readonly #region: string
  readonly #credentials: CredentialSource
  readonly #now: () => number
  readonly #limitMs: number

  /** Throws an error for the operator where the environment has no credentials. */
  constructor({ location, env, now = Date.now, limitMs = LIMIT_MS }: BucketOptions) {
    const { region, endpoint } = serverOf(env)
    this.health = new BucketHealth(location.bucket, now)
    this.#base = `${endpoint.replace(/\/+$/, '')}/${location.bucket}`
    this.#region = region
    this.#credentials = credentialsOf(env, region, now)
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
    const end = performance.now() + limitMs
    const credentials = await this.#credentials(limitMs)
    const url = new URL(key === '' ? this.#base : `${this.#base}/${key.split('/').map(encodeURIComponent).join('/')}`)
    url.search = new URLSearchParams(query).toString()
    const method = METHODS[kind]
    // With the hash of the content, a server refuses one that was changed on its way.
    const hash = createHash('sha256')
      .update(content ?? '')
      .digest('hex')
    const signer = new AwsV4Signer({
      ...{ method, url: url.href, headers: { 'x-amz-content-sha256': hash }, ...credentials },
      ...{ service: 's3', region: this.#region, datetime: amazonTime(this.#now()) },
    })
    const signed = await signer.sign()
    const answer = await answerTo(
      {
        url: signed.url.href,
        method,
        headers: Object.fromEntries(signed.headers),
        ...(content === undefined ? {} : { body: [content] }),
      },
      end - performance.now(),
    )
    if (answer.status < 300) return answer
    const refusal = refusalOf(answer)
    if (answer.status === 404 && refusal.reason === 'NoSuchKey' && kind !== 'write') return undefined
    throw refusal
  }
}

/** Such as `20260102T030405Z`. */
const amazonTime = (at: number): string => new Date(at).toISOString().replace(/[-:]|\.\d+/g, '')

const DEFAULT_REGION = 'us-east-1'

function serverOf(env: BucketOptions['env']): { region: string; endpoint: string } {
  const region = valueIn(env, 'S3_REGION', 'AWS_REGION') ?? DEFAULT_REGION
  const given = valueIn(env, 'S3_ENDPOINT', 'AWS_ENDPOINT_URL_S3', 'AWS_ENDPOINT_URL')
  const endpoint = given ?? `https://s3.${region}.amazonaws.com`
  if (!/^https?:$/.test(URL.parse(endpoint)?.protocol ?? ''))
    throw new Error('AWS_ENDPOINT_URL of files.store must be a URL that begins with https:// or http://')
  return { region, endpoint }
}
