import { REQUEST_CODES } from '../error.ts'
import type { ProviderHealth } from './reports.ts'

const MINUTE_MS = 60_000
const ERRORS_MAX = 20
const RATE_LIMITED = 'upstream_rate_limited'

type Attempt = { provider: string; error?: string; message?: string }
type Minute = Omit<ProviderHealth['minutes'][number], 'at' | 'firstTokenMs'> & { firstTokens: number[] }

/** A generation with its attempts. `firstTokenMs`: of a completed stream whose last provider is this one. */
export type Calls = { at: number; model: string | null; attempts: string; firstTokenMs: number | null }

/** The calls of one provider: every attempt counts, also one after which another provider answered. */
export class ProviderCalls {
  readonly #provider: string
  readonly #minutes = new Map<number, Minute>()
  readonly #codes = new Map<string, number>()
  readonly #errors: ProviderHealth['errors'] = []

  constructor(provider: string) {
    this.#provider = provider
  }

  /** Adds generations of one minute that called the provider once, and well. */
  addGood(at: number, requests: number, firstTokens: readonly number[]): void {
    const minute = this.#minuteOf(at)
    minute.requests += requests
    for (const ms of firstTokens) minute.firstTokens.push(ms)
  }

  /** Adds the attempts of a generation; the newest first. */
  add({ at, model, attempts, firstTokenMs }: Calls): void {
    const own = (JSON.parse(attempts) as Attempt[]).filter(({ provider }) => provider === this.#provider)
    if (own.length === 0) return
    const minute = this.#minuteOf(at)
    minute.requests += own.length
    if (firstTokenMs !== null) minute.firstTokens.push(firstTokenMs)
    for (const { error, message } of own) {
      if (error === undefined) continue
      if (REQUEST_CODES.has(error)) minute.wrongRequests++
      else minute.failed++
      if (error === RATE_LIMITED) minute.rateLimited++
      this.#codes.set(error, (this.#codes.get(error) ?? 0) + 1)
      if (this.#errors.length < ERRORS_MAX) this.#errors.push({ at, model, code: error, message: message ?? null })
    }
  }

  #minuteOf(at: number): Minute {
    const start = Math.floor(at / MINUTE_MS) * MINUTE_MS
    let minute = this.#minutes.get(start)
    if (minute === undefined)
      this.#minutes.set(start, (minute = { requests: 0, failed: 0, wrongRequests: 0, rateLimited: 0, firstTokens: [] }))
    return minute
  }

  result(): ProviderHealth {
    return {
      minutes: [...this.#minutes]
        .sort(([a], [b]) => a - b)
        .map(([at, { firstTokens, ...counts }]) => ({ at, ...counts, firstTokenMs: medianOf(firstTokens) })),
      codes: [...this.#codes]
        .map(([code, requests]) => ({ code, requests }))
        .sort((a, b) => b.requests - a.requests || (a.code < b.code ? -1 : 1)),
      errors: this.#errors,
    }
  }
}

function medianOf(values: readonly number[]): number | null {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.floor(sorted.length / 2)] ?? null
}
