import type { S3Location } from '../config/config.ts'
import { GatewayError } from '../error.ts'
import type { ChunkStore } from '../store/chunked-blobs.ts'
import type { BlobHealth } from '../store/store.ts'
import { Bucket, type BucketOptions, type Listed } from './bucket.ts'
import { BucketError } from './bucket-request.ts'

/** Bytes of an object: what a process holds in memory for one upload or download. */
const CHUNK_BYTES = 4 * 2 ** 20
/** The age of marks of blobs that must have a row by now. */
const MARKED_MS = 3_600_000
/** The longest for which an answer of the bucket counts. */
const CHECKED_MS = 30_000

type S3Options = BucketOptions & { location: S3Location }

/**
 * Chunks as objects of a bucket: `<prefix><name>/<number>`, and marks `<prefix>new/<name>`. Small objects, so that a
 * process that ends leaves no upload that the server would keep, invisible, for ever.
 */
export class S3Chunks implements ChunkStore {
  readonly chunkBytes = CHUNK_BYTES
  readonly #bucket: Bucket
  readonly #prefix: string
  readonly #now: () => number

  private constructor(bucket: Bucket, prefix: string, now: () => number) {
    this.#bucket = bucket
    this.#prefix = prefix
    this.#now = now
  }

  /** Throws an error for the operator where the bucket cannot be listed. */
  static async open(options: S3Options): Promise<S3Chunks> {
    const { location, now = Date.now } = options
    const { bucket: name, prefix } = location
    const bucket = new Bucket(options)
    const chunks = new S3Chunks(bucket, prefix === '' ? '' : `${prefix}/`, now)
    await bucket.list(chunks.#prefix, { limit: 1 }).catch((error: Error) => {
      throw new Error(
        `The bucket ${name} of files.store cannot be listed (${error.message}): check its name, AWS_REGION, ` +
          'AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and that the key may list, read, write and ' +
          'delete',
      )
    })
    return chunks
  }

  get health(): BlobHealth {
    return this.#bucket.health
  }

  /** Asks for a list where nothing was asked for lately; while something fails, tries all that is needed. */
  async check(): Promise<void> {
    const { health } = this.#bucket
    const isFailing = health.outage !== undefined
    if (!isFailing && health.idleMs < CHECKED_MS) return
    await this.#bucket.list(this.#prefix, { limit: 1 })
    if (!isFailing) return
    const key = `${this.#prefix}check`
    await this.#bucket.put(key, new Uint8Array())
    await this.#bucket.get(key)
    await this.#bucket.delete(key)
  }

  async read(name: string, number: number): Promise<Uint8Array | undefined> {
    return this.#bucket.get(this.#key(name, number)).catch(unavailably)
  }

  async write(name: string, number: number, content: Uint8Array): Promise<void> {
    await this.#bucket.put(this.#markOf(name), new Uint8Array()).catch(unavailably)
    await this.#bucket.put(this.#key(name, number), content).catch(unavailably)
  }

  async remove(name: string): Promise<void> {
    await this.#bucket.put(this.#markOf(name), new Uint8Array()).catch(unavailably)
    for await (const objects of this.#list(`${this.#prefix}${name}/`))
      for (const { key } of objects) await this.#bucket.delete(key).catch(unavailably)
    await this.#bucket.delete(this.#markOf(name)).catch(unavailably)
  }

  async *names(): AsyncGenerator<string[]> {
    const prefix = this.#markOf('')
    for await (const marks of this.#list(prefix)) {
      const oldest = this.#now() - MARKED_MS
      const old = marks.filter(({ lastModified }) => Date.parse(lastModified) < oldest)
      yield old.map(({ key }) => key.slice(prefix.length))
      for (const mark of old) if (await this.#isUnchanged(mark)) await this.#bucket.delete(mark.key).catch(unavailably)
    }
  }

  /** False where the mark was renewed, for an upload that goes on or a blob that could not be removed. */
  async #isUnchanged({ key, lastModified }: Listed): Promise<boolean> {
    const { objects } = await this.#bucket.list(key, { limit: 1 }).catch(unavailably)
    return objects[0]?.key === key && objects[0].lastModified === lastModified
  }

  #key(name: string, number: number): string {
    return `${this.#prefix}${name}/${number}`
  }

  #markOf(name: string): string {
    return `${this.#prefix}new/${name}`
  }

  /** Pages of objects, in the order of their keys. */
  async *#list(prefix: string): AsyncGenerator<Listed[]> {
    for (let after: string | undefined; ; ) {
      const { objects, isEnd } = await this.#bucket.list(prefix, { after }).catch(unavailably)
      yield objects
      if (isEnd) return
      after = objects.at(-1)!.key
    }
  }
}

const RETRY_SECONDS = 5
/** An operator has to change something first. */
const REFUSED_RETRY_SECONDS = 60

function unavailably(error: unknown): never {
  if (!(error instanceof BucketError)) throw error
  const { failure, reason } = error
  if (failure === 'refused')
    throw new GatewayError(
      'store_unavailable',
      `The file store is unavailable: its bucket refuses the request (${reason}). The operator of this server has to ` +
        'check the name, the key and the policy of the bucket.',
      { cause: error, retryAfterSeconds: REFUSED_RETRY_SECONDS, shouldRetry: false },
    )
  throw new GatewayError(
    'store_unavailable',
    `The file store is unavailable: its bucket does not answer as it should (${reason}); try again.`,
    { cause: error, retryAfterSeconds: RETRY_SECONDS, shouldRetry: true },
  )
}
