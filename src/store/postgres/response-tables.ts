import {
  bytesOf,
  headOf,
  type ItemText,
  itemText,
  itemTextsOf,
  type Json,
  outputItems,
  type ResponseRow,
  type ResponseStore,
  type ResponseTexts,
  type ResponseToSave,
  type StoredResponse,
  storedResponseOf,
} from '../responses.ts'
import type { Queries } from './client.ts'
import type { Connection } from './connection.ts'
import { removeExpired } from './remove-in-steps.ts'
import { jsonOf } from './values.ts'

/** The tables of stored responses and of their items. */
export class ResponseTables implements ResponseStore {
  readonly #connection: Connection
  readonly #now: () => number

  constructor(connection: Connection, now: () => number) {
    this.#connection = connection
    this.#now = now
  }

  async save(accountId: string, saved: ResponseToSave): Promise<void> {
    const createdAt = this.#now()
    await this.#connection.commit(async (transaction) => {
      await insert(transaction, accountId, saved, createdAt)
      await insertItems(transaction, accountId, saved, saved.inputItems, false)
      await insertItems(transaction, accountId, saved, saved.output, true)
    })
  }

  async finish(accountId: string, id: string, response: Json): Promise<void> {
    const head = headOf(response)
    const output = outputItems(response).map(itemText)
    await this.#connection.commit(async (transaction) => {
      const finished = await transaction.one<{ expiresAt: number }>(
        `UPDATE responses SET response = $1, upstream = NULL
         WHERE account_id = $2 AND id = $3 AND upstream IS NOT NULL RETURNING expires_at AS "expiresAt"`,
        ...[head, accountId, id],
      )
      if (finished === undefined) return
      await transaction.run(
        'DELETE FROM response_items WHERE account_id = $1 AND response_id = $2 AND is_output',
        ...[accountId, id],
      )
      await insertItems(transaction, accountId, { id, expiresAt: finished.expiresAt }, output, true)
      await transaction.run(
        `UPDATE responses SET bytes = $1 + (SELECT coalesce(sum(octet_length(item)), 0) FROM response_items
           WHERE account_id = $2 AND response_id = $3) WHERE account_id = $2 AND id = $3`,
        ...[Buffer.byteLength(head), accountId, id],
      )
    })
  }

  async find(accountId: string, id: string): Promise<StoredResponse | undefined> {
    const row = await this.#row(accountId, id)
    return row && storedResponseOf(id, row, await this.#items(accountId, id))
  }

  async findTexts(accountId: string, id: string): Promise<ResponseTexts | undefined> {
    const row = await this.#row(accountId, id)
    return row === undefined ? undefined : { response: row.response, ...(await this.#items(accountId, id)) }
  }

  #row(accountId: string, id: string): Promise<ResponseRow | undefined> {
    return this.#connection.one<ResponseRow>(
      `SELECT response, upstream, created_at AS "createdAt", expires_at AS "expiresAt" FROM responses
       WHERE account_id = $1 AND id = $2 AND expires_at > $3`,
      ...[accountId, id, this.#now()],
    )
  }

  async #items(accountId: string, id: string): Promise<Omit<ResponseTexts, 'response'>> {
    const items = await this.#connection.all<{ isOutput: boolean; item: string }>(
      `SELECT is_output AS "isOutput", item FROM response_items WHERE account_id = $1 AND response_id = $2
       ORDER BY position`,
      ...[accountId, id],
    )
    return itemTextsOf(items)
  }

  async findItem(accountId: string, itemId: string): Promise<Json | undefined> {
    const row = await this.#connection.one<{ item: string }>(
      `SELECT item FROM response_items WHERE account_id = $1 AND md5(id) = md5($2) AND id = $2 AND expires_at > $3
       ORDER BY position DESC LIMIT 1`,
      ...[accountId, itemId, this.#now()],
    )
    return row === undefined ? undefined : (JSON.parse(row.item) as Json)
  }

  async delete(accountId: string, id: string): Promise<boolean> {
    const now = this.#now()
    // An expired response that no purge has removed yet counts as unknown.
    const { changes } = await this.#connection.commit((transaction) =>
      transaction.run(
        'DELETE FROM responses WHERE account_id = $1 AND id = $2 AND expires_at > $3',
        ...[accountId, id, now],
      ),
    )
    return changes > 0
  }

  purge(now: number): Promise<number> {
    return removeExpired(this.#connection, 'responses', now)
  }
}

async function insert(
  transaction: Queries,
  accountId: string,
  saved: ResponseToSave,
  createdAt: number,
): Promise<void> {
  const { id, head, expiresAt, upstream } = saved
  await transaction.run('DELETE FROM responses WHERE account_id = $1 AND id = $2', ...[accountId, id])
  await transaction.run(
    `INSERT INTO responses (account_id, id, created_at, expires_at, response, upstream, bytes, is_background)
     VALUES ($1, $2, $3, $4, $5, $6, $7, $6::text IS NOT NULL)`,
    ...[accountId, id, createdAt, expiresAt, head, upstream === undefined ? null : JSON.stringify(upstream)],
    bytesOf(saved),
  )
}

async function insertItems(
  transaction: Queries,
  accountId: string,
  { id: responseId, expiresAt }: Pick<ResponseToSave, 'id' | 'expiresAt'>,
  items: readonly ItemText[],
  isOutput: boolean,
): Promise<void> {
  if (items.length === 0) return
  const rows = items.map(({ id, text }) => ({
    id,
    item: typeof text === 'string' ? text : Buffer.from(text).toString(),
  }))
  await transaction.run(
    `INSERT INTO response_items (account_id, response_id, id, is_output, expires_at, item)
     SELECT $1, $2, row ->> 'id', $3, $4, row ->> 'item' FROM jsonb_array_elements($5::text::jsonb) WITH ORDINALITY
       AS i (row, position) ORDER BY i.position`,
    ...[accountId, responseId, isOutput, expiresAt, jsonOf(rows)],
  )
}
