import { DELIVERY_COLUMNS, PREDICTION_COLUMNS } from '../columns.ts'
import {
  AFTER_ALL_PREDICTIONS,
  PREDICTION_PAGE,
  type PredictionChange,
  type PredictionStore,
  type StoredPrediction,
  type WebhookDelivery,
} from '../predictions.ts'
import { BATCH_ROWS } from './batch-rows.ts'
import type { Connection } from './connection.ts'
import { removeInSteps } from './remove-in-steps.ts'

const SELECT = `SELECT ${PREDICTION_COLUMNS}, input FROM predictions JOIN prediction_inputs USING (id)`

/** The tables of predictions and of their undelivered webhook calls. */
export class PredictionTables implements PredictionStore {
  readonly #connection: Connection

  constructor(connection: Connection) {
    this.#connection = connection
  }

  async add({
    id,
    accountId,
    model,
    status,
    createdAt,
    startedAt,
    completedAt,
    state,
    input,
  }: StoredPrediction): Promise<void> {
    await this.#connection.commit(() => {
      this.#connection.run('INSERT INTO prediction_inputs (id, input) VALUES (?, ?)', id, input)
      this.#connection.run(
        `INSERT INTO predictions (id, account_id, model, status, created_at, started_at, completed_at, state, bytes)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
        id,
        accountId,
        model,
        status,
        createdAt,
        startedAt,
        completedAt,
        state,
        Buffer.byteLength(input) + Buffer.byteLength(state),
      )
    })
  }

  async find(accountId: string, id: string): Promise<StoredPrediction | undefined> {
    return this.#connection.one<StoredPrediction>(`${SELECT} WHERE account_id = ? AND id = ?`, accountId, id)
  }

  async list(accountId: string, limit: number, before?: string): Promise<StoredPrediction[]> {
    return this.#readPage(
      SELECT,
      this.#connection.all<Id>(
        'SELECT id FROM predictions WHERE account_id = ? AND id < ? ORDER BY id DESC LIMIT ?',
        accountId,
        before ?? AFTER_ALL_PREDICTIONS,
        limit,
      ),
    )
  }

  async unfinished(after?: string): Promise<PredictionChange[]> {
    return this.#readPage(
      `SELECT ${PREDICTION_COLUMNS} FROM predictions`,
      this.#connection.all<Id>(
        'SELECT id FROM predictions WHERE completed_at IS NULL AND id > ? ORDER BY id LIMIT ?',
        after ?? '',
        BATCH_ROWS,
      ),
    )
  }

  /** Reads rows up to PREDICTION_PAGE, and at least one: an empty page would end the listing. */
  #readPage<Row extends PredictionChange & { input?: string }>(select: string, ids: readonly Id[]): Row[] {
    const found: Row[] = []
    let characters = 0
    for (const { id } of ids) {
      const row = this.#connection.one<Row>(`${select} WHERE id = ?`, id)
      if (row === undefined) continue
      characters += row.state.length + (row.input?.length ?? 0)
      if (characters > PREDICTION_PAGE && found.length > 0) break
      found.push(row)
    }
    return found
  }

  async update(
    { id, accountId, status, startedAt, completedAt, state }: PredictionChange,
    deliveries: readonly WebhookDelivery[] = [],
  ): Promise<boolean> {
    let changed = false
    await this.#connection.commit(() => {
      changed =
        this.#connection.run(
          `UPDATE predictions SET status = ?, started_at = ?, completed_at = ?, state = ?,
             bytes = bytes - length(CAST(state AS BLOB)) + ?
           WHERE account_id = ? AND id = ? AND completed_at IS NULL`,
          status,
          startedAt,
          completedAt,
          state,
          Buffer.byteLength(state),
          accountId,
          id,
        ).changes > 0
      if (changed) for (const delivery of deliveries) this.#insertDelivery(delivery)
    })
    return changed
  }

  async purge(endedBefore: number): Promise<number> {
    return removeInSteps<string>(
      this.#connection,
      () =>
        this.#connection.all(
          'SELECT id AS key, bytes FROM predictions WHERE completed_at < ? LIMIT ?',
          endedBefore,
          BATCH_ROWS,
        ),
      (id) => {
        this.#connection.run('DELETE FROM predictions WHERE id = ?', id)
        this.#connection.run('DELETE FROM prediction_inputs WHERE id = ?', id)
      },
    )
  }

  #insertDelivery({ id, accountId, predictionId, url, body, attempts, nextAt }: WebhookDelivery): void {
    this.#connection.run(
      `INSERT INTO webhook_deliveries (id, account_id, prediction_id, url, body, attempts, next_at)
       VALUES (?, ?, ?, ?, ?, ?, ?)`,
      id,
      accountId,
      predictionId,
      url,
      body,
      attempts,
      nextAt,
    )
  }

  async dueDeliveries(now: number, limit: number, except: readonly string[] = []): Promise<WebhookDelivery[]> {
    const skipped = JSON.stringify(except)
    return this.#connection.all<WebhookDelivery>(
      `SELECT ${DELIVERY_COLUMNS} FROM webhook_deliveries
       WHERE next_at <= ? AND id NOT IN (SELECT value FROM json_each(?))
         AND account_id NOT IN (SELECT value FROM json_each(?)) ORDER BY next_at, id LIMIT ?`,
      now,
      skipped,
      skipped,
      limit,
    )
  }

  async nextDelivery(except: readonly string[]): Promise<number | undefined> {
    const skipped = JSON.stringify(except)
    return this.#connection.one<{ at: number }>(
      `SELECT next_at AS at FROM webhook_deliveries
       WHERE id NOT IN (SELECT value FROM json_each(?)) AND account_id NOT IN (SELECT value FROM json_each(?))
       ORDER BY next_at LIMIT 1`,
      skipped,
      skipped,
    )?.at
  }

  async updateDelivery(id: string, attempts: number, nextAt: number | undefined): Promise<void> {
    await this.#connection.commit(() => {
      if (nextAt === undefined) this.#connection.run('DELETE FROM webhook_deliveries WHERE id = ?', id)
      else
        this.#connection.run(
          'UPDATE webhook_deliveries SET attempts = ?, next_at = ? WHERE id = ?',
          attempts,
          nextAt,
          id,
        )
    })
  }
}

type Id = { id: string }
