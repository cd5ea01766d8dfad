import type { Database } from 'bun:sqlite'
import type { ProviderHealth } from '../../reports.ts'
import type { NameCache } from './name-cache.ts'
import { firstIdAt } from './recount.ts'

const MINUTE_MS = 60_000
/** Requests that are read: those of the last minutes of a busy hour. */
const ROWS_MAX = 200_000
const ERRORS_MAX = 20
const RATE_LIMITED = 'upstream_rate_limited'

type Row = {
  at: number
  model: number
  provider: number | null
  ending: number
  attempts: string | null
  streamed: number
  latency: number
}
type Attempt = { provider: string; error?: string; message?: string }
type Minute = { requests: number; failed: number; rateLimited: number; firstTokens: number[] }

/** The calls of one provider in a range: every attempt counts, also one after which another provider answered. */
export function providerHealth(
  database: Database,
  names: NameCache,
  provider: string,
  from: number,
  to: number,
): ProviderHealth {
  const id = names.id(provider)
  const completed = names.id('completed')
  const rows = database
    .query(
      `SELECT created_at AS at, model, provider, ending, attempts, streamed, latency FROM generations
       WHERE id >= ? AND id < ? AND (provider = ? OR attempts IS NOT NULL) ORDER BY id DESC LIMIT ?`,
    )
    .iterate(firstIdAt(from), firstIdAt(to), id, ROWS_MAX) as IterableIterator<Row>
  const minutes = new Map<number, Minute>()
  const codes = new Map<string, number>()
  const errors: ProviderHealth['errors'] = []
  for (const { at, model, provider: last, ending, attempts, streamed, latency } of rows) {
    const own: Attempt[] = attempts === null ? [{ provider }] : attemptsAt(provider, attempts)
    if (own.length === 0) continue
    const minute = minuteOf(minutes, at)
    minute.requests += own.length
    if (streamed === 1 && ending === completed && last === id) minute.firstTokens.push(latency)
    for (const { error, message } of own) {
      if (error === undefined) continue
      minute.failed++
      if (error === RATE_LIMITED) minute.rateLimited++
      codes.set(error, (codes.get(error) ?? 0) + 1)
      if (errors.length < ERRORS_MAX)
        errors.push({ at, model: names.text(model), code: error, message: message ?? null })
    }
  }
  return { minutes: written(minutes), codes: [...codes].map(([code, requests]) => ({ code, requests })), errors }
}

const attemptsAt = (provider: string, attempts: string): Attempt[] =>
  (JSON.parse(attempts) as Attempt[]).filter((one) => one.provider === provider)

function minuteOf(minutes: Map<number, Minute>, at: number): Minute {
  const start = Math.floor(at / MINUTE_MS) * MINUTE_MS
  let minute = minutes.get(start)
  if (minute === undefined) minutes.set(start, (minute = { requests: 0, failed: 0, rateLimited: 0, firstTokens: [] }))
  return minute
}

const written = (minutes: ReadonlyMap<number, Minute>): ProviderHealth['minutes'] =>
  [...minutes]
    .sort(([a], [b]) => a - b)
    .map(([at, { firstTokens, ...counts }]) => ({ at, ...counts, firstTokenMs: medianOf(firstTokens) }))

function medianOf(values: readonly number[]): number | null {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.floor(sorted.length / 2)] ?? null
}
