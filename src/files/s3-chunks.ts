import { S3Client } from 'bun'
import type { S3Location } from '../config/config.ts'
import { within } from '../deadlines.ts'
import { GatewayError } from '../error.ts'
import { hideSecret } from '../log/secrets.ts'
import type { ChunkStore } from '../store/chunked-blobs.ts'

/** Bytes of an object: fewer than from which Bun's client would divide it. */
const CHUNK_BYTES = 4 * 2 ** 20
/** The age of marks of blobs that must have a row by now. */
const MARKED_MS = 3_600_000
/** The longest that the server may take for one object. */
const ANSWER_MS = 30_000

/** An object in a list; its time is in ISO 8601. */
type Listed = { key: string; lastModified?: string }

export type S3Options = {
  location: S3Location
  env: Readonly<Record<string, string | undefined>>
  now?: () => number
}

/**
 * Chunks as objects of a bucket: `<prefix><name>/<number>`, and marks `<prefix>new/<name>`. Small objects, so that a
 * process that ends leaves no upload that the server would keep, invisible, for ever.
 */
export class S3Chunks implements ChunkStore {
  readonly chunkBytes = CHUNK_BYTES
  readonly #client: S3Client
  readonly #prefix: string
  readonly #now: () => number

  private constructor(client: S3Client, prefix: string, now: () => number) {
    this.#client = client
    this.#prefix = prefix
    this.#now = now
  }

  /** Throws an error for the operator where the bucket cannot be listed. */
  static async open({ location, env, now = Date.now }: S3Options): Promise<S3Chunks> {
    const { bucket, prefix } = location
    const credentials = credentialsOf(env)
    for (const name of SECRETS) hideSecret(credentials[name] ?? '')
    const client = new S3Client({ bucket, ...credentials })
    const chunks = new S3Chunks(client, prefix === '' ? '' : `${prefix}/`, now)
    await answerOf(client.list({ prefix: chunks.#prefix, maxKeys: 1 })).catch((error: unknown) => {
      throw new Error(
        `The bucket ${bucket} of files.store cannot be listed (${reasonOf(error)}): check its name, AWS_REGION, ` +
          'AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and that the key may list, read, write and ' +
          'delete',
      )
    })
    return chunks
  }

  async read(name: string, number: number): Promise<Uint8Array | undefined> {
    try {
      return await answerOf(this.#client.file(this.#key(name, number)).bytes())
    } catch (error) {
      if (codeOf(error) === 'NoSuchKey') return undefined
      throw unavailable(error)
    }
  }

  async write(name: string, number: number, content: Uint8Array): Promise<void> {
    await this.#put(this.#markOf(name), new Uint8Array())
    await this.#put(this.#key(name, number), content)
  }

  async remove(name: string): Promise<void> {
    await this.#put(this.#markOf(name), new Uint8Array())
    for await (const keys of this.#list(`${this.#prefix}${name}/`)) for (const { key } of keys) await this.#delete(key)
    await this.#delete(this.#markOf(name))
  }

  async *names(): AsyncGenerator<string[]> {
    const prefix = this.#markOf('')
    for await (const marks of this.#list(prefix)) {
      const oldest = this.#now() - MARKED_MS
      const old = marks.filter(({ lastModified }) => Date.parse(lastModified ?? '') < oldest)
      yield old.map(({ key }) => key.slice(prefix.length))
      for (const mark of old) if (await this.#isUnchanged(mark)) await this.#delete(mark.key)
    }
  }

  /** False where the mark was renewed, for an upload that goes on or a blob that could not be removed. */
  async #isUnchanged({ key, lastModified }: Listed): Promise<boolean> {
    const { contents = [] } = await answerOf(this.#client.list({ prefix: key, maxKeys: 1 })).catch(unavailably)
    return contents[0]?.key === key && contents[0].lastModified === lastModified
  }

  #key(name: string, number: number): string {
    return `${this.#prefix}${name}/${number}`
  }

  #markOf(name: string): string {
    return `${this.#prefix}new/${name}`
  }

  async #put(key: string, content: Uint8Array): Promise<void> {
    await answerOf(this.#client.write(key, content)).catch(unavailably)
  }

  async #delete(key: string): Promise<void> {
    await answerOf(this.#client.delete(key)).catch((error: unknown) => {
      if (codeOf(error) !== 'NoSuchKey') throw unavailable(error)
    })
  }

  /** Pages of objects, in the order of their keys. */
  async *#list(prefix: string): AsyncGenerator<Listed[]> {
    for (let startAfter: string | undefined; ; ) {
      const options = { prefix, ...(startAfter === undefined ? {} : { startAfter }) }
      const { contents = [], isTruncated } = await answerOf(this.#client.list(options)).catch(unavailably)
      yield contents
      startAfter = contents.at(-1)?.key
      if (isTruncated !== true || startAfter === undefined) return
    }
  }
}

const SECRETS = ['secretAccessKey', 'sessionToken']

/** The names that S3's own tools read, and those of Bun before them. */
function credentialsOf(env: S3Options['env']): Record<string, string> {
  const names = {
    accessKeyId: ['S3_ACCESS_KEY_ID', 'AWS_ACCESS_KEY_ID'],
    secretAccessKey: ['S3_SECRET_ACCESS_KEY', 'AWS_SECRET_ACCESS_KEY'],
    sessionToken: ['S3_SESSION_TOKEN', 'AWS_SESSION_TOKEN'],
    region: ['S3_REGION', 'AWS_REGION'],
    endpoint: ['S3_ENDPOINT', 'AWS_ENDPOINT_URL_S3', 'AWS_ENDPOINT_URL'],
  }
  const found = Object.entries(names).map(([option, variables]) => [
    option,
    variables.map((variable) => env[variable]).find((value) => value !== undefined && value !== ''),
  ])
  return Object.fromEntries(found.filter(([, value]) => value !== undefined)) as Record<string, string>
}

/** Bun's client has no limit of time. */
const answerOf = <T>(answer: Promise<T>): Promise<T> =>
  within(answer, ANSWER_MS, () => Promise.reject(new Error(`no answer in ${ANSWER_MS / 1000} seconds`)))

const codeOf = (error: unknown): string | undefined => (error as { code?: string }).code

const reasonOf = (error: unknown): string => codeOf(error) ?? (error as Error).message

const unavailable = (cause: unknown): GatewayError =>
  new GatewayError('store_unavailable', `The file store is unavailable: ${reasonOf(cause)}; try again.`, {
    cause,
    retryAfterSeconds: 5,
    shouldRetry: true,
  })

const unavailably = (error: unknown): never => {
  throw unavailable(error)
}
