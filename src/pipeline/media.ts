import { invalid } from '../error.ts'
import { bodyBytes } from '../protocols/raw-request.ts'
import { referencesOf } from '../protocols/unread-request.ts'
import type { ProtocolName } from '../generation/request.ts'
import { protocols } from '../protocols/index.ts'
import type { MediaReference, ProviderReference, RawRequest } from '../protocols/protocol.ts'
import type { Endpoint } from '../providers/catalogue.ts'
import { inline } from './inline-media.ts'
import type { IssuedIds } from './issued-ids.ts'
import {
  idsIn,
  isStored,
  type MediaConfig,
  routeUrls,
  storingEndpoints,
  takingEndpoints,
  mostRequestBytes,
} from './media-endpoints.ts'
import type { MediaCaller, MediaLoader } from './media-load.ts'
import { TooHeavy } from './heavy/weight.ts'
import { encodedBytes } from './media-memory.ts'
import type { CandidateFinder } from './routing/candidates.ts'

/** Media that may be loaded for one request. */
const MOST_LOADED = 100

/** The memory that the media of a request occupy until it is over, and the endpoints that can take them. */
export type ResolvedMedia = { endpoints: readonly Endpoint[]; release(): void }

export type MediaModules = {
  candidates: Pick<CandidateFinder, 'of' | 'mayUse'>
  config: MediaConfig
  loader: Pick<MediaLoader, 'lease' | 'load'>
  issuedIds: Pick<IssuedIds, 'find'>
}

/** A request with media. `named`: what it refers to; `mostBytes`: of stored files that are loaded here. */
type RequestWithMedia = {
  protocol: ProtocolName
  rawRequest: RawRequest
  model: string
  named: readonly (MediaReference | ProviderReference)[]
  mostBytes: number
}

/** Puts the files and URLs that requests refer to into them. */
export class MediaResolver {
  readonly #modules: MediaModules

  constructor(modules: MediaModules) {
    this.#modules = modules
  }

  get loader(): MediaModules['loader'] {
    return this.#modules.loader
  }

  /**
   * Puts the files and URLs that a request refers to into its body and text, as data, where its providers do not fetch
   * them themselves. Undefined where it refers to none. Throws not_found for a file that this account does not have and
   * for ids that no provider issued to it, invalid_request for media that no provider of the model takes in this way,
   * overloaded where the requests in flight fill the memory for media; each names the parameter.
   */
  resolve(
    caller: MediaCaller,
    protocol: ProtocolName,
    rawRequest: RawRequest,
    mostBytes = Infinity,
  ): Promise<ResolvedMedia> | undefined {
    const named = referencesOf(protocols[protocol].serve, rawRequest)
    const model = rawRequest.model ?? rawRequest.body.model
    // A wrong model is refused by later steps; no file is opened for it before that.
    if (named.length === 0 || typeof model !== 'string' || !this.#modules.candidates.mayUse(caller, model))
      return undefined
    return this.#resolve(caller, { protocol, rawRequest, model, named, mostBytes })
  }

  async #resolve(
    caller: MediaCaller,
    { protocol, rawRequest, model, named, mostBytes }: RequestWithMedia,
  ): Promise<ResolvedMedia> {
    const { candidates, config, loader, issuedIds } = this.#modules
    const lease = loader.lease()
    try {
      const issued = await issuedIds.find(caller.identity.accountId, idsIn(named))
      const references = named.filter((reference): reference is MediaReference => !isStored(reference, issued))
      const stored = named.filter((reference) => isStored(reference, issued))
      const all = storingEndpoints(candidates.of(caller, model, protocol).endpoints, protocol, stored, issued)
      const { endpoints, toFetch } = routeUrls(config, all, references)
      refuseTooMany([...references.filter(({ source }) => source.type === 'file'), ...toFetch])
      const loaded = await loader.load(caller, references, toFetch, lease, mostRequestBytes(config, endpoints))
      // Only stored files are loaded again at no cost.
      if (toFetch.length === 0 && encodedBytes(loaded) >= mostBytes) throw new TooHeavy()
      const taking = takingEndpoints(config, endpoints, loaded, bodyBytes(rawRequest))
      lease.add(encodedBytes(loaded.filter(({ reference }) => reference.source.type === 'file')))
      if (loaded.length > 0) await inline(rawRequest, loaded)
      return { endpoints: taking, release: () => lease.release() }
    } catch (error) {
      lease.release()
      throw error
    }
  }
}

function refuseTooMany(toLoad: readonly MediaReference[]): void {
  if (toLoad.length > MOST_LOADED)
    throw invalid(
      toLoad[MOST_LOADED]!.param,
      `is one of ${toLoad.length} files and URLs to load for this request; ${MOST_LOADED} are the most`,
    )
}
