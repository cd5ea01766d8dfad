import type { BookAccount, KeySpend, LedgerState, QuotaWindow, Subscription } from '../ledger.ts'
import type { Connection } from './connection.ts'

type StoredSubscription = Omit<Subscription, 'renews' | 'resetRequested' | 'repeatedUntil'> & {
  renews: number
  resetRequested: number
  repeatedUntil: number | null
}

/** Balances, windows, plans and spendings; with `accountIds` those of these accounts, without spendings. */
export function readState(connection: Connection, accountIds: readonly string[] | undefined): LedgerState {
  const ids = accountIds === undefined ? [] : [JSON.stringify(accountIds)]
  const where = (condition: string): string => (accountIds === undefined ? '' : `WHERE ${condition}`)
  const ofThese = 'IN (SELECT value FROM json_each(?))'
  return {
    balances: connection
      .all<BookAccount & { balance: string }>(
        `SELECT kind, owner, CAST(balance AS TEXT) AS balance FROM book_accounts
         ${where(`kind IN ('credit', 'bonus') AND owner ${ofThese}`)} ORDER BY id`,
        ...ids,
      )
      .map((row) => ({ ...row, balance: BigInt(row.balance) })),
    windows: connection
      .all<Omit<QuotaWindow, 'used'> & { used: string }>(
        `SELECT account_id AS accountId, name AS "window", started_at AS startedAt, ends_at AS endsAt,
           CAST(used AS TEXT) AS used
         FROM quota_windows ${where(`account_id ${ofThese}`)} ORDER BY account_id, name`,
        ...ids,
      )
      .map((row) => ({ ...row, used: BigInt(row.used) })),
    subscriptions: connection
      .all<StoredSubscription>(
        `SELECT account_id AS accountId, tier, anchor, period_start AS periodStart, period_end AS periodEnd, renews,
           next_tier AS nextTier, reset_requested AS resetRequested, repeated_until AS repeatedUntil
         FROM subscriptions ${where(`account_id ${ofThese}`)} ORDER BY account_id`,
        ...ids,
      )
      .map(({ resetRequested, repeatedUntil, ...row }) => ({
        ...row,
        renews: row.renews === 1,
        ...(resetRequested === 1 ? { resetRequested: true } : {}),
        ...(repeatedUntil === null ? {} : { repeatedUntil }),
      })),
    spends: accountIds === undefined ? readSpends(connection) : [],
  }
}

export const readSpends = (connection: Connection): KeySpend[] =>
  connection
    .all<Omit<KeySpend, 'spent'> & { spent: string }>(
      'SELECT key_id AS keyId, since, CAST(spent AS TEXT) AS spent FROM key_spends ORDER BY key_id',
    )
    .map((row) => ({ ...row, spent: BigInt(row.spent) }))
