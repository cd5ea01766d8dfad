import { digestOfChange, type Change, type ChangeFilter, type ChangeStore, type StoredChange } from '../changes.ts'
import { CHANGE_COLUMNS } from '../columns.ts'
import type { Binding, Connection } from './connection.ts'

/** The table of the change log. */
export class ChangeTable implements ChangeStore {
  readonly #connection: Connection

  constructor(connection: Connection) {
    this.#connection = connection
  }

  async add(change: Change): Promise<void> {
    await this.#connection.commit(() => {
      const last = this.#connection.one<{ digest: string }>('SELECT digest FROM changes ORDER BY position DESC LIMIT 1')
      const { at, actor, actorName, address, action, target, accountId, before, after } = change
      this.#connection.run(
        `INSERT INTO changes (at, actor, actor_name, address, action, target, account_id, before, after, digest)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
        ...[at, actor, actorName, address, action, target, accountId, before, after],
        digestOfChange(last?.digest ?? '', change),
      )
    })
  }

  async list({ before, limit, accountIds, ...equal }: ChangeFilter): Promise<StoredChange[]> {
    const [conditions, values]: [string[], Binding[]] = [['position < ?'], [before ?? Number.MAX_SAFE_INTEGER]]
    if (accountIds !== undefined) {
      conditions.push('account_id IN (SELECT value FROM json_each(?))')
      values.push(JSON.stringify(accountIds))
    }
    for (const name of ['actor', 'action', 'target'] as const) {
      if (equal[name] === undefined) continue
      conditions.push(`${name} = ?`)
      values.push(equal[name])
    }
    return this.#connection.all<StoredChange>(
      `SELECT ${CHANGE_COLUMNS} FROM changes WHERE ${conditions.join(' AND ')} ORDER BY position DESC LIMIT ?`,
      ...values,
      limit,
    )
  }

  async page(after: number, limit: number): Promise<StoredChange[]> {
    return this.#connection.all<StoredChange>(
      `SELECT ${CHANGE_COLUMNS} FROM changes WHERE position > ? ORDER BY position LIMIT ?`,
      ...[after, limit],
    )
  }
}
