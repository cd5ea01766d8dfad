import type { LedgerState } from '../ledger.ts'
import { type ReadState, stateOf } from '../ledger-rows.ts'
import type { Queries } from './client.ts'

/** JSON of rows, in which amounts are texts. Windows and spends of shards count where they are of the latest period. */
type StateRow = Record<keyof ReadState, string | null>

const rows = (sql: string, order: string): string => `(SELECT json_agg(r ORDER BY ${order})::text FROM (${sql}) AS r)`

/** One statement, so that it shows one state while other processes write. `where`: begins with WHERE, or is empty. */
const statementFor = (where: (column: string) => string, spends: string): string => `
  SELECT ${rows(
    `SELECT kind, owner, coalesce(sum(balance), 0)::text AS balance, id
     FROM book_accounts LEFT JOIN book_balances ON account = id ${where('owner')} GROUP BY id`,
    'id',
  )} AS balances, ${rows(
    `SELECT DISTINCT ON (account_id, name) account_id AS "accountId", name AS "window", started_at AS "startedAt",
       max(ends_at) AS "endsAt", sum(used)::text AS used
     FROM quota_windows ${where('account_id')}
     GROUP BY account_id, name, started_at ORDER BY account_id, name, started_at DESC`,
    '"accountId", "window"',
  )} AS windows, ${rows(
    `SELECT account_id AS "accountId", tier, anchor, period_start AS "periodStart", period_end AS "periodEnd", renews,
       next_tier AS "nextTier", reset_requested AS "resetRequested", repeated_until AS "repeatedUntil"
     FROM subscriptions ${where('account_id')}`,
    '"accountId"',
  )} AS subscriptions, ${spends} AS spends`

const SPENDS = rows(
  `SELECT DISTINCT ON (key_id) key_id AS "keyId", since, sum(spent)::text AS spent
   FROM key_spends GROUP BY key_id, since ORDER BY key_id, since DESC`,
  '"keyId"',
)
const STATE = statementFor(() => '', SPENDS)

/** An array, of whose elements each is looked up in the index. */
const OF_THESE = '= ANY (ARRAY(SELECT jsonb_array_elements_text($1::text::jsonb)))'
const STATE_OF_ACCOUNTS = statementFor(
  (column) => `WHERE ${column} ${OF_THESE} ${column === 'owner' ? "AND kind IN ('credit', 'bonus')" : ''}`,
  'NULL',
)

/** Balances, windows, plans and spendings; with `accountIds` those of these accounts, without spendings. */
export async function readState(queries: Queries, accountIds: readonly string[] | undefined): Promise<LedgerState> {
  const row =
    accountIds === undefined
      ? await queries.one<StateRow>(STATE)
      : await queries.one<StateRow>(STATE_OF_ACCOUNTS, JSON.stringify(accountIds))
  const { balances, windows, subscriptions, spends } = row!
  return stateOf({
    balances: parsed(balances),
    windows: parsed(windows),
    subscriptions: parsed(subscriptions),
    spends: parsed(spends),
  })
}

const parsed = <Row>(json: string | null): Row[] => (json === null ? [] : (JSON.parse(json) as Row[]))
