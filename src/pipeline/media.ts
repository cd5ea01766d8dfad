import type { Identity } from '../accounts/keys.ts'
import type { Config } from '../config/load.ts'
import { GatewayError, invalid } from '../error.ts'
import { bodyBytes } from '../protocols/raw-request.ts'
import { referencesOf } from '../protocols/unread-request.ts'
import type { Files } from '../files/files.ts'
import type { ProtocolName } from '../generation/request.ts'
import { protocols } from '../protocols/index.ts'
import type { MediaReference, ProviderReference, RawRequest } from '../protocols/protocol.ts'
import type { Catalogue, Endpoint } from '../providers/catalogue.ts'
import { inline, toBase64 } from './inline-media.ts'
import { routeUrls, sharingEndpoints, takingEndpoints, mostRequestBytes } from './media-endpoints.ts'
import { MediaFetcher } from './media-fetch.ts'
import { withoutParameters, encodedBytes, MediaMemory, type LoadedMedia, type MediaLease } from './media-memory.ts'

/** Media that may be loaded for one request. */
const MOST_LOADED = 100

/** Whose files may be named, for which models, and until when that matters. */
type Caller = { identity: Pick<Identity, 'accountId' | 'allows'>; request: Pick<Request, 'signal'> }

/** The memory that the media of a request occupy until it is over, and the endpoints that can take them. */
export type ResolvedMedia = { endpoints: readonly Endpoint[]; release(): void }

/** Loads the files and URLs that requests refer to. */
export class MediaResolver {
  readonly #modules: { catalogue: Catalogue; config: Config; files: Files }
  readonly #memory = new MediaMemory()
  readonly #fetcher: MediaFetcher

  constructor(modules: { catalogue: Catalogue; config: Config; files: Files }) {
    this.#modules = modules
    this.#fetcher = new MediaFetcher(modules.config.fetch)
  }

  /**
   * Puts the files and URLs that a request refers to into its body and text, as data, where its providers do not fetch
   * them themselves. Undefined where it refers to none. Throws not_found for a file that this account does not have and
   * for provider-native ids, invalid_request for media that no provider of the model takes in this way, overloaded
   * where the requests in flight fill the memory for media; each names the parameter.
   */
  resolve(caller: Caller, protocol: ProtocolName, rawRequest: RawRequest): Promise<ResolvedMedia> | undefined {
    const named = referencesOf(protocols[protocol].serve, rawRequest)
    const model = rawRequest.model ?? rawRequest.body.model
    // A wrong model is refused by later steps; no file is opened for it before that.
    if (named.length === 0 || typeof model !== 'string' || !caller.identity.allows(model)) return undefined
    return this.#resolve(caller, protocol, rawRequest, model, named)
  }

  async #resolve(
    caller: Caller,
    protocol: ProtocolName,
    rawRequest: RawRequest,
    model: string,
    named: readonly (MediaReference | ProviderReference)[],
  ): Promise<ResolvedMedia> {
    const { catalogue, config } = this.#modules
    const lease = this.#memory.lease()
    try {
      const references = named.filter((reference): reference is MediaReference => reference.source.type !== 'provider')
      const all = sharingEndpoints(catalogue.endpoints(model, protocol), protocol, named)
      const { endpoints, toFetch } = routeUrls(config, all, references)
      refuseTooMany([...references.filter(({ source }) => source.type === 'file'), ...toFetch])
      const loaded = await this.#load(caller, references, toFetch, lease, mostRequestBytes(config, endpoints))
      const taking = takingEndpoints(config, endpoints, loaded, bodyBytes(rawRequest))
      lease.add(encodedBytes(loaded.filter(({ reference }) => reference.source.type === 'file')))
      if (loaded.length > 0) await inline(rawRequest, loaded)
      return { endpoints: taking, release: () => lease.release() }
    } catch (error) {
      lease.release()
      throw error
    }
  }

  /** Files first, then what was fetched. Fetched media are leased here, as they come. */
  async #load(
    { identity: { accountId }, request }: Caller,
    references: readonly MediaReference[],
    toFetch: readonly (MediaReference & { url: string })[],
    lease: MediaLease,
    mostBytes: number,
  ): Promise<LoadedMedia[]> {
    const files = await findFiles(this.#modules.files, accountId, references)
    const fetched = await this.#fetcher.fetchAll({ accountId, client: request.signal, lease, mostBytes }, toFetch)
    return [...files, ...fetched]
  }
}

function refuseTooMany(toLoad: readonly MediaReference[]): void {
  if (toLoad.length > MOST_LOADED)
    throw invalid(
      toLoad[MOST_LOADED]!.param,
      `is one of ${toLoad.length} files and URLs to load for this request; ${MOST_LOADED} are the most`,
    )
}

/** The files that a request refers to. One that is named twice is read once. */
async function findFiles(
  files: Files,
  accountId: string,
  references: readonly MediaReference[],
): Promise<LoadedMedia[]> {
  const reads = new Map<string, Promise<string>>()
  const loaded = references.map(async (reference): Promise<LoadedMedia[]> => {
    const { source, param } = reference
    if (source.type !== 'file') return []
    const file = await files.find(accountId, source.id)
    if (file === undefined) throw unknownFile(param, source.id)
    // Deleted since it was found, it never existed for its owner.
    const refuse = (error: unknown): Promise<never> =>
      Promise.reject(isNotFound(error) ? unknownFile(param, source.id) : error)
    const base64 = (): Promise<string> => {
      const read = reads.get(file.id) ?? files.bytes(file).then(toBase64, refuse)
      reads.set(file.id, read)
      return read
    }
    return [
      { reference, mediaType: withoutParameters(file.mediaType), filename: file.filename, bytes: file.bytes, base64 },
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
