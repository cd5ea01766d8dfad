import { DELIVERY_COLUMNS, PREDICTION_COLUMNS } from '../columns.ts'
import {
  AFTER_ALL_PREDICTIONS,
  PREDICTION_PAGE,
  type PredictionChange,
  type PredictionStore,
  type StoredPrediction,
  type WebhookDelivery,
} from '../predictions.ts'
import type { ChangeWatch } from './change-watch.ts'
import { BATCH_ROWS, type Connection } from './connection.ts'
import { removeInSteps } from './remove-in-steps.ts'
import { CLAIM, LEAVE_QUEUE, SharedPredictionTables } from './shared-predictions.ts'
import { jsonOf } from './values.ts'

const SELECT = `SELECT ${PREDICTION_COLUMNS}, input FROM predictions JOIN prediction_inputs USING (id)`

/** The tables of predictions and of their undelivered webhook calls. */
export class PredictionTables implements PredictionStore {
  readonly shared: SharedPredictionTables
  readonly #connection: Connection

  constructor(connection: Connection, watch: ChangeWatch) {
    this.#connection = connection
    this.shared = new SharedPredictionTables(connection, watch)
  }

  async add(prediction: StoredPrediction): Promise<void> {
    const { id, accountId, model, status, createdAt, startedAt, completedAt, state, input } = prediction
    await this.#connection.commit(async (transaction) => {
      await transaction.run(LEAVE_QUEUE, id)
      await transaction.run('INSERT INTO prediction_inputs (id, input) VALUES ($1, $2)', id, input)
      await transaction.run(
        `INSERT INTO predictions (id, account_id, model, status, created_at, started_at, completed_at, state, bytes,
           process)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`,
        ...[id, accountId, model, status, createdAt, startedAt, completedAt, state],
        ...[Buffer.byteLength(input) + Buffer.byteLength(state), this.#connection.process ?? null],
      )
    })
  }

  find(accountId: string, id: string): Promise<StoredPrediction | undefined> {
    return this.#connection.one<StoredPrediction>(`${SELECT} WHERE account_id = $1 AND id = $2`, accountId, id)
  }

  list(accountId: string, limit: number, before?: string): Promise<StoredPrediction[]> {
    return this.#connection.all<StoredPrediction>(
      `${SELECT} WHERE id IN (${pageOf('account_id = $1 AND id < $2', 'id DESC')}) ORDER BY id DESC`,
      ...[accountId, before ?? AFTER_ALL_PREDICTIONS, limit, PREDICTION_PAGE],
    )
  }

  unfinished(after?: string): Promise<PredictionChange[]> {
    const where = 'completed_at IS NULL AND ($1::bigint IS NULL OR process = $1::bigint) AND id > $2'
    return this.#connection.all<PredictionChange>(
      `SELECT ${PREDICTION_COLUMNS} FROM predictions
       WHERE id IN (${pageOf(where, 'id', 'octet_length(state)')}) ORDER BY id`,
      ...[this.#connection.process ?? null, after ?? '', BATCH_ROWS, PREDICTION_PAGE],
    )
  }

  update(
    { id, accountId, status, startedAt, completedAt, state }: PredictionChange,
    deliveries: readonly WebhookDelivery[] = [],
  ): Promise<boolean> {
    return this.#connection.commit(async (transaction) => {
      const { changes } = await transaction.run(
        `UPDATE predictions SET status = $1, started_at = $2, completed_at = $3, state = $4,
           bytes = bytes - octet_length(state) + $5
         WHERE account_id = $6 AND id = $7 AND completed_at IS NULL`,
        ...[status, startedAt, completedAt, state, Buffer.byteLength(state), accountId, id],
      )
      if (changes === 0) return false
      for (const one of deliveries)
        await transaction.run(
          // The process that ends a prediction reports it, once it has settled it.
          `INSERT INTO webhook_deliveries (id, account_id, prediction_id, url, body, attempts, next_at, claimed_by,
             claimed_until)
           VALUES ($1, $2, $3, $4, $5, $6, $7, $8::bigint,
             CASE WHEN $8::bigint IS NOT NULL THEN clock_timestamp() + ${CLAIM} END)`,
          ...[one.id, one.accountId, one.predictionId, one.url, one.body, one.attempts, one.nextAt],
          this.#connection.process ?? null,
        )
      return true
    })
  }

  purge(endedBefore: number): Promise<number> {
    return removeInSteps(
      this.#connection,
      { table: 'predictions', key: 'id', where: 'completed_at < $1' },
      endedBefore,
      async (transaction, ids) => {
        await transaction.run(
          'DELETE FROM prediction_inputs WHERE id IN (SELECT jsonb_array_elements_text($1::text::jsonb))',
          jsonOf(ids),
        )
      },
    )
  }

  dueDeliveries(now: number, limit: number, except: readonly string[] = []): Promise<WebhookDelivery[]> {
    return this.#connection.all<WebhookDelivery>(
      `WITH skipped AS MATERIALIZED (SELECT jsonb_array_elements_text($2::text::jsonb) AS id)
       SELECT ${DELIVERY_COLUMNS} FROM webhook_deliveries
       WHERE next_at <= $1 AND id NOT IN (SELECT id FROM skipped) AND account_id NOT IN (SELECT id FROM skipped)
         AND (claimed_until IS NULL OR claimed_until < clock_timestamp() OR claimed_by = $4)
       ORDER BY next_at, id LIMIT $3`,
      ...[Math.min(now, Number.MAX_SAFE_INTEGER), jsonOf(except), limit, this.#connection.process ?? null],
    )
  }

  async nextDelivery(except: readonly string[]): Promise<number | undefined> {
    const row = await this.#connection.one<{ at: number }>(
      `WITH skipped AS MATERIALIZED (SELECT jsonb_array_elements_text($1::text::jsonb) AS id)
       SELECT next_at AS at FROM webhook_deliveries
       WHERE id NOT IN (SELECT id FROM skipped) AND account_id NOT IN (SELECT id FROM skipped)
         AND (claimed_until IS NULL OR claimed_until < clock_timestamp() OR claimed_by = $2)
       ORDER BY next_at LIMIT 1`,
      jsonOf(except),
      this.#connection.process ?? null,
    )
    return row?.at
  }

  async updateDelivery(id: string, attempts: number, nextAt: number | undefined): Promise<void> {
    await this.#connection.commit((transaction) =>
      nextAt === undefined
        ? transaction.run('DELETE FROM webhook_deliveries WHERE id = $1', id)
        : transaction.run(
            'UPDATE webhook_deliveries SET attempts = $1, next_at = $2, claimed_until = NULL WHERE id = $3',
            ...[attempts, nextAt, id],
          ),
    )
  }
}

/** Ids of a page of at most `$3` predictions and `$4` bytes, and at least one: an empty page would end the listing. */
const pageOf = (where: string, order: string, size = 'bytes'): string => `
  SELECT id FROM (
    SELECT id, bytes, sum(bytes) OVER (ORDER BY ${order}) AS total FROM (
      SELECT id, ${size} AS bytes FROM predictions WHERE ${where} ORDER BY ${order} LIMIT $3) AS first
  ) AS page WHERE total <= $4 OR total = bytes`
