import {
  type BackgroundWork,
  hasOwnId,
  type Json,
  outputItems,
  type ResponseStore,
  type ResponseToSave,
  type StoredResponse,
} from '../responses.ts'
import { BATCH_ROWS, type Connection } from './connection.ts'

type ResponseRow = {
  response: string
  input: string
  upstream: string | null
  createdAt: number
  expiresAt: number
}

/** The tables of stored responses and of their items. */
export class ResponseTables implements ResponseStore {
  readonly #connection: Connection
  readonly #now: () => number

  constructor(connection: Connection, now: () => number) {
    this.#connection = connection
    this.#now = now
  }

  async save(accountId: string, { id, response, inputItems, expiresAt, upstream }: ResponseToSave): Promise<void> {
    const responseText = JSON.stringify(response)
    const inputText = JSON.stringify(inputItems)
    const write = (): void => {
      this.#connection.run('DELETE FROM responses WHERE account_id = ? AND id = ?', accountId, id)
      this.#connection.run(
        `INSERT INTO responses (account_id, id, created_at, expires_at, response, input, upstream)
         VALUES (?, ?, ?, ?, ?, ?, ?)`,
        accountId,
        id,
        this.#now(),
        expiresAt,
        responseText,
        inputText,
        upstream === undefined ? null : JSON.stringify(upstream),
      )
      this.#insertItems(accountId, id, expiresAt, [...inputItems, ...outputItems(response)])
    }
    // Without the id of the upstream response, work in the background could not be fetched or cancelled.
    await (upstream === undefined ? this.#connection.commitEnd(write) : this.#connection.commit(write))
  }

  #insertItems(accountId: string, responseId: string, expiresAt: number, items: readonly unknown[]): void {
    for (const item of items.filter(hasOwnId)) {
      this.#connection.run(
        'INSERT INTO response_items (account_id, response_id, id, expires_at, item) VALUES (?, ?, ?, ?, ?)',
        accountId,
        responseId,
        item.id,
        expiresAt,
        JSON.stringify(item),
      )
    }
  }

  async finish(accountId: string, id: string, response: Json): Promise<void> {
    const responseText = JSON.stringify(response)
    await this.#connection.commit(() => {
      const finished = this.#connection.one<{ expiresAt: number }>(
        `UPDATE responses SET response = ?, upstream = NULL
         WHERE account_id = ? AND id = ? AND upstream IS NOT NULL RETURNING expires_at AS expiresAt`,
        responseText,
        accountId,
        id,
      )
      if (finished !== undefined) this.#insertItems(accountId, id, finished.expiresAt, outputItems(response))
    })
  }

  async find(accountId: string, id: string): Promise<StoredResponse | undefined> {
    const row = this.#connection.one<ResponseRow>(
      `SELECT response, input, upstream, created_at AS createdAt, expires_at AS expiresAt FROM responses
       WHERE account_id = ? AND id = ? AND expires_at > ?`,
      accountId,
      id,
      this.#now(),
    )
    if (row === undefined) return undefined
    const { response, input, upstream, createdAt, expiresAt } = row
    return {
      id,
      response: JSON.parse(response) as Json,
      inputItems: JSON.parse(input) as unknown[],
      createdAt,
      expiresAt,
      ...(upstream === null ? {} : { upstream: JSON.parse(upstream) as BackgroundWork }),
    }
  }

  async findItem(accountId: string, itemId: string): Promise<Json | undefined> {
    const row = this.#connection.one<{ item: string }>(
      `SELECT item FROM response_items WHERE account_id = ? AND id = ? AND expires_at > ?
       ORDER BY position DESC LIMIT 1`,
      accountId,
      itemId,
      this.#now(),
    )
    return row === undefined ? undefined : (JSON.parse(row.item) as Json)
  }

  async delete(accountId: string, id: string): Promise<boolean> {
    let deleted = false
    await this.#connection.commit(() => {
      // An expired response that no purge has removed yet counts as unknown.
      const { changes } = this.#connection.run(
        'DELETE FROM responses WHERE account_id = ? AND id = ? AND expires_at > ?',
        accountId,
        id,
        this.#now(),
      )
      deleted = changes > 0
    })
    return deleted
  }

  async purge(now: number): Promise<number> {
    const purged = await this.#connection.inBatches(() =>
      this.#connection.all(
        `DELETE FROM responses WHERE position IN (SELECT position FROM responses WHERE expires_at <= ? LIMIT ?)
           RETURNING position`,
        now,
        BATCH_ROWS,
      ),
    )
    return purged.length
  }
}
