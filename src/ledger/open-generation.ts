import type { BudgetHold, KeyLimit } from '../accounts/budget.ts'
import type { QuotaHold } from '../accounts/quota.ts'
import type { Listed } from '../collections/linked-set.ts'
import { noUsage, promptTokens, USAGE_BUCKETS, type Usage } from '../generation/usage.ts'
import type { RequestEntry } from '../log/request-line.ts'
import type { Nano } from '../money.ts'
import type { BackgroundWork, GenerationRecord, StoredPrice } from '../store/store.ts'
import type { RequestTrace } from '../telemetry/trace.ts'
import { CHARACTERS_PER_TOKEN } from './estimate.ts'
import { Meter, type ReceivedText } from './meter.ts'
import type { ModelTerms } from './model-terms.ts'
import { decodeRates, storedPrice, type Price } from './prices.ts'
import type { PricedClasses } from './service-classes.ts'
import type { ChargedUsage } from './settlement.ts'

/** The terms on which a generation is admitted. `price` is the one in force then, whatever later prices are. */
export type ReservationRequest = Pick<
  GenerationRecord,
  'id' | 'accountId' | 'keyId' | 'kind' | 'api' | 'model' | 'createdAt' | 'streamed'
> & {
  /** The beginning of the client's User-Agent; earlier versions did not store it. */
  client?: string | null
  price: Price | undefined
  /** The classes of service in which it may be served at another price. */
  classes?: PricedClasses | undefined
  /** Where other models may answer: the terms of each, the requested one first; those above are the most expensive. */
  models?: readonly ModelTerms[] | undefined
  /** One of them answers. */
  isAnswered?: boolean
  /** Basis points off pay-as-you-go bills: the larger of the account's and its plan's. */
  discount: number
  /** Factor on the flows of a subscription. */
  penalty: number
  /** The most it may use. */
  worst: Usage
  hasTools?: boolean | undefined
  /** Number of responses that may be generated for it, all within its output. */
  candidates?: number | undefined
  /** Number of responses that its client asks for, of which only the first is read. */
  choices?: number | undefined
  /** Its response can be ended before its model ends it. */
  mayEnd?: boolean | undefined
  /** Its output limit may be lowered to what can be paid; `loweredTo`: it was. */
  mayLower?: boolean
  loweredTo?: number
  limit?: KeyLimit | undefined
}

/**
 * The sums set aside until settlement: money or flows of the quota windows, and part of the key's spending limit.
 * `outputTokens`: for how many is held, where that grows with the response: when `growAt` were received. `unseen`:
 * tokens that may have been generated unseen. `overshoots`: it may be less than the response costs.
 */
export type Hold = {
  amount: Nano
  quota?: QuotaHold | undefined
  budget?: BudgetHold | undefined
  outputTokens?: number
  growAt?: number
  unseen?: number
  overshoots?: boolean
}

/** One generation from its reservation to its record. */
export type OpenGeneration = Listed & {
  request: ReservationRequest
  hold: Hold
  meter: Meter
  /** The provider's background job, where there is one. */
  background?: BackgroundWork | undefined
  /** Its client had its provider cancel it, which then looks like a failure of the provider. */
  isCancelled?: boolean
  /** The provider works on without its client: it stays open, across restarts too, until its outcome is known. */
  deferred?: boolean
  /** Age in milliseconds at which it was last written as open, or had nothing new to write. */
  writtenAtMs?: number
  /** Its progress as last written; `progressHead`: the part that does not change. */
  progress?: string
  progressHead?: string
  /** Set when it has ended. */
  record?: GenerationRecord
  /** The line of its request, which is written when it has ended. */
  entry?: RequestEntry
  trace?: RequestTrace | undefined
}

/**
 * The JSON stored for an open generation, to settle it after a crash. Earlier versions wrote the same member names, and
 * had fewer buckets of usage.
 */
type State = {
  ask: Omit<ReservationRequest, 'price'> & { price?: StoredPrice }
  hold: Hold
  deferred?: boolean
  background?: BackgroundWork
  usage: Usage
  heard: ReceivedText
  times: Meter['times']
  served?: Meter['served']
  tries: Meter['attempts']
  losses?: Meter['losses']
  service?: Meter['service']
  imageModel?: Meter['imageModel']
}

/** The `State` of a generation, as JSON. */
export function serializeOpen({ request, hold, meter, deferred, background }: OpenGeneration): string {
  const { usage, received, times, served, attempts, losses, service, imageModel } = meter
  return JSON.stringify(
    {
      ask: { ...request, price: request.price && storedPrice(request.price), limit: undefined, models: undefined },
      hold,
      deferred,
      background,
      usage,
      heard: received,
      times,
      served,
      tries: attempts,
      losses: losses.length === 0 ? undefined : losses,
      service,
      imageModel,
    },
    (_, value: unknown) => (typeof value === 'bigint' ? { nano: String(value) } : value),
  )
}

/**
 * The progress of a generation beyond its `State`: id, provider and its model, characters, times, and the usage
 * reported so far, if there is any.
 */
type Progress = [
  id: string,
  served: Meter['served'] | null,
  text: number,
  reasoning: number,
  latency: number,
  duration: number,
  usage: number[],
]

/** The `Progress` of a generation, as JSON. */
export function serializeProgress(open: OpenGeneration): string {
  const { request, meter } = open
  const { served, usage } = meter
  open.progressHead ??= JSON.stringify([request.id, served ?? null], ['provider', 'model']).slice(0, -1)
  const { text, reasoning } = meter.received
  const { latency, duration } = meter.times
  const counts = USAGE_BUCKETS.some((name) => usage[name] > 0) ? USAGE_BUCKETS.map((name) => usage[name]) : ''
  return `${open.progressHead},${text},${reasoning},${latency},${duration},[${counts}]]`
}

/** Progress by the id of its generation. `text`: as stored. */
export const readProgress = (text: string | undefined): ReadonlyMap<string, Progress> =>
  new Map(((text === undefined ? [] : JSON.parse(text)) as Progress[]).map((one) => [one[0], one]))

/** A state with the progress since it was written; a power cut may have left an older progress. */
function advanced(state: State, progress: Progress | undefined): State {
  if (progress === undefined) return state
  const [, served, text, reasoning, latency, duration, usage] = progress
  if (latency + duration < state.times.latency + state.times.duration) return state
  return {
    ...state,
    served: served ?? undefined,
    heard: { begun: true, text, reasoning },
    times: { latency, duration },
    usage: Object.fromEntries(USAGE_BUCKETS.map((name, at) => [name, usage[at] ?? 0])) as Usage,
  }
}

/** The part of an open generation that is shown. */
export type OpenView = {
  request: ReservationRequest
  meter: Pick<Meter, 'served' | 'attempts' | 'losses' | 'usage' | 'times' | 'begunMs'>
}

/** The view of a generation that another process has open, from its `State`. */
export function viewOfState(state: string): OpenView {
  const { ask, served, tries: attempts, losses = [], usage, times, heard } = JSON.parse(state) as State
  const begunMs = heard.begun ? times.duration : undefined
  return { request: { ...ask, price: undefined }, meter: { served, attempts, losses, usage, times, begunMs } }
}

/**
 * A generation as last written by a process that has ended: closed as crashed, with the usage it is charged for, or
 * still open where its provider works on in the background. `now`: Unix milliseconds; `progress`: of all generations.
 */
export function restoreOpen(
  state: string,
  now: number,
  progress: ReadonlyMap<string, Progress>,
): { open: OpenGeneration } & ChargedUsage {
  const written = JSON.parse(state, (_, value: unknown) => (isNano(value) ? BigInt(value.nano) : value)) as State
  const isFollowed = written.deferred === true || written.background !== undefined
  const known = { ...written, usage: { ...noUsage(), ...written.usage } }
  const read = isFollowed ? known : advanced(known, progress.get(written.ask.id))
  const { hold, background, heard: received } = read
  const { price } = read.ask
  const request: ReservationRequest = {
    ...read.ask,
    worst: { ...noUsage(), ...read.ask.worst },
    price: price === undefined ? undefined : { ...price, rates: decodeRates(price.rates) },
  }
  // The worst case assumes half as many bytes per token.
  const inputTokens = Math.ceil(promptTokens(request.worst) / 2)
  // The clock may have gone back since.
  const stored = { ...read, received, ageMs: Math.max(0, now - request.createdAt), inputTokens }
  if (isFollowed) {
    const meter = Meter.restored(stored)
    return {
      open: { request, hold, meter, deferred: true, background, writtenAtMs: 0 },
      usage: noUsage(),
      estimation: undefined,
    }
  }
  const meter = Meter.crashed(stored)
  const charged = meter.charge !== 'nothing'
  return {
    open: { request, hold, meter, writtenAtMs: 0 },
    usage: charged ? usageAtCrash(read, inputTokens) : noUsage(),
    estimation: charged ? 'checkpoint' : undefined,
  }
}

const isNano = (value: unknown): value is { nano: string } =>
  typeof value === 'object' &&
  value !== null &&
  typeof (value as { nano?: unknown }).nano === 'string' &&
  Object.keys(value).length === 1

/** Reported usage, raised to an estimate from the lengths received where that is more. */
function usageAtCrash({ ask: { choices = 1 }, usage, heard }: State, inputTokens: number): Usage {
  const tokens = (characters: number): number => Math.ceil(characters / CHARACTERS_PER_TOKEN) * choices
  return {
    ...usage,
    inputTokens: promptTokens(usage) === 0 ? inputTokens : usage.inputTokens,
    outputTokens: Math.max(usage.outputTokens, tokens(heard.text)),
    reasoningTokens: Math.max(usage.reasoningTokens, tokens(heard.reasoning)),
  }
}
