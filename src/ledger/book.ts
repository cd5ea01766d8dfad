import { isGenerationId } from '../store/generation-ids.ts'
import type { Nano } from '../money.ts'
import type { BookAccount, Operation, Transfer } from '../store/store.ts'

/**
 * The chart of accounts. `credit` and `bonus` are what a customer's account may spend; `outside` is where payments come
 * from, `promotion` what bonuses cost, `revenue` what was earned, `write-off` what was earned and will not be paid,
 * `cost` what providers charge at list price, and `payable` what each provider is owed. Every transfer debits one
 * account and credits another.
 */
const ownerless = (kind: BookAccount['kind']): BookAccount => ({ kind, owner: '' })
const REVENUE = ownerless('revenue')
const creditOf = (accountId: string): BookAccount => ({ kind: 'credit', owner: accountId })
const bonusOf = (accountId: string): BookAccount => ({ kind: 'bonus', owner: accountId })

/** Credit that is bought, bonus that is granted, either withdrawn; and of generations what `chargesOf` posts. */
export const TRANSFER_KINDS = ['top-up', 'grant', 'withdrawal', 'bonus', 'credit', 'write-off', 'cost'] as const
type TransferKind = (typeof TRANSFER_KINDS)[number]

/** The parts of a payment in nano-USD; the three add up to the bill. */
export type Payment = { bonus: Nano; credit: Nano; writtenOff: Nano }

/** The transfers of one generation: its payment (pay-as-you-go only), and its provider's charge where that is known. */
export function chargesOf(
  accountId: string,
  payment: Payment | undefined,
  provider: string | null,
  cost: Nano | undefined,
): Transfer[] {
  const transfers: Transfer[] = []
  const post = (kind: TransferKind, debit: BookAccount, credit: BookAccount, amount: Nano): void => {
    if (amount > 0n) transfers.push({ kind, debit, credit, amount })
  }
  if (payment !== undefined) {
    post('bonus', bonusOf(accountId), REVENUE, payment.bonus)
    post('credit', creditOf(accountId), REVENUE, payment.credit)
    post('write-off', ownerless('write-off'), REVENUE, payment.writtenOff)
  }
  if (cost !== undefined && provider !== null)
    post('cost', ownerless('cost'), { kind: 'payable', owner: provider }, cost)
  return transfers
}

/** True for a reference that a caller may give an operation: the id of a generation is that of its own transfers. */
export const isOperationReference = (text: string): boolean =>
  /^[\x21-\x7e]{1,100}$/.test(text) && !isGenerationId(text)

/**
 * Credit bought or bonus granted; a negative amount is withdrawn. The reference makes it idempotent. Throws an Error
 * for a reference that could be a generation's id.
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
  if (isGenerationId(reference))
    throw new Error(`the reference ${reference} looks like the id of a generation; choose another one`)
  const [from, to] = bonus ? [ownerless('promotion'), bonusOf(accountId)] : [ownerless('outside'), creditOf(accountId)]
  const transfer: Transfer =
    amount < 0n
      ? { kind: 'withdrawal', debit: to, credit: from, amount: -amount }
      : { kind: bonus ? 'grant' : 'top-up', debit: from, credit: to, amount }
  return { reference, at, note: note ?? null, transfers: [transfer] }
}
