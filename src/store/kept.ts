/** The tables of things that are kept for accounts, with one row for each thing. */
export const KEPT_KINDS = ['responses', 'predictions', 'files', 'outputs', 'reasoning', 'idempotent_answers'] as const

export type KeptKind = (typeof KEPT_KINDS)[number]

export type KeptTotal = { things: number; bytes: number }

/** The totals of one account, and the bytes of all accounts together. */
export type KeptTotals = Record<KeptKind, KeptTotal> & { allBytes: number }

/** A total that is not the sum of its rows. `accountId`: empty for all accounts together. */
export type WrongTotal = { accountId: string; kind: KeptKind; expected: KeptTotal; found: KeptTotal }

/** Running totals of what is kept. They change in the same transaction as the rows that they count. */
export interface KeptStore {
  /** In time that does not depend on the number of rows. */
  totals(accountId: string): Promise<KeptTotals>
  /** Counts all rows, for an audit. */
  wrongTotals(): Promise<WrongTotal[]>
}
