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
import { removeInSteps } from './remove-in-steps.ts'

type ResponseRow = {
  response: string
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
    const head = headOf(response)
    const input = itemRows(inputItems, 0)
    const output = itemRows(outputItems(response), 1)
    const write = (): void => {
      this.#connection.run('DELETE FROM responses WHERE account_id = ? AND id = ?', accountId, id)
      this.#connection.run(
        `INSERT INTO responses (account_id, id, created_at, expires_at, response, upstream, bytes)
         VALUES (?, ?, ?, ?, ?, ?, ?)`,
        accountId,
        id,
        this.#now(),
        expiresAt,
        head,
        upstream === undefined ? null : JSON.stringify(upstream),
        Buffer.byteLength(head) + bytesOf(input) + bytesOf(output),
      )
      this.#insertItems(accountId, id, expiresAt, input)
      this.#insertItems(accountId, id, expiresAt, output)
    }
    // Without the id of the upstream response, work in the background could not be fetched or cancelled.
    await (upstream === undefined ? this.#connection.commitEnd(write) : this.#connection.commit(write))
  }

  #insertItems(accountId: string, responseId: string, expiresAt: number, items: readonly ItemRow[]): void {
    for (const { id, isOutput, text } of items) {
      this.#connection.run(
        `INSERT INTO response_items (account_id, response_id, id, is_output, expires_at, item)
         VALUES (?, ?, ?, ?, ?, ?)`,
        accountId,
        responseId,
        id,
        isOutput,
        expiresAt,
        text,
      )
    }
  }

  async finish(accountId: string, id: string, response: Json): Promise<void> {
    const head = headOf(response)
    const output = itemRows(outputItems(response), 1)
    await this.#connection.commit(() => {
      const finished = this.#connection.one<{ expiresAt: number }>(
        `UPDATE responses SET response = ?, upstream = NULL
         WHERE account_id = ? AND id = ? AND upstream IS NOT NULL RETURNING expires_at AS expiresAt`,
        head,
        accountId,
        id,
      )
      if (finished === undefined) return
      this.#connection.run(
        'DELETE FROM response_items WHERE account_id = ? AND response_id = ? AND is_output = 1',
        accountId,
        id,
      )
      this.#insertItems(accountId, id, finished.expiresAt, output)
      this.#connection.run(
        `UPDATE responses SET bytes = ? + (SELECT coalesce(sum(length(CAST(item AS BLOB))), 0) FROM response_items
           WHERE account_id = ? AND response_id = ?) WHERE account_id = ? AND id = ?`,
        Buffer.byteLength(head),
        accountId,
        id,
        accountId,
        id,
      )
    })
  }

  async find(accountId: string, id: string): Promise<StoredResponse | undefined> {
    const row = this.#connection.one<ResponseRow>(
      `SELECT response, upstream, created_at AS createdAt, expires_at AS expiresAt FROM responses
       WHERE account_id = ? AND id = ? AND expires_at > ?`,
      accountId,
      id,
      this.#now(),
    )
    if (row === undefined) return undefined
    const { response, upstream, createdAt, expiresAt } = row
    const items = this.#connection.all<{ isOutput: number; item: string }>(
      `SELECT is_output AS isOutput, item FROM response_items WHERE account_id = ? AND response_id = ?
       ORDER BY position`,
      accountId,
      id,
    )
    const parsed = (of: number): unknown[] =>
      items.filter(({ isOutput }) => isOutput === of).map(({ item }) => JSON.parse(item) as unknown)
    return {
      id,
      response: withOutput(JSON.parse(response) as Json, parsed(1)),
      inputItems: parsed(0),
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
    return removeInSteps<number>(
      this.#connection,
      () =>
        this.#connection.all(
          'SELECT position AS key, bytes FROM responses WHERE expires_at <= ? LIMIT ?',
          now,
          BATCH_ROWS,
        ),
      (position) => this.#connection.run('DELETE FROM responses WHERE position = ?', position),
    )
  }
}

/** `id`: null for an item that is not found by one. `isOutput`: 0 or 1. */
type ItemRow = { id: string | null; isOutput: number; text: string }

const itemRows = (items: readonly unknown[], isOutput: number): ItemRow[] =>
  items.map((item) => ({ id: hasOwnId(item) ? item.id : null, isOutput, text: JSON.stringify(item) }))

const bytesOf = (items: readonly ItemRow[]): number =>
  items.reduce((bytes, { text }) => bytes + Buffer.byteLength(text), 0)

/** A response as text without its output, whose items have rows of their own. */
const headOf = (response: Json): string => JSON.stringify(withOutput(response, []))

/** The response with other output, at the same place among its members. */
const withOutput = (response: Json, output: readonly unknown[]): Json =>
  Array.isArray(response.output) ? { ...response, output } : response
