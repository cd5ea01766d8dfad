import type { Usage } from '../generation/usage.ts'
import { noUsage, promptTokens } from '../generation/usage.ts'
import { CHARACTERS_PER_TOKEN } from './estimate.ts'
import type { BackgroundWork, StoredPrice } from '../store/store.ts'
import type { ReservationRequest, Hold, OpenGeneration } from './ledger.ts'
import { Meter, type Heard } from './meter.ts'
import { decodeRates, storedPrice } from './prices.ts'

/**
 * What is known of a generation under way: the JSON from which it is closed when the process does not live to do it.
 */
export function writeOpen({ request, hold, meter, deferred, background }: OpenGeneration): string {
  const price = request.price === undefined ? undefined : storedPrice(request.price)
  const { usage, heard, times, served, tries, losses } = meter
  return JSON.stringify(
    {
      ask: { ...request, price, limit: undefined },
      hold,
      deferred,
      background,
      usage,
      heard,
      times,
      served,
      tries,
      losses: losses.length === 0 ? undefined : losses,
    },
    (_, value: unknown) => (typeof value === 'bigint' ? { nano: String(value) } : value),
  )
}

type State = {
  ask: Omit<ReservationRequest, 'price'> & { price?: StoredPrice }
  hold: Hold
  deferred?: boolean
  background?: BackgroundWork
  usage: Usage
  heard: Heard
  times: Meter['times']
  served?: Meter['served']
  tries: Meter['tries']
  losses?: Meter['losses']
}

/**
 * The generation as it was when it was last written: closed as crashed, with the usage that it is charged for, unless
 * its provider goes on in the background.
 */
export function readOpen(state: string, now: number): { open: OpenGeneration; usage: Usage; estimated: boolean } {
  const read = JSON.parse(state, (_, value: unknown) => (isBig(value) ? BigInt(value.nano) : value)) as State
  const { price } = read.ask
  const ask: ReservationRequest = {
    ...read.ask,
    price: price === undefined ? undefined : { ...price, rates: decodeRates(price.rates) },
  }
  // The worst case takes half as many bytes for a token.
  const inputTokens = Math.ceil(promptTokens(ask.worst) / 2)
  // The clock may have gone back since.
  const written = { ...read, ageMs: Math.max(0, now - ask.createdAt), inputTokens }
  const { background } = read
  if (read.deferred === true || background !== undefined)
    return {
      open: {
        request: ask,
        hold: read.hold,
        meter: Meter.restored(written),
        deferred: true,
        background,
        writtenAtMs: 0,
      },
      usage: noUsage(),
      estimated: false,
    }
  const meter = Meter.crashed(written)
  const charged = meter.charge !== 'nothing'
  return {
    open: { request: ask, hold: read.hold, meter, writtenAtMs: 0 },
    usage: charged ? bounded(read, inputTokens) : noUsage(),
    estimated: charged,
  }
}

const isBig = (value: unknown): value is { nano: string } =>
  typeof value === 'object' &&
  value !== null &&
  typeof (value as { nano?: unknown }).nano === 'string' &&
  Object.keys(value).length === 1

/** Reported usage where it came, else what the lengths amount to. */
function bounded({ usage, heard }: State, inputTokens: number): Usage {
  const tokens = (characters: number): number => Math.ceil(characters / CHARACTERS_PER_TOKEN)
  return {
    ...usage,
    inputTokens: promptTokens(usage) === 0 ? inputTokens : usage.inputTokens,
    outputTokens: Math.max(usage.outputTokens, tokens(heard.text)),
    reasoningTokens: Math.max(usage.reasoningTokens, tokens(heard.reasoning)),
  }
}
