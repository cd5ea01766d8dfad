import type { Named } from '../../api/answers.ts'

/** An account of the book. `account`: whose credit or bonus it is; `owner`: its id, a provider's, or null. */
export type BookAccount = { kind: string; owner: string | null; account: Named | null }
export type Balance = BookAccount & { balance_usd: string }

/** `reference`: the id of what it was posted for. */
export type Transfer = {
  reference: string
  kind: string
  at: string
  note: string | null
  debit: BookAccount
  credit: BookAccount
  amount_usd: string
}

/** `read`, `total`: generations; `sentence`: the result in words; `first`: the first row that is wrong. */
export type Audit = {
  id: string
  state: 'running' | 'done' | 'failed'
  read: number
  total: number
  wrong: number
  first: { table: string; id: string; expected: string; found: string } | null
  sentence: string
  started_at: string
  ended_at: string | null
}
