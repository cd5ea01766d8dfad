import type { AppContext, AuthenticatedRequest } from '../../context.ts'
import { GatewayError } from '../../error.ts'
import { CHARACTERS_PER_TOKEN } from '../../ledger/estimate.ts'
import type { RequestContext } from '../../protocols/protocol.ts'
import type { ReceivedBody } from '../../protocols/raw-request.ts'
import { LossReport } from '../../protocols/translation.ts'
import type { PreparedRequest, RequestWriter } from '../../providers/attempt.ts'
import type { Endpoint } from '../../providers/catalogue.ts'
import { errorData, errorOf } from '../../worker/errors.ts'
import { workers } from '../../worker/pool.ts'
import type { GenerationRoute } from '../hooks.ts'
import type { ResolvedMedia } from '../media.ts'
import { encodedBytes, type LoadableReference, type LoadedMedia, type MediaLease } from '../media-memory.ts'
import type { SelectedRequest } from '../prepare.ts'
import { responseContext } from '../response-context.ts'
import { leftOut, splitLonger } from '../routing/candidates.ts'
import type { TranslationOptions } from '../strict.ts'
import type { Given, HeavyJob, HeavyRead, HeavyResult, Need } from './job.ts'

const NEVER = new AbortController().signal

/** A job that needs more things than there are has a defect. */
const MOST_RUNS = 6

/** `model`: where it is known without parsing the body. `mayStayUnread`: see `parse`. */
type Received = Pick<ReceivedBody, 'bytes'> & {
  options: TranslationOptions
  model: string | undefined
  mayStayUnread: boolean
  /** See `Given`. */
  api?: unknown
}

type IndexedReference = LoadableReference & { index: number; url?: string }

/**
 * A request that another process reads and writes. Its bytes stay here: for another endpoint, and to count its tokens,
 * the same is done again.
 */
export class HeavyRequest implements RequestWriter {
  readonly #app: AppContext
  readonly #inbound: AuthenticatedRequest
  readonly #route: GenerationRoute
  readonly #received: Received
  readonly #given: Given = {}
  /** All endpoints of the model; the process knows them by their index. */
  #all: readonly Endpoint[] = []
  /** Those that can serve the request, in the order in which they are tried. */
  #endpoints: readonly Endpoint[] = []
  #context: RequestContext | undefined
  #lease: MediaLease | undefined
  #loaded: readonly LoadedMedia<IndexedReference>[] = []
  #data: readonly Uint8Array[] = []
  readonly #written = new Map<Endpoint['target'], () => PreparedRequest>()

  constructor(app: AppContext, inbound: AuthenticatedRequest, route: GenerationRoute, received: Received) {
    this.#app = app
    this.#inbound = inbound
    this.#route = route
    this.#received = received
    if (received.api !== undefined) this.#given.api = received.api
  }

  get context(): RequestContext {
    return this.#context!
  }

  /** To be released, whatever becomes of the request. */
  get media(): ResolvedMedia | undefined {
    const lease = this.#lease
    return lease && { endpoints: this.#endpoints, release: () => lease.release() }
  }

  /** See `select` of prepare.ts. */
  async select(): Promise<SelectedRequest> {
    const { model } = this.#received
    if (model !== undefined) this.#supplyEndpoints(model)
    const { output, bytes } = await this.#write(0)
    const { hasTools, makesObjects, worst, candidates: responses, classes, endpoints, found } = output
    this.#endpoints = endpoints.map((index) => this.#all[index]!)
    if (found !== undefined) this.#route.hooks.adopt?.(found, bytes, this.#received.bytes.length)
    this.#context = this.#contextOf(output)
    const candidates = this.#inbound.candidates!
    const { dropped, preferences } = candidates
    return {
      media: this.media,
      context: this.#context,
      preparedRequests: this,
      ...splitLonger(candidates, this.#endpoints),
      dropped: [...dropped, ...leftOut(this.#all, this.#endpoints, 'cannot take the request')],
      preferences,
      hasTools,
      makesObjects,
      worst: () => worst,
      candidates: responses,
      classes,
      promptCount: { tokens: () => this.#countTokens(), free() {} },
    }
  }

  take(endpoint: Endpoint): PreparedRequest | Promise<PreparedRequest> {
    if (this.#written.has(endpoint.target)) return this.#takeWritten(endpoint)
    return this.#write(this.#endpoints.indexOf(endpoint)).then(() => this.#takeWritten(endpoint))
  }

  #takeWritten(endpoint: Endpoint): PreparedRequest {
    const written = this.#written.get(endpoint.target)!
    this.#written.delete(endpoint.target)
    return written()
  }

  #contextOf({ settings: request, body, promptEstimate }: HeavyRead): RequestContext {
    const settings = { body, text: '', headers: new Headers() }
    const parsed = { rawRequest: settings, options: this.#received.options }
    return {
      ...responseContext(this.#app, this.#inbound, this.#route, parsed, request),
      ...this.#route.hooks.translation?.(settings),
      settings,
      ...(promptEstimate === undefined ? {} : { promptEstimate }),
    }
  }

  /**
   * Has the request written for the endpoint at this index, and for those before the first that can take it. `bytes`:
   * those of what was found.
   */
  async #write(from: number): Promise<{ output: HeavyRead; bytes: Buffer }> {
    const { output, bytes } = await this.#run<HeavyRead>({ type: 'write', from })
    const last = output.written.at(-1)
    const end = last === undefined || 'error' in last ? 0 : last.bytes
    for (const [offset, written] of output.written.entries())
      this.#written.set(this.#all[output.endpoints[from + offset]!]!.target, () => {
        if ('error' in written) throw errorOf(written.error)
        const losses = new LossReport()
        for (const { code, path, reason } of written.losses) losses.add(code, path, reason)
        return { ...written, body: [bytes.subarray(0, end)], losses }
      })
    return { output, bytes: bytes.subarray(end) }
  }

  /** Tokens are also counted for a client that left, and estimated where they cannot be counted. */
  async #countTokens(): Promise<number> {
    try {
      const { output } = await this.#run<{ tokens: number }>({ type: 'count' }, NEVER)
      return output.tokens
    } catch (error) {
      if (!(error instanceof GatewayError)) throw error
      return Math.ceil(this.#received.bytes.length / CHARACTERS_PER_TOKEN)
    }
  }

  /** Runs the job, again with each thing that it turns out to need. */
  async #run<Result extends HeavyResult>(
    ask: HeavyJob['ask'],
    signal = this.#inbound.request.signal,
  ): Promise<{ output: Result; bytes: Buffer }> {
    const { id, identity } = this.#inbound
    for (let runs = 0; runs < MOST_RUNS; runs++) {
      const done = await workers.run({
        kind: 'prepare',
        input: this.#jobOf(ask),
        bytes: [this.#received.bytes, ...this.#data],
        accountId: identity.accountId,
        signal,
      })
      const output = done.output as HeavyResult
      if (!('need' in output)) return { output: output as Result, bytes: done.bytes }
      await this.#supply(output.need)
    }
    throw new GatewayError('internal_error', 'Internal error.', { cause: new Error(`request ${id} needs too much`) })
  }

  #jobOf(ask: HeavyJob['ask']): HeavyJob {
    const { fetch, limits } = this.#app.config
    const { id, identity, request } = this.#inbound
    const { options, mayStayUnread } = this.#received
    return {
      id,
      accountId: identity.accountId,
      protocol: this.#route.protocol,
      fromPath: this.#route.fromPath,
      headers: [...request.headers],
      options,
      mayStayUnread,
      config: { fetch, limits },
      ask,
      given: this.#given,
    }
  }

  async #supply(need: Need): Promise<void> {
    const { reasoningReplay, issuedIds, media } = this.#app
    const { accountId } = this.#inbound.identity
    switch (need.type) {
      case 'endpoints':
        this.#inbound.routing = need.routing
        return this.#supplyEndpoints(need.model)
      case 'reasoning':
        this.#given.reasoning = await reasoningReplay.find(accountId, need.keys)
        return
      case 'issuedIds':
        this.#given.issuedIds = await issuedIds.find(accountId, need.ids)
        return
      case 'media':
        this.#lease = media.loader.lease()
        this.#loaded = await media.loader.load(
          this.#inbound,
          need.references.map((reference, index) => ({ ...reference, index })),
          need.toFetch.map((reference, index) => ({ ...reference, index })),
          this.#lease,
          need.mostBytes,
        )
        this.#given.media = this.#loaded.map(({ reference: { index, url }, mediaType, filename, bytes }) => ({
          index,
          isFetched: url !== undefined,
          mediaType,
          filename,
          bytes,
        }))
        return
      case 'data':
        this.#lease!.add(encodedBytes(this.#loaded.filter(({ reference }) => reference.url === undefined)))
        this.#data = await Promise.all(this.#loaded.map(({ data }) => data()))
        this.#given.data = this.#data.map(({ length }) => length)
        return
      case 'api':
        this.#given.api = await this.#route.hooks.supply?.(need.needed)
    }
  }

  #supplyEndpoints(model: string): void {
    const { candidates, reasoningReplay } = this.#app
    const { accountId } = this.#inbound.identity
    try {
      const { endpoints, preferences } = candidates.of(this.#inbound, model, this.#route.protocol)
      this.#all = endpoints
      if (preferences.requireParameters === true) this.#received.options = { ...this.#received.options, strict: true }
      this.#given.endpoints = {
        list: this.#all.map(withoutSecrets),
        mayUse: candidates.mayUse(this.#inbound, model),
        issuers: reasoningReplay.candidates(accountId, this.#all),
      }
    } catch (error) {
      const data = errorData(error)
      if (data === undefined) throw error
      this.#given.endpoints = { error: data }
    }
  }
}

/** The other process needs no keys. */
const withoutSecrets = ({ provider: { apiKey: _, apiKeys: _keys, ...provider }, ...endpoint }: Endpoint): Endpoint => ({
  ...endpoint,
  credentials: {},
  provider: { ...provider, headers: {} },
})
