import type { BookAccount, Operation, Transfer } from '../store/store.ts'
import type { Nano } from '../money.ts'

/**
 * The chart of accounts. A customer's `credit` and `bonus` are what Sluice owes in service; `outside` is the money that
 * came in,
 * `promotion` what was given away, `revenue` what was earned, `write-off` what was earned and will not be paid, `cost`
 * what
 * providers charge at list price and `payable` what they are owed for it. Every movement debits one and credits
 * another.
 */
const one = (kind: BookAccount['kind']): BookAccount => ({ kind, owner: '' })
const REVENUE = one('revenue')
const creditOf = (accountId: string): BookAccount => ({ kind: 'credit', owner: accountId })
const bonusOf = (accountId: string): BookAccount => ({ kind: 'bonus', owner: accountId })

/** What a bill is paid from; all three add up to it. What nobody has is written off. */
export type Payment = { bonus: Nano; credit: Nano; writtenOff: Nano }

/**
 * The postings of one generation: its bill where it is paid as you go, and what its provider charges where that is
 * known.
 */
export function chargesOf(
  accountId: string,
  payment: Payment | undefined,
  provider: string | null,
  cost: Nano | undefined,
): Transfer[] {
  const charges: Transfer[] = []
  const post = (kind: string, debit: BookAccount, credit: BookAccount, amount: Nano): void => {
    if (amount > 0n) charges.push({ kind, debit, credit, amount })
  }
  if (payment !== undefined) {
    post('bonus', bonusOf(accountId), REVENUE, payment.bonus)
    post('credit', creditOf(accountId), REVENUE, payment.credit)
    post('write-off', one('write-off'), REVENUE, payment.writtenOff)
  }
  if (cost !== undefined && provider !== null) post('cost', one('cost'), { kind: 'payable', owner: provider }, cost)
  return charges
}

/** What a generation's postings have as their reference, which no operation may have. */
export const GENERATION_ID = /^[0-9a-f]{32}$/

/**
 * Credit bought or bonus granted; a negative amount takes it back. The reference makes it happen once; one that could
 * be a generation's id is refused with an Error.
 */
export function topUp(options: {
  reference: string
  at: number
  accountId: string
  amount: Nano
  bonus: boolean
  note?: string
}): Operation {
  const { reference, at, accountId, amount, bonus, note } = options
  if (GENERATION_ID.test(reference)) throw new Error(`the reference ${reference} could be the id of a generation`)
  const [from, to] = bonus ? [one('promotion'), bonusOf(accountId)] : [one('outside'), creditOf(accountId)]
  const transfer: Transfer =
    amount < 0n
      ? { kind: 'withdrawal', debit: to, credit: from, amount: -amount }
      : { kind: bonus ? 'grant' : 'top-up', debit: from, credit: to, amount }
  return { reference, at, note: note ?? null, transfers: [transfer] }
}
