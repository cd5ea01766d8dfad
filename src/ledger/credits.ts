import type { ChangeEntry } from '../accounts/change-log.ts'
import { type Nano, usdText } from '../money.ts'
import {
  BookTooLarge,
  NotCovered,
  type Account,
  type LedgerStore,
  type Operation,
  type Transfer,
} from '../store/store.ts'
import { topUp } from './book.ts'

/** An amount for an account; a negative one is withdrawn. The reference makes it idempotent. */
export type Credit = { amount: Nano; bonus: boolean; reference: string; note?: string | undefined }

/** Nothing was posted. `param`: the member of the credit that is at fault. */
export class CreditRefused extends Error {
  readonly param: 'amount' | 'reference'

  constructor(param: 'amount' | 'reference', message: string) {
    super(message)
    this.param = param
  }
}

/**
 * Posts a credit in one transaction with its line of the change log; false where it was posted before. Throws
 * CreditRefused where it is not covered, exceeds the book, or its reference belongs to another operation.
 */
export async function postCredit(
  ledger: LedgerStore,
  account: Pick<Account, 'id' | 'name'>,
  at: number,
  { amount, bonus, reference, note }: Credit,
  addLine: (entry: ChangeEntry) => Promise<void>,
): Promise<boolean> {
  const operation = topUp({
    reference,
    at,
    accountId: account.id,
    amount,
    bonus,
    ...(note === undefined ? {} : { note }),
  })
  const after = { amount_usd: usdText(amount), bonus, reference, note: note ?? null }
  const entry = { action: 'account.credit', target: account.id, accountId: account.id, after }
  try {
    if (await ledger.post({ ...operation, covered: amount < 0n }, () => [addLine(entry)])) return true
  } catch (error) {
    if (error instanceof BookTooLarge) throw new CreditRefused('amount', error.message)
    if (!(error instanceof NotCovered)) throw error
    const kind = bonus ? 'bonus' : 'credit'
    throw new CreditRefused(
      'amount',
      `${account.name} has only ${usdText(error.balance)} USD of ${kind}; nothing was changed`,
    )
  }
  const conflict = await conflictOf(ledger, operation)
  if (conflict !== undefined) throw new CreditRefused('reference', conflict)
  return false
}

/** The problem with an operation whose reference was posted before; undefined where that was the same operation. */
async function conflictOf(
  ledger: LedgerStore,
  { reference, transfers: [wanted] }: Operation,
): Promise<string | undefined> {
  const [known] = await ledger.transfers({ reference, kind: '' }, 1)
  if (known === undefined || wanted === undefined || known.reference !== reference) return undefined
  const sides = ({ kind, debit, credit }: Transfer): string => JSON.stringify([kind, debit, credit])
  const isSame = sides(known) === sides(wanted)
  if (isSame && known.amount === wanted.amount) return undefined
  const what = isSame ? `with ${usdText(known.amount)} USD` : 'for another account or kind of credit'
  return `The reference ${reference} was posted ${what}: use another one.`
}
