/** The tables of things that are kept for accounts, with one row for each thing. */
export const KEPT_KINDS = ['responses', 'predictions', 'files', 'outputs', 'reasoning', 'idempotent_answers'] as const

export type KeptKind = (typeof KEPT_KINDS)[number]

export type KeptTotal = { things: number; bytes: number }

/** The totals of one account, and the bytes of all accounts together. */
export type KeptTotals = Record<KeptKind, KeptTotal> & { allBytes: number }

/** A total that is not the sum of its rows. `accountId`: empty for all accounts together. */
export type WrongTotal = { accountId: string; kind: KeptKind; expected: KeptTotal; found: KeptTotal }

/** Totals as stores read them. `accountId`: empty for all accounts together. */
export type ReadTotal = KeptTotal & { accountId: string; kind: KeptKind }

export function keptTotalsOf(rows: readonly ReadTotal[]): KeptTotals {
  const none = KEPT_KINDS.map((kind) => [kind, { things: 0, bytes: 0 }])
  const totals = { ...Object.fromEntries(none), allBytes: 0 } as KeptTotals
  for (const { accountId, kind, things, bytes } of rows) {
    if (accountId === '') totals.allBytes += bytes
    else totals[kind] = { things, bytes }
  }
  return totals
}

/** A wrong total as stores read it. */
export type ReadWrongTotal = KeptTotal & { accountId: string; foundThings: number; foundBytes: number }

export const wrongTotalOf = (
  kind: KeptKind,
  { accountId, things, bytes, foundThings, foundBytes }: ReadWrongTotal,
): WrongTotal => ({
  accountId,
  kind,
  expected: { things, bytes },
  found: { things: foundThings, bytes: foundBytes },
})

/** Running totals of what is kept. They change in the same transaction as the rows that they count. */
export interface KeptStore {
  /** In time that does not depend on the number of rows. */
  totals(accountId: string): Promise<KeptTotals>
  /** Counts all rows, for an audit. */
  wrongTotals(): Promise<WrongTotal[]>
}
