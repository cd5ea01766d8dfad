import { PREDICTION_COLUMNS } from '../columns.ts'
import type { PredictionChange, PredictionNotice, SharedPredictions } from '../predictions.ts'
import type { ChangeWatch } from './change-watch.ts'
import type { Connection } from './connection.ts'

/** The time for which a process has a webhook call to itself: longer than a call takes. */
export const CLAIM = "interval '1 minute'"

/** A prediction that is stored, or never will be, does not count as one that is admitted. */
export const LEAVE_QUEUE = 'DELETE FROM prediction_places WHERE id = $1'

/** The part of the tables of predictions by which processes work on them together. */
export class SharedPredictionTables implements SharedPredictions {
  readonly #connection: Connection
  readonly #watch: ChangeWatch

  constructor(connection: Connection, watch: ChangeWatch) {
    this.#connection = connection
    this.#watch = watch
  }

  onChange(listener: (change: PredictionNotice) => void): void {
    this.#watch.onPrediction = (payload) => {
      const [kind, id = '', accountId = ''] = payload.split(' ')
      listener({ kind: kind as PredictionNotice['kind'], id, accountId })
    }
  }

  findState(accountId: string, id: string): Promise<PredictionChange | undefined> {
    return this.#connection.one<PredictionChange>(
      `SELECT ${PREDICTION_COLUMNS}
       FROM predictions WHERE account_id = $1 AND id = $2`,
      accountId,
      id,
    )
  }

  async enterQueue(accountId: string, id: string, most: number): Promise<boolean> {
    const row = await this.#connection.one<{ taken: boolean }>(
      'SELECT take_prediction_place($1, $2, $3, $4) AS taken',
      ...[this.#connection.process ?? null, accountId, id, most],
    )
    return row!.taken
  }

  async leaveQueue(id: string): Promise<void> {
    await this.#connection.commit((transaction) => transaction.run(LEAVE_QUEUE, id))
  }

  async takeTurn(accountId: string, id: string, most: number): Promise<boolean> {
    const row = await this.#connection.one<{ taken: boolean }>(
      'SELECT take_prediction_turn($1, $2, $3, $4) AS taken',
      ...[this.#connection.process ?? null, accountId, id, most],
    )
    return row!.taken
  }

  async requestCancel(accountId: string, id: string): Promise<void> {
    await this.#connection.commit((transaction) =>
      transaction.run(
        `UPDATE predictions SET is_unwanted = true
         WHERE account_id = $1 AND id = $2 AND completed_at IS NULL AND NOT is_unwanted`,
        accountId,
        id,
      ),
    )
  }

  cancelRequests(): Promise<Pick<PredictionChange, 'accountId' | 'id'>[]> {
    return this.#connection.all(
      `SELECT account_id AS "accountId", id FROM predictions
       WHERE completed_at IS NULL AND is_unwanted AND process = $1 ORDER BY id`,
      this.#connection.process ?? null,
    )
  }

  claimDelivery(id: string, attempts: number): Promise<boolean> {
    return this.#connection.commit(async (transaction) => {
      const { changes } = await transaction.run(
        `UPDATE webhook_deliveries SET claimed_by = $1, claimed_until = clock_timestamp() + ${CLAIM}
         WHERE id = $2 AND attempts = $3
           AND (claimed_until IS NULL OR claimed_until < clock_timestamp() OR claimed_by = $1)`,
        ...[this.#connection.process ?? null, id, attempts],
      )
      return changes > 0
    })
  }
}
