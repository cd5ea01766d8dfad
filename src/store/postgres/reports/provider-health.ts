import { firstIdAt } from '../../generation-ids.ts'
import { type Calls, ProviderCalls } from '../../provider-calls.ts'
import type { ProviderHealth } from '../../reports.ts'
import type { Questions } from '../client.ts'
import { idOfUuid } from '../generation-rows.ts'

/** Requests that are read: those of the last minutes of a busy hour. */
const ROWS_MAX = 200_000
/** Attempts of so many generations are read at once, so that this holds up nothing else. */
const READ_ROWS = 1_000

const FIRST_TOKEN = `CASE WHEN streamed AND ending = 'completed' AND provider = $3::text THEN latency END`

/** The calls of one provider in a range. */
export async function providerHealth(
  questions: Questions,
  provider: string,
  from: number,
  to: number,
): Promise<ProviderHealth> {
  const calls = new ProviderCalls(provider)
  const end = firstIdAt(to)
  const [oldest] = await questions.ask<{ id: string }>(
    `SELECT id FROM generations WHERE id >= $1::uuid AND id < $2::uuid AND (provider = $3 OR attempts IS NOT NULL)
     ORDER BY id DESC LIMIT 1 OFFSET ${ROWS_MAX - 1}`,
    [firstIdAt(from), end, provider],
  )
  const start = oldest === undefined ? firstIdAt(from) : idOfUuid(oldest.id)
  const minutes = await questions.ask<{ at: number; requests: number; firstTokens: string | null }>(
    `SELECT created_at / 60000 * 60000 AS at, count(*) AS requests,
       string_agg((${FIRST_TOKEN})::text, ' ') AS "firstTokens"
     FROM generations WHERE id >= $1::uuid AND id < $2::uuid AND provider = $3 AND attempts IS NULL GROUP BY 1`,
    [start, end, provider],
  )
  for (const { at, requests, firstTokens } of minutes)
    calls.addGood(at, requests, firstTokens === null ? [] : firstTokens.split(' ').map(Number))
  for (let before = end; ; ) {
    const rows = await questions.ask<Calls & { id: string }>(
      `SELECT id, created_at AS at, model, attempts, ${FIRST_TOKEN} AS "firstTokenMs"
       FROM generations WHERE id >= $1::uuid AND id < $2::uuid AND attempts IS NOT NULL
       ORDER BY id DESC LIMIT ${READ_ROWS}`,
      [start, before, provider],
    )
    for (const row of rows) calls.add(row)
    if (rows.length < READ_ROWS) return calls.result()
    before = idOfUuid(rows.at(-1)!.id)
  }
}
