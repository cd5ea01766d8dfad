import type { BookAccount, Transfer } from './ledger.ts'

/** The names under which stores read the accounts and the amount of a transfer. */
export type ReadTransfer = {
  kind: string
  amount: string
  debitKind: BookAccount['kind']
  debitOwner: string
  creditKind: BookAccount['kind']
  creditOwner: string
}

type Other<Row> = Omit<Row, keyof ReadTransfer>

/** The transfer, and what the row has beside it. */
export function transferOf<Row extends ReadTransfer>(row: Row): Transfer & Other<Row> {
  const { kind, amount, debitKind, debitOwner, creditKind, creditOwner, ...other } = row
  return {
    ...other,
    kind,
    debit: { kind: debitKind, owner: debitOwner },
    credit: { kind: creditKind, owner: creditOwner },
    amount: BigInt(amount),
  }
}
