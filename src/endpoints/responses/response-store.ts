import type { AppContext, AuthenticatedRequest } from '../../context.ts'
import type { GatewayError } from '../../error.ts'
import type { ProtocolName, RequestSettings } from '../../generation/request.ts'
import type { Frame } from '../../http/frames.ts'
import type { OpenGeneration } from '../../ledger/ledger.ts'
import type { Outcome } from '../../ledger/outcomes.ts'
import { log } from '../../log/log.ts'
import { isPending } from '../../pipeline/background.ts'
import type { ClosableGeneration, Generation, GenerationHooks } from '../../pipeline/hooks.ts'
import type { RawRequest, TranslationContext } from '../../protocols/protocol.ts'
import { bodyBytes } from '../../protocols/raw-request.ts'
import { failureCode, failureMessage } from '../../protocols/responses/shapes.ts'
import { parseResponse, type Upstream } from '../../providers/attempt.ts'
import type { Endpoint } from '../../providers/catalogue.ts'
import { keyedName } from '../../providers/names.ts'
import { itemText, writtenResponse } from '../../store/responses.ts'
import type { BackgroundWork, ItemText, WrittenResponse } from '../../store/store.ts'
import { type Item, withIds } from './expand.ts'
import { expandStored, type FoundItems, type NeededItems, storedTexts } from './heavy.ts'

const API: ProtocolName = 'responses'

const DAY_MS = 86_400_000

/**
 * Hooks of one request to the Responses API: puts stored conversations into it, stores its response, and leaves the
 * response to its provider where it runs in the background.
 */
export class ResponseStore implements GenerationHooks {
  readonly #app: AppContext
  readonly #accountId: string
  /** The items that the client sent, as they are stored with the response of this id. */
  #inputItems: (responseId: string) => ItemText[] = () => []
  #wantsBackground = false
  #open: OpenGeneration | undefined
  /** The response as its client knows it, while its provider works on it in the background. */
  #pending: Item | undefined
  #saving: Promise<void> | undefined
  /** Set for a stream in the background, which is stored as it begins, and was then: so it can be cancelled. */
  #begun: Promise<boolean> | undefined
  /** Bytes of the request as its client sent it; undefined where its response is not to be stored. */
  #bytesToKeep: number | undefined
  #releaseQuota: (() => void) | undefined

  constructor(app: AppContext, { identity }: AuthenticatedRequest) {
    this.#app = app
    this.#accountId = identity.accountId
  }

  async beforeRead(rawRequest: RawRequest): Promise<void> {
    if (rawRequest.body.store !== false) this.#bytesToKeep = bodyBytes(rawRequest)
    const items = await expandStored(this.#app, this.#accountId, rawRequest)
    this.#inputItems = (responseId) => withIds(items, responseId).map(itemText)
    this.#wantsBackground = rawRequest.body.background === true
  }

  supply(needed: unknown): ReturnType<typeof storedTexts> {
    const { store, config } = this.#app
    return storedTexts(store.responses, this.#accountId, needed as NeededItems, config.limits.bodyBytes)
  }

  adopt(found: unknown, bytes: Buffer, bodyBytes: number): void {
    const { isStored, isBackground, items } = found as FoundItems
    if (isStored) this.#bytesToKeep = bodyBytes
    this.#wantsBackground = isBackground
    this.#inputItems = () => {
      let at = 0
      return items.map(({ id, length }) => ({ id, text: bytes.subarray(at, (at += length)) }))
    }
  }

  /** The client's own `store` decides: many providers do not report it. */
  translation({ body }: RawRequest): Pick<TranslationContext, 'keep' | 'follow'> {
    return {
      ...(body.store === false ? {} : { keep: (response) => this.#save(response, undefined) }),
      ...(this.#wantsBackground ? { follow: (theirs, ours) => this.#observe(theirs, ours) } : {}),
    }
  }

  /** Work in the background can be fetched or cancelled only by the id in the first response, so that is waited for. */
  survivesClient({ stream }: RequestSettings, endpoints: readonly Endpoint[]): boolean {
    return this.#wantsBackground && !stream && endpoints.some(({ protocol }) => protocol === API)
  }

  beforeReserve(model: string, endpoints: readonly Endpoint[]): Promise<void> | undefined {
    return this.#bytesToKeep === undefined ? undefined : this.#holdQuota(model, endpoints, this.#bytesToKeep)
  }

  async #holdQuota(model: string, endpoints: readonly Endpoint[], bytes: number): Promise<void> {
    const { keptQuota, prices } = this.#app
    const price = prices.of(model, endpoints)
    this.#releaseQuota = await keptQuota.hold({ kind: 'responses', accountId: this.#accountId, bytes, price })
  }

  onRefused(): void {
    this.#releaseQuota?.()
  }

  onReserve(open: OpenGeneration): void {
    this.#open = open
  }

  /** Records whether the provider works on the response in the background, and under which id. */
  #observe(theirs: Record<string, unknown>, ours: Record<string, unknown>): void {
    const open = this.#open!
    const { served } = open.meter
    open.background =
      served !== undefined && typeof theirs.id === 'string' && isPending(theirs)
        ? { provider: keyedName(served.provider, served.credential), id: theirs.id }
        : undefined
    this.#pending = ours
    if (open.background !== undefined && open.request.streamed && this.#begun === undefined)
      this.#saveBeginning(ours, open.background)
  }

  /** A response that could not be stored is stored with its end, or as its client leaves. */
  #saveBeginning(ours: Item, work: BackgroundWork): void {
    const written = writtenResponse(ours)
    if (written === undefined) return
    this.#begun = this.#savingOf(written, work).then(
      () => true,
      () => false,
    )
    this.#app.background.begin(this.#accountId, written.id, this.#begun)
  }

  /** The first response to a request in the background, on which its provider still works. */
  async onResponse({ open, inbound }: Generation, upstream: Upstream, text: string): Promise<string | undefined> {
    const { sameProtocol, protocol, context } = upstream
    if (!sameProtocol || !this.#wantsBackground || !isPending(parseResponse(text))) return undefined
    const ours = protocol.passthrough(context).answer(text)
    if (open.background === undefined) return undefined
    // A client that left before this response does not know its id.
    if (inbound.request.signal.aborted) open.background.unwanted = true
    await this.#leaveOpen(open, 'failed')
    return ours
  }

  keepTexts(written: WrittenResponse): void {
    this.#saveWritten(written, undefined)
  }

  onInterrupt({ open }: ClosableGeneration, outcome: Outcome): Promise<void> | undefined {
    const isRunning = open.background !== undefined && open.meter.outcome === undefined
    return isRunning ? this.#leaveOpen(open, outcome) : undefined
  }

  #leaveOpen(open: OpenGeneration, outcome: Outcome): Promise<void> {
    return this.#app.background.leaveOpen(open, outcome, (work) => {
      if (this.#pending !== undefined) this.#save(this.#pending, work)
      return this.saved()
    })
  }

  saved(): Promise<void> | undefined {
    const release = this.#releaseQuota
    if (release !== undefined) {
      if (this.#saving === undefined) release()
      else this.#saving.then(release, release)
    }
    return this.#saving
  }

  onUnrecorded(last: Frame[], error: GatewayError): Frame[] {
    return [...last.slice(0, -1), ...failedFrames(last.at(-1), error)]
  }

  #save(response: Item, upstream: BackgroundWork | undefined): void {
    const written = writtenResponse(response)
    if (written === undefined) return
    if (this.#begun === undefined) this.#saveWritten(written, upstream)
    else this.#saving = this.#saveBegun(response, this.#begun, written, upstream)
  }

  /** One that was stored as it began is replaced by its result, unless it was deleted or has ended otherwise. */
  async #saveBegun(
    response: Item,
    begun: Promise<boolean>,
    written: WrittenResponse,
    upstream: BackgroundWork | undefined,
  ): Promise<void> {
    if (!(await begun)) await this.#savingOf(written, upstream)
    else if (upstream === undefined) await this.#app.store.responses.finish(this.#accountId, written.id, response)
  }

  #saveWritten(written: WrittenResponse, upstream: BackgroundWork | undefined): void {
    this.#saving = this.#savingOf(written, upstream)
  }

  #savingOf(written: WrittenResponse, upstream: BackgroundWork | undefined): Promise<void> {
    const { store, config, clock } = this.#app
    return store.responses.save(this.#accountId, {
      ...written,
      inputItems: this.#inputItems(written.id),
      expiresAt: clock.now() + config.responses.keepDays * DAY_MS,
      upstream,
    })
  }
}

/** The end of a stream whose response could not be stored, in place of its last frame. */
function failedFrames(last: Frame | undefined, error: GatewayError): Frame[] {
  if (last === undefined) return []
  log.error('A response could not be stored', error)
  const { sequence_number: at, response } = JSON.parse(last.data) as { sequence_number: number; response: Item }
  const [code, message] = [failureCode(error), failureMessage(error)]
  return [
    { event: 'error', data: JSON.stringify({ type: 'error', sequence_number: at, code, message, param: null }) },
    {
      event: 'response.failed',
      data: JSON.stringify({
        type: 'response.failed',
        sequence_number: at + 1,
        response: { ...response, status: 'failed', error: { code, message } },
      }),
    },
  ]
}
