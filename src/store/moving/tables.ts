import type { Database } from 'bun:sqlite'

/** The rows of the embedded store that become those of one table of PostgreSQL. */
export type Moved = {
  into: string
  /** The table of SQLite. */
  from: string
  /** Selects the rows with the columns of `into`; without it, all columns of `from`. */
  sql?: string
  /** Rows are only added, so that those of an attempt before are good. */
  isAppended?: boolean
  /** Rows of `into` that are no part of the store. */
  except?: string
}

/**
 * Tables whose rows PostgreSQL makes itself, or has in others. `open_generations` is empty after a stop, and tries of
 * passwords count for minutes.
 */
const LEFT = ['account_changes', 'identities', 'kept', 'names', 'open_generations', 'password_tries', 'roll_ups']

/** Tables in an order in which what a row refers to comes before it; others follow, with the same columns. */
const FIRST = ['settings', 'accounts', 'keys', 'users', 'responses']

/** The mark of a database into which a store is being moved. */
export const MOVING = 'moving'

const NAMED = ['account', 'key', 'kind', 'api', 'model', 'provider', 'client', 'finish', 'ending', 'route', 'code']

/** Every table of the embedded store, of which none is forgotten: one that is not known here is moved as it is. */
export function movedTables(database: Database): Moved[] {
  const tables = (
    database
      .query("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'")
      .all() as { name: string }[]
  ).map(({ name }) => name)
  const ordered = [...FIRST, ...tables.filter((name) => !FIRST.includes(name)).sort()]
  const moved = ordered.filter((name) => !LEFT.includes(name)).flatMap((name) => movedOf(name, database))
  return moved.toSorted((one, other) => Number(one.into === 'book_balances') - Number(other.into === 'book_balances'))
}

function movedOf(from: string, database: Database): Moved[] {
  switch (from) {
    case 'settings':
      return [{ into: from, from, except: `name = '${MOVING}'` }]
    case 'changes':
    case 'prices':
      return [{ into: from, from, isAppended: true }]
    case 'bodies': {
      const columns = columnsOf(from, database).filter((name) => name !== 'position')
      return [{ into: from, from, sql: `SELECT ${columns.map((name) => `"${name}"`).join(', ')} FROM ${from}` }]
    }
    case 'generations':
      return [{ into: from, from, sql: withNames(from, database, 'NULL'), isAppended: true }]
    case 'refusals':
      return [{ into: from, from, sql: withNames(from, database, "''"), isAppended: true }]
    case 'refusal_hours':
    case 'carried_usage':
      return [{ into: from, from, sql: withNames(from, database, "''") }]
    case 'usage_hours':
    case 'speed_hours':
      return [{ into: from, from, sql: withNames(from, database, "''", ', 0 AS shard') }]
    case 'quota_windows':
    case 'key_spends':
      return [{ into: from, from, sql: `SELECT *, 0 AS shard FROM ${from}` }]
    case 'book_accounts':
      return [
        { into: from, from, sql: 'SELECT id, kind, owner FROM book_accounts', isAppended: true },
        { into: 'book_balances', from, sql: 'SELECT id AS account, 0 AS shard, balance FROM book_accounts' },
      ]
    case 'transfers':
      return [
        { into: from, from, sql: transfers('id', 'blob'), isAppended: true },
        { into: 'operations', from, sql: transfers('reference', 'text'), isAppended: true },
      ]
    default:
      return [{ into: from, from }]
  }
}

const transfers = (reference: string, type: string): string =>
  `SELECT reference AS ${reference}, kind, debit, credit, amount, at, note FROM transfers
   WHERE typeof(reference) = '${type}'`

/** All columns, with texts in place of the ids of names. */
function withNames(table: string, database: Database, none: string, more = ''): string {
  const columns = columnsOf(table, database).map((name) =>
    NAMED.includes(name) ? `coalesce((SELECT text FROM names WHERE id = t.${name}), ${none}) AS ${name}` : `t.${name}`,
  )
  return `SELECT ${columns.join(', ')}${more} FROM ${table} AS t`
}

const columnsOf = (table: string, database: Database): string[] =>
  (database.query(`PRAGMA table_info(${table})`).all() as { name: string }[]).map(({ name }) => name)
