import type { Clock } from '../accounts/clock.ts'
import type { Config } from '../config/load.ts'
import { Deadline, deadlines, type Expiring } from '../deadlines.ts'
import { asGatewayError, GatewayError } from '../error.ts'
import type { ProtocolName } from '../generation/request.ts'
import { readAll } from '../http/call.ts'
import type { CallSignal } from '../http/connection.ts'
import type { Ledger, OpenGeneration } from '../ledger/ledger.ts'
import type { Outcome } from '../ledger/outcomes.ts'
import { isObject } from '../json/parse.ts'
import { log } from '../log/log.ts'
import { scrub } from '../log/secrets.ts'
import { present } from '../protocols/fields.ts'
import { protocols } from '../protocols/index.ts'
import type { Quirks } from '../protocols/quirks.ts'
import { parseResponse, transport } from '../providers/attempt.ts'
import type { Catalogue } from '../providers/catalogue.ts'
import { heldBy } from '../providers/names.ts'
import type { BackgroundWork, Store, StoredResponse } from '../store/store.ts'
import { IssuedIdRecorder, type IssuedIds } from './issued-ids.ts'

type Json = Record<string, unknown>

/** The API whose generations may run in the background. */
const API: ProtocolName = 'responses'

const idOf = ({ request }: OpenGeneration): string => protocols[API].serve.idPrefix + request.id

/** A response that runs in the background, as its provider reports it. */
type ProviderResponse = { response: Json; quirks: Quirks }

const POLL_EVERY_MS = 5_000
const POLLED_BYTES = 64 * 1024 * 1024

/** A response without an end after this time is closed as timed out. */
const FOLLOWED_MS = 86_400_000

const ENDED: ReadonlySet<unknown> = new Set(['completed', 'incomplete', 'failed', 'cancelled'])

/** Reports whether a provider still works on a response. */
export const isPending = (response: unknown): boolean => isResponse(response) && !ENDED.has(response.status)

const isResponse = (response: unknown): response is Json => isObject(response) && typeof response.status === 'string'

type Modules = {
  catalogue: Catalogue
  config: Config
  ledger: Ledger
  store: Store
  issuedIds: IssuedIds
  clock: Clock
}

/**
 * Responses that providers go on with after the request (`background: true`). Their generations stay open in the
 * ledger, over restarts too, until the provider reports their end.
 */
export class BackgroundResponses implements Expiring {
  readonly #modules: Modules
  readonly #polls = new Map<OpenGeneration, Promise<void>>()
  /** Several callers may learn of one end: each waits for the same record before it reports that. */
  readonly #settlements = new WeakMap<OpenGeneration, Promise<void>>()
  /** Settlements under way, by account and response: their generations are not open any more. */
  readonly #settling = new Map<string, Promise<void>>()
  /** Streams that are being stored as they begin, by account and response. */
  readonly #beginning = new Map<string, Promise<unknown>>()
  readonly #stopping = new AbortController()
  readonly #nextRound = new Deadline(this)

  constructor(modules: Modules) {
    this.#modules = modules
  }

  /** Begins the rounds of polls, which end when no response is open. */
  roundSoon(): void {
    const { ledger } = this.#modules
    if (!this.#stopping.signal.aborted && ledger.deferred.some(({ request }) => request.api === API))
      deadlines.setWithin(this.#nextRound, POLL_EVERY_MS)
  }

  onDeadline(): void {
    this.round()
    this.roundSoon()
  }

  /** Polls the provider of every open response that is not being polled already, so that a slow one delays no other. */
  round(): void {
    for (const open of this.#modules.ledger.deferred)
      if (open.request.api === API && !this.#polls.has(open)) this.#polls.set(open, this.#poll(open))
  }

  /** A provider or store that fails is tried again in a later round. */
  async #poll(open: OpenGeneration): Promise<void> {
    try {
      await this.#follow(open, this.#stopping.signal)
    } catch (error) {
      if (!(error instanceof GatewayError)) log.error('A background response could not be polled', error)
    } finally {
      this.#polls.delete(open)
    }
  }

  /** Aborts the polls in flight; the next start polls again. */
  async stop(): Promise<void> {
    this.#stopping.abort()
    deadlines.clear(this.#nextRound)
    await Promise.all(this.#polls.values())
  }

  /**
   * Leaves a generation open for its provider to finish. `store` keeps the response for its client, in the same
   * transaction. Where that fails no client could ever fetch it, so it is cancelled and closed, and the error thrown.
   */
  async leaveOpen(
    open: OpenGeneration,
    outcome: Outcome,
    store: (work: BackgroundWork) => Promise<void> | undefined,
  ): Promise<void> {
    const { ledger } = this.#modules
    const work = open.background!
    try {
      await Promise.all([store(work), ledger.defer(open)])
      this.roundSoon()
    } catch (error) {
      void this.#cancel(open.request.model, work)
      open.deferred = false
      open.background = undefined
      await ledger.close(open, outcome).catch(() => {})
      throw error
    }
  }

  /** A stream is being stored: its client may have its id before that is done. `saving` never rejects. */
  begin(accountId: string, id: string, saving: Promise<unknown>): void {
    const key = `${accountId} ${id}`
    this.#beginning.set(key, saving)
    void saving.then(() => this.#beginning.delete(key))
  }

  /** A stored response, also one that is still being stored here. */
  async find(accountId: string, id: string): Promise<StoredResponse | undefined> {
    await this.#beginning.get(`${accountId} ${id}`)
    return this.#modules.store.responses.find(accountId, id)
  }

  /** A stored response as it is now, or as it was stored where its provider does not report it. */
  async refresh(accountId: string, stored: StoredResponse, cancel: boolean, signal: CallSignal): Promise<Json> {
    const { id, upstream, response } = stored
    if (upstream === undefined) {
      // Its record may be written in a transaction of its own, a moment later.
      await this.#settling.get(`${accountId} ${id}`)
      return response
    }
    const open = this.#find(accountId, id)
    if (cancel) this.#markCancelled(accountId, id)
    const reported = await this.#query(String(response.model), { ...upstream, unwanted: cancel }, signal)
    if (reported === undefined) return response
    if (!isPending(reported.response)) await this.#end(accountId, stored, open, reported)
    return withClientIdentity(reported.response, stored)
  }

  /**
   * Deletes a stored response; false if there is none. It is cancelled at its provider, now or as soon as that can be
   * reached; until then the generation is followed, and charged.
   */
  async delete(accountId: string, id: string, signal: CallSignal): Promise<boolean> {
    const { ledger, store } = this.#modules
    const open = this.#find(accountId, id)
    const elsewhere = open === undefined ? await this.find(accountId, id) : undefined
    if (open?.background !== undefined) open.background.unwanted = true
    this.#markCancelled(accountId, id)
    const deferring = open === undefined ? undefined : ledger.defer(open)
    const [deleted] = await Promise.all([store.responses.delete(accountId, id), deferring])
    if (open === undefined) {
      // The process that has its generation, or the stream that it is, settles what it cost.
      if (elsewhere?.upstream !== undefined) await this.#cancel(String(elsewhere.response.model), elsewhere.upstream)
      return deleted
    }
    this.roundSoon()
    await this.#follow(open, signal).catch(() => {})
    return deleted
  }

  #find(accountId: string, id: string): OpenGeneration | undefined {
    return this.#modules.ledger.deferred.find((open) => open.request.accountId === accountId && idOf(open) === id)
  }

  /** Marks a response that still streams here: its provider is about to end it as its client wants. */
  #markCancelled(accountId: string, id: string): void {
    for (const open of this.#modules.ledger.open)
      if (open.background !== undefined && open.request.accountId === accountId && idOf(open) === id) {
        open.isCancelled = true
        open.meter.markLeft()
      }
  }

  /** Polls once, whether or not the response is stored here, and settles what it costs if it has ended. */
  async #follow(open: OpenGeneration, signal: CallSignal): Promise<void> {
    const { ledger, store, clock } = this.#modules
    const { request, background } = open
    if (clock.now() - request.createdAt > FOLLOWED_MS) return ledger.close(open, 'timed-out')
    const reported = background === undefined ? undefined : await this.#query(request.model, background, signal)
    if (reported === undefined || isPending(reported.response)) return
    await this.#end(request.accountId, await store.responses.find(request.accountId, idOf(open)), open, reported)
  }

  /** The end of a response is the end of its generation: both are written together. */
  async #end(
    accountId: string,
    stored: StoredResponse | undefined,
    open: OpenGeneration | undefined,
    reported: ProviderResponse,
  ): Promise<void> {
    const provider = stored?.upstream?.provider ?? open?.background?.provider
    await Promise.all([
      open === undefined ? this.#settling.get(`${accountId} ${stored?.id}`) : this.#settleOnce(open, reported),
      provider === undefined ? undefined : this.#keepIds(accountId, provider, reported),
      stored?.upstream === undefined
        ? undefined
        : this.#modules.store.responses.finish(accountId, stored.id, withClientIdentity(reported.response, stored)),
    ])
  }

  async #keepIds(accountId: string, provider: string, { response }: ProviderResponse): Promise<void> {
    const recorder = new IssuedIdRecorder(protocols[API], provider)
    recorder.add(response)
    await this.#modules.issuedIds.keep(accountId, recorder).catch(() => {})
  }

  #settleOnce(open: OpenGeneration, reported: ProviderResponse): Promise<void> {
    const known = this.#settlements.get(open)
    if (known !== undefined) return known
    const key = `${open.request.accountId} ${idOf(open)}`
    const settlement = settle(this.#modules.ledger, open, reported).finally(() => this.#settling.delete(key))
    this.#settlements.set(open, settlement)
    this.#settling.set(key, settlement)
    return settlement
  }

  /** Tells a provider to stop work whose result no client can fetch. Never rejects. */
  async #cancel(model: string, work: BackgroundWork): Promise<void> {
    await this.#query(model, { ...work, unwanted: true }, new AbortController().signal).catch(() => {})
  }

  /** Gets a response from its provider, or cancels it there. Undefined where the provider does not report it. */
  async #query(model: string, work: BackgroundWork, signal: CallSignal): Promise<ProviderResponse | undefined> {
    const { catalogue, config } = this.#modules
    const endpoint = heldBy(catalogue.endpoints(model, API), work.provider)
    if (endpoint === undefined) return undefined
    const { provider, credentials, baseUrl, target } = endpoint
    const { quirks } = target
    const headers = { accept: 'application/json', ...provider.headers, ...credentials }
    const call = async (method: 'GET' | 'POST', path: string): Promise<{ status: number; text: string }> => {
      const { status, body } = await transport(endpoint)({
        url: `${baseUrl}/responses/${encodeURIComponent(work.id)}${path}`,
        method,
        headers,
        timeouts: config.timeouts,
        signal,
      })
      return { status, text: await readAll(body, POLLED_BYTES) }
    }
    const cancelled = work.unwanted === true ? await call('POST', '/cancel') : undefined
    // A response that has ended cannot be cancelled any more.
    const { status, text } = cancelled?.status === 200 ? cancelled : await call('GET', '')
    if (status === 404 && work.unwanted === true) return { response: { status: 'cancelled' }, quirks }
    if (status !== 200) return undefined
    const response = parseResponse(text)
    if (isResponse(response)) return { response, quirks }
    throw new GatewayError('upstream_error', 'The provider answered 200 with a body that is not a response.')
  }
}

/** A provider's response with the members by which its client knows it. Its error shows no credential. */
const withClientIdentity = (reported: Json, { id, response }: StoredResponse): Json => ({
  ...response,
  ...reported,
  ...present('error', withoutSecrets(reported.error)),
  id,
  model: response.model,
  store: response.store,
  previous_response_id: response.previous_response_id,
})

const withoutSecrets = (error: unknown): Json | undefined =>
  isObject(error) && typeof error.message === 'string' ? { ...error, message: scrub(error.message) } : undefined

async function settle(ledger: Ledger, open: OpenGeneration, { response, quirks }: ProviderResponse): Promise<void> {
  const { status, usage, output } = response
  const isBroken = status === 'cancelled' || status === 'failed'
  try {
    // Readers take a cancelled or failed response for an error without usage; read as incomplete, it has its usage.
    const readable = isBroken
      ? { ...response, status: 'incomplete', incomplete_details: { reason: status }, error: null }
      : response
    const hasOutput = Array.isArray(output) && output.length > 0
    if (!isBroken || (typeof usage === 'object' && usage !== null) || hasOutput)
      open.meter.record(protocols[API].call.readResponse(readable, quirks))
  } catch (error) {
    log.error(`Cannot read the background response ${idOf(open)}: ${asGatewayError(error).code}`)
  }
  await ledger.close(open, status === 'cancelled' ? 'client-left' : status === 'failed' ? 'failed' : 'completed')
}
