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
import type { Connection } from './connection.ts'
import { removeExpired } from './remove-in-steps.ts'

/** The tables of stored responses and of their items. */
export class ResponseTables implements ResponseStore {
  readonly #connection: Connection
  readonly #now: () => number

  constructor(connection: Connection, now: () => number) {
    this.#connection = connection
    this.#now = now
  }

  async save(accountId: string, saved: ResponseToSave): Promise<void> {
    const { id, output, inputItems, upstream } = saved
    const steps = stepsOf(inputItems)
    const last = steps.pop() ?? []
    for (const [index, items] of steps.entries())
      await this.#connection.commit(() => {
        if (index === 0) this.#insert(accountId, saved, '')
        this.#insertItems(accountId, saved, items, 0)
      })
    const write = (): void => {
      if (steps.length === 0) this.#insert(accountId, saved, saved.head)
      this.#insertItems(accountId, saved, last, 0)
      this.#insertItems(accountId, saved, output, 1)
      if (steps.length > 0)
        this.#connection.run(
          'UPDATE responses SET response = ? WHERE account_id = ? AND id = ?',
          saved.head,
          accountId,
          id,
        )
    }
    // Without the id of the upstream response, work in the background could not be fetched or cancelled.
    await (upstream === undefined ? this.#connection.commitEnd(write) : this.#connection.commit(write))
  }

  /** `head`: empty until all items of a long response are written; before that it is not found. */
  #insert(accountId: string, saved: ResponseToSave, head: string): void {
    const { id, expiresAt, upstream } = saved
    this.#connection.run('DELETE FROM responses WHERE account_id = ? AND id = ?', accountId, id)
    this.#connection.run(
      `INSERT INTO responses (account_id, id, created_at, expires_at, response, upstream, bytes, is_background)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
      accountId,
      id,
      this.#now(),
      expiresAt,
      head,
      upstream === undefined ? null : JSON.stringify(upstream),
      bytesOf(saved),
      upstream === undefined ? 0 : 1,
    )
  }

  #insertItems(
    accountId: string,
    { id: responseId, expiresAt }: Pick<ResponseToSave, 'id' | 'expiresAt'>,
    items: readonly ItemText[],
    isOutput: 0 | 1,
  ): void {
    for (const { id, text } of items) {
      this.#connection.run(
        `INSERT INTO response_items (account_id, response_id, id, is_output, expires_at, item)
         VALUES (?, ?, ?, ?, ?, CAST(? AS TEXT))`,
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
    const output = outputItems(response).map(itemText)
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
      this.#insertItems(accountId, { id, expiresAt: finished.expiresAt }, output, 1)
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
    const row = this.#row(accountId, id)
    return row && storedResponseOf(id, row, this.#items(accountId, id))
  }

  async findTexts(accountId: string, id: string): Promise<ResponseTexts | undefined> {
    const row = this.#row(accountId, id)
    return row === undefined ? undefined : { response: row.response, ...this.#items(accountId, id) }
  }

  #row(accountId: string, id: string): ResponseRow | undefined {
    return this.#connection.one<ResponseRow>(
      `SELECT response, upstream, created_at AS createdAt, expires_at AS expiresAt FROM responses
       WHERE account_id = ? AND id = ? AND expires_at > ? AND response <> ''`,
      accountId,
      id,
      this.#now(),
    )
  }

  #items(accountId: string, id: string): Omit<ResponseTexts, 'response'> {
    const items = this.#connection.all<{ isOutput: number; item: string }>(
      `SELECT is_output AS isOutput, item FROM response_items WHERE account_id = ? AND response_id = ?
       ORDER BY position`,
      accountId,
      id,
    )
    return itemTextsOf(items)
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

  purge(now: number): Promise<number> {
    return removeExpired(this.#connection, 'responses', now)
  }
}

/** Items and characters that one transaction writes: about 10 ms. */
const STEP_ITEMS = 500
const STEP_CHARACTERS = 2 ** 20

/** The items in the parts in which they are written. */
function stepsOf(items: readonly ItemText[]): ItemText[][] {
  const steps: ItemText[][] = []
  let characters = Infinity
  for (const item of items) {
    if (characters + item.text.length > STEP_CHARACTERS || steps.at(-1)!.length === STEP_ITEMS) {
      steps.push([])
      characters = 0
    }
    steps.at(-1)!.push(item)
    characters += item.text.length
  }
  return steps
}
