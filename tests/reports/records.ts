import { noUsage } from '../../src/generation/usage.ts'
import type { GenerationRecord, Refusal, RequestRow, Store } from '../../src/store/store.ts'
import { record } from '../store/records.ts'

/** Random facts of requests, the same for the same seed. */
export class Chance {
  #state: number

  constructor(seed: number) {
    this.#state = seed >>> 0
  }

  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }

  below(end: number): number {
    return Math.floor(this.next() * end)
  }

  of<T>(choices: readonly T[]): T {
    return choices[this.below(choices.length)]!
  }

  is(share: number): boolean {
    return this.next() < share
  }
}

export const ACCOUNTS = ['a', 'b'] as const
export const KEYS = { a: ['a1', 'a2'], b: ['b1', 'sub'] } as const
export const MODELS = ['acme/large', 'acme/small', 'other/one'] as const
export const PROVIDERS = ['acme', 'other'] as const
export const ENDINGS = ['completed', 'completed', 'completed', 'failed', 'client-left', 'timed-out'] as const
export const CLIENTS = ['claude-cli/2.1', 'codex/0.1', null] as const
const CODES = ['upstream_error', 'upstream_rate_limited'] as const

const idAt = (at: number, number: number): string =>
  at.toString(16).padStart(12, '0') + number.toString(16).padStart(20, '0')

/** A generation whose request came at this instant. `number`: unique. */
export function randomGeneration(chance: Chance, at: number, number: number): GenerationRecord {
  const accountId = chance.of(ACCOUNTS)
  const keyId = chance.of(KEYS[accountId])
  const isSubscription = keyId === 'sub'
  const ending = chance.of(ENDINGS)
  // Where no provider was asked, there was no attempt, and the only element says why.
  const provider = chance.is(0.1) ? null : chance.of(PROVIDERS)
  const retries = provider !== null && chance.is(0.1) ? 1 : 0
  const tries = Array.from({ length: retries + 1 }, (_, index) => ({
    ...(provider === null ? {} : { provider: 'acme' }),
    milliseconds: 10,
    ...(index < retries || ending === 'failed'
      ? { error: chance.of(CODES), message: `The provider said no ${chance.below(3)}` }
      : {}),
  }))
  const bill = chance.is(0.1) ? 0n : BigInt(chance.below(10_000_000))
  return record(0, {
    id: idAt(at, number),
    createdAt: at,
    accountId,
    keyId,
    kind: isSubscription ? 'subscription' : 'pay-as-you-go',
    api: chance.of(['messages', 'responses']),
    model: chance.of(MODELS),
    provider,
    client: chance.of(CLIENTS),
    ending,
    latency: chance.below(5_000),
    duration: ending === 'failed' ? 0 : chance.below(20_000),
    streamed: chance.is(0.7),
    retries,
    attempts: tries.length > 1 || ending === 'failed' ? JSON.stringify(tries) : null,
    translation: chance.is(0.2) ? '[{"code":"x","path":"a"},{"code":"y","path":"b"}]' : null,
    estimated: chance.is(0.1),
    usage: { ...noUsage(), inputTokens: chance.below(9_000), outputTokens: chance.below(900), images: chance.below(2) },
    bill,
    flows: isSubscription ? bill / 7n : 0n,
  })
}

export function randomRefusal(chance: Chance, at: number, number: number): Refusal {
  const accountId = chance.is(0.2) ? null : chance.of(ACCOUNTS)
  return {
    id: idAt(at, number),
    at,
    accountId,
    keyId: accountId === null ? null : chance.of(KEYS[accountId]),
    route: chance.of(['messages', 'responses', 'models']),
    code: chance.of(['invalid_request', 'insufficient_credit', 'model_not_found']),
    status: 400,
    param: null,
    message: chance.of(['messages: is required', 'No such Model.']),
    model: chance.is(0.3) ? null : chance.of(MODELS),
    client: chance.of(CLIENTS),
  }
}

export type Facts = { generations: GenerationRecord[]; refusals: Refusal[] }

/** So many requests, one in ten refused, over a range of time. */
export function randomFacts(chance: Chance, count: number, from: number, to: number): Facts {
  const facts: Facts = { generations: [], refusals: [] }
  for (let number = 0; number < count; number++) {
    const at = from + chance.below(to - from)
    if (chance.is(0.1)) facts.refusals.push(randomRefusal(chance, at, number))
    else facts.generations.push(randomGeneration(chance, at, number))
  }
  return facts
}

export async function storeFacts(store: Store, { generations, refusals }: Facts): Promise<void> {
  for (const refusal of refusals) store.reports.addRefusal(refusal, true)
  await Promise.all(
    generations.map((one) =>
      store.ledger.closeGeneration({ record: one, transfers: [], windows: [], spend: undefined, wasOpen: false }),
    ),
  )
}

/** The line that a list should show, from the record alone. */
export function lineOfRecord(one: GenerationRecord): RequestRow {
  const tries = (one.attempts === null ? [] : JSON.parse(one.attempts)) as { error?: string; message: string }[]
  const failed = tries.filter(({ error }) => error !== undefined).at(-1)
  return {
    id: one.id,
    at: one.createdAt,
    accountId: one.accountId,
    keyId: one.keyId,
    kind: one.kind,
    api: one.api,
    model: one.model,
    provider: one.provider,
    client: one.client,
    outcome: one.ending,
    finish: one.finish,
    error: one.ending === 'completed' || failed === undefined ? null : { code: failed.error!, message: failed.message },
    streamed: one.streamed,
    firstTokenMs: one.streamed && (one.ending === 'completed' || one.duration > 0) ? one.latency : null,
    totalMs: one.latency + one.duration,
    tries: one.provider === null ? 0 : one.retries + 1,
    losses: one.translation === null ? 0 : 2,
    estimated: one.estimated,
    usage: one.usage,
    bill: one.bill,
    flows: one.flows,
  }
}

export const lineOfRefusal = (one: Refusal): RequestRow => ({
  id: one.id,
  at: one.at,
  accountId: one.accountId,
  keyId: one.keyId,
  kind: null,
  api: one.route,
  model: one.model,
  provider: null,
  client: one.client,
  outcome: 'refused',
  finish: null,
  error: { code: one.code, message: one.message },
  streamed: false,
  firstTokenMs: null,
  totalMs: null,
  tries: 0,
  losses: 0,
  estimated: false,
  usage: noUsage(),
  bill: 0n,
  flows: 0n,
})
