import type { Identity } from '../accounts/keys.ts'
import type { Config } from '../config/load.ts'
import { GatewayError } from '../error.ts'
import type { Files } from '../files/files.ts'
import { MediaFetcher } from './media-fetch.ts'
import {
  type LoadableReference,
  type LoadedMedia,
  type MediaLease,
  MediaMemory,
  withoutParameters,
} from './media-memory.ts'
import type { RoutedRequest } from './routing/candidates.ts'

/** Whose files may be named, for which models, and until when that matters. */
export type MediaCaller = RoutedRequest & {
  identity: Pick<Identity, 'accountId'>
  request: Pick<Request, 'signal'>
}

/** Loads the files and URLs of requests, and lends the memory for them. */
export class MediaLoader {
  readonly #files: Files
  readonly #memory = new MediaMemory()
  readonly #fetcher: MediaFetcher

  constructor({ config, files }: { config: Pick<Config, 'fetch'>; files: Files }) {
    this.#files = files
    this.#fetcher = new MediaFetcher(config.fetch)
  }

  lease(): MediaLease {
    return this.#memory.lease()
  }

  /**
   * Files first, then what was fetched; `mostBytes`: of base64, in the largest request that any endpoint takes. Fetched
   * media are leased here, as they come.
   */
  async load<Reference extends LoadableReference, Url extends LoadableReference & { url: string }>(
    { identity: { accountId }, request }: MediaCaller,
    references: readonly Reference[],
    toFetch: readonly Url[],
    lease: MediaLease,
    mostBytes: number,
  ): Promise<LoadedMedia<Reference | Url>[]> {
    const files = await findFiles(this.#files, accountId, references)
    const fetched = await this.#fetcher.fetchAll({ accountId, client: request.signal, lease, mostBytes }, toFetch)
    return [...files, ...fetched]
  }
}

/** The files that a request refers to. One that is named twice is read once. */
async function findFiles<Reference extends LoadableReference>(
  files: Files,
  accountId: string,
  references: readonly Reference[],
): Promise<LoadedMedia<Reference>[]> {
  const reads = new Map<string, Promise<Uint8Array>>()
  const loaded = references.map(async (reference): Promise<LoadedMedia<Reference>[]> => {
    const { source, param } = reference
    if (source.type !== 'file') return []
    const file = await files.find(accountId, source.id)
    if (file === undefined) throw unknownFile(param, source.id)
    // Deleted since it was found, it never existed for its owner.
    const refuse = (error: unknown): Promise<never> =>
      Promise.reject(isNotFound(error) ? unknownFile(param, source.id) : error)
    const data = (): Promise<Uint8Array> => {
      const read = reads.get(file.id) ?? files.bytes(file).catch(refuse)
      reads.set(file.id, read)
      return read
    }
    return [
      { reference, mediaType: withoutParameters(file.mediaType), filename: file.filename, bytes: file.bytes, data },
    ]
  })
  return (await Promise.all(loaded)).flat()
}

const isNotFound = (error: unknown): boolean => error instanceof GatewayError && error.code === 'not_found'

const unknownFile = (param: string, id: string): GatewayError =>
  new GatewayError(
    'not_found',
    `${param}: no file '${id.slice(0, 200)}' is stored; it may have expired or been deleted. ` +
      'Files stored at a provider are not known here: upload the file with POST /v1/files.',
    { param },
  )
