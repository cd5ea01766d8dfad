import { digestOfChange, type Change, type ChangeFilter, type ChangeStore, type StoredChange } from '../changes.ts'
import { CHANGE_COLUMNS } from '../columns.ts'
import type { Binding } from './client.ts'
import type { Connection } from './connection.ts'
import { lock } from './locks.ts'
import { jsonOf } from './values.ts'

/** The table of the change log. */
export class ChangeTable implements ChangeStore {
  readonly #connection: Connection

  constructor(connection: Connection) {
    this.#connection = connection
  }

  async add(change: Change): Promise<void> {
    await this.#connection.commit(async (transaction) => {
      // Other processes add to the chain, too: the last digest is the last until the end of this transaction.
      await lock(transaction, 'changeLog')
      const last = await transaction.one<{ digest: string }>(
        'SELECT digest FROM changes ORDER BY position DESC LIMIT 1',
      )
      const { at, actor, actorName, address, action, target, accountId, before, after } = change
      await transaction.run(
        `INSERT INTO changes (at, actor, actor_name, address, action, target, account_id, before, after, digest)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`,
        ...[at, actor, actorName, address, action, target, accountId, before, after],
        digestOfChange(last?.digest ?? '', change),
      )
    })
  }

  list({ before, limit, accountIds, ...equal }: ChangeFilter): Promise<StoredChange[]> {
    const [conditions, values]: [string[], Binding[]] = [['position < $1'], [before ?? Number.MAX_SAFE_INTEGER]]
    if (accountIds !== undefined) {
      values.push(jsonOf(accountIds))
      conditions.push(`account_id IN (SELECT jsonb_array_elements_text($${values.length}::text::jsonb))`)
    }
    for (const name of ['actor', 'action', 'target'] as const) {
      if (equal[name] === undefined) continue
      values.push(equal[name])
      conditions.push(`${name} = $${values.length}`)
    }
    values.push(limit)
    return this.#connection.all<StoredChange>(
      `SELECT ${CHANGE_COLUMNS} FROM changes WHERE ${conditions.join(' AND ')}
       ORDER BY position DESC LIMIT $${values.length}`,
      ...values,
    )
  }

  page(after: number, limit: number): Promise<StoredChange[]> {
    return this.#connection.all<StoredChange>(
      `SELECT ${CHANGE_COLUMNS} FROM changes WHERE position > $1 ORDER BY position LIMIT $2`,
      ...[after, limit],
    )
  }
}
