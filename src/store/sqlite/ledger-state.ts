import type { KeySpend, LedgerState } from '../ledger.ts'
import { type ReadSpend, type ReadState, type ReadSubscription, spendOf, stateOf } from '../ledger-rows.ts'
import type { Connection } from './connection.ts'

type SubscriptionRow = Omit<ReadSubscription, 'renews' | 'resetRequested'> & Record<'renews' | 'resetRequested', number>

/** Balances, windows, plans and spendings; with `accountIds` those of these accounts, without spendings. */
export function readState(connection: Connection, accountIds: readonly string[] | undefined): LedgerState {
  const ids = accountIds === undefined ? [] : [JSON.stringify(accountIds)]
  const where = (condition: string): string => (accountIds === undefined ? '' : `WHERE ${condition}`)
  const ofThese = 'IN (SELECT value FROM json_each(?))'
  return stateOf({
    balances: connection.all<ReadState['balances'][number]>(
      `SELECT kind, owner, CAST(balance AS TEXT) AS balance FROM book_accounts
         ${where(`kind IN ('credit', 'bonus') AND owner ${ofThese}`)} ORDER BY id`,
      ...ids,
    ),
    windows: connection.all<ReadState['windows'][number]>(
      `SELECT account_id AS accountId, name AS "window", started_at AS startedAt, ends_at AS endsAt,
           CAST(used AS TEXT) AS used
         FROM quota_windows ${where(`account_id ${ofThese}`)} ORDER BY account_id, name`,
      ...ids,
    ),
    subscriptions: connection
      .all<SubscriptionRow>(
        `SELECT account_id AS accountId, tier, anchor, period_start AS periodStart, period_end AS periodEnd, renews,
           next_tier AS nextTier, reset_requested AS resetRequested, repeated_until AS repeatedUntil
         FROM subscriptions ${where(`account_id ${ofThese}`)} ORDER BY account_id`,
        ...ids,
      )
      .map((row) => ({ ...row, renews: row.renews === 1, resetRequested: row.resetRequested === 1 })),
    spends: accountIds === undefined ? spendRows(connection) : [],
  })
}

export const readSpends = (connection: Connection, keyIds?: readonly string[]): KeySpend[] =>
  spendRows(connection, keyIds).map(spendOf)

const spendRows = (connection: Connection, keyIds?: readonly string[]): ReadSpend[] =>
  connection.all<ReadSpend>(
    `SELECT key_id AS keyId, since, CAST(spent AS TEXT) AS spent FROM key_spends
     ${keyIds === undefined ? '' : 'WHERE key_id IN (SELECT value FROM json_each(?))'} ORDER BY key_id`,
    ...(keyIds === undefined ? [] : [JSON.stringify(keyIds)]),
  )
