import type { Database } from 'bun:sqlite'
import { ProviderCalls } from '../../provider-calls.ts'
import type { ProviderHealth } from '../../reports.ts'
import type { NameCache } from './name-cache.ts'
import { firstIdAt } from './recount.ts'

/** Requests that are read: those of the last minutes of a busy hour. */
const ROWS_MAX = 200_000

type Row = {
  at: number
  model: number
  provider: number | null
  ending: number
  attempts: string | null
  streamed: number
  latency: number
}

/** The calls of one provider in a range. */
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
  const calls = new ProviderCalls(provider)
  for (const { at, model, provider: last, ending, attempts, streamed, latency } of rows) {
    const firstTokenMs = streamed === 1 && ending === completed && last === id ? latency : null
    if (attempts === null) calls.addGood(at, 1, firstTokenMs === null ? [] : [firstTokenMs])
    else calls.add({ at, model: names.text(model), attempts, firstTokenMs })
  }
  return calls.result()
}
