import { firstIdAt } from '../../generation-ids.ts'
import type { Refusal } from '../../reports.ts'
import { PeriodicWriter } from '../../periodic-writer.ts'
import { UnwrittenRefusals } from '../../unwritten-refusals.ts'
import { BATCH_ROWS, type Connection } from '../connection.ts'
import { jsonOf } from '../values.ts'

const ADD_HOURS = `
  INSERT INTO refusal_hours AS h (hour, account, key, code, requests)
  SELECT hour, account, key, code, requests
  FROM jsonb_to_recordset($1::text::jsonb) AS r (hour bigint, account text, key text, code text, requests bigint)
  ORDER BY hour, account, key, code
  ON CONFLICT (hour, account, key, code) DO UPDATE SET requests = h.requests + excluded.requests`

const ADD_REFUSALS = `
  INSERT INTO refusals (id, at, status, account, key, route, code, model, client, param, message)
  SELECT id, at, status, coalesce("accountId", ''), coalesce("keyId", ''), route, code, coalesce(model, ''),
    coalesce(client, ''), param, message
  FROM jsonb_to_recordset($1::text::jsonb) AS r (id uuid, at bigint, status integer, "accountId" text, "keyId" text,
    route text, code text, model text, client text, param text, message text)
  ORDER BY id ON CONFLICT DO NOTHING`

/** Requests that never became a generation: their rows, and their numbers by the hour, written once a second. */
export class Refusals {
  readonly #connection: Connection
  #unwritten = new UnwrittenRefusals()
  readonly #writer = new PeriodicWriter(() => this.#writeGathered())

  constructor(connection: Connection) {
    this.#connection = connection
  }

  /** `isKept`: its row is stored, too. */
  add(refusal: Refusal, isKept: boolean): void {
    this.#unwritten.add(refusal, isKept)
    this.#writer.soon()
  }

  /** Writes what came until now. What the store does not take is written later. */
  write(): Promise<void> {
    return this.#writer.now()
  }

  #writeGathered(): Promise<void> | undefined {
    if (this.#unwritten.isEmpty) return undefined
    const written = this.#unwritten
    this.#unwritten = new UnwrittenRefusals()
    const [hours, rows] = [jsonOf(written.hours), jsonOf(written.rows)]
    return this.#connection
      .commit(async (transaction) => {
        await transaction.run(ADD_HOURS, hours)
        if (written.rows.length > 0) await transaction.run(ADD_REFUSALS, rows)
      })
      .catch((error: unknown) => {
        this.#unwritten.takeBack(written)
        throw error
      })
  }

  /** Removes those before an instant, and the oldest beyond a number. */
  async purge(before: number, most: number): Promise<void> {
    await this.write()
    const newest = await this.#connection.one<{ id: string }>(
      'SELECT id FROM refusals ORDER BY id DESC LIMIT 1 OFFSET $1',
      most - 1,
    )
    await this.#connection.inBatches((transaction) =>
      transaction.all<object>(
        `DELETE FROM refusals WHERE id IN (
           SELECT id FROM refusals WHERE id < greatest($1::uuid, $2::uuid) ORDER BY id LIMIT ${BATCH_ROWS}
           FOR UPDATE SKIP LOCKED) RETURNING 1`,
        firstIdAt(before),
        newest?.id ?? null,
      ),
    )
  }

  close(): Promise<void> {
    return this.#writer.close()
  }
}
