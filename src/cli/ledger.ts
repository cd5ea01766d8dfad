import { Plans } from '../accounts/plans.ts'
import type { Config } from '../config/load.ts'
import { audit, type Audit, type Terms } from '../ledger/audit.ts'
import { counted } from '../ledger/counted.ts'
import type { Store, WrongRollUp, WrongTotal } from '../store/store.ts'
import type { Given } from './command.ts'
import { withExistingData } from './data.ts'

export async function auditLedger(given: Given): Promise<void> {
  await withExistingData(given, async ({ store, config }) => {
    printAudit(await audit(store, termsOf(config)), given.on('json'))
    await checkSums(store)
  })
}

/** The audit of a store whose book, totals and roll-ups are right. Fails with an Error for the operator. */
export async function checkBook(store: Store, config: Config): Promise<Audit> {
  const result = await audit(store, termsOf(config))
  failIfWrong(result)
  await checkSums(store)
  return result
}

const termsOf = (config: Config): Terms => ({
  overdraft: config.billing.overdraft,
  usdPerFlow: new Plans(config).usdPerFlow,
})

async function checkSums(store: Store): Promise<void> {
  checkTotals(await store.kept.wrongTotals())
  checkRollUps(await store.reports.wrongRollUps())
}

function checkTotals([first, ...more]: WrongTotal[]): void {
  if (first === undefined) return
  const { accountId, kind, expected, found } = first
  throw new Error(
    `the total of ${kind} of ${accountId === '' ? 'all accounts' : accountId} must be ${expected.things} with ` +
      `${expected.bytes} bytes, but is ${found.things} with ${found.bytes} bytes${others(more.length)}`,
  )
}

function checkRollUps([first, ...more]: WrongRollUp[]): void {
  if (first === undefined) return
  const { row, lacks } = first
  const difference = lacks < 0 ? `${-lacks} requests too many` : `${lacks} requests too few`
  throw new Error(`${row} has ${difference}, or other sums than its records${others(more.length)}`)
}

function printAudit({ wrong, first, ...rows }: Audit, asJson: boolean): void {
  const { generations, transfers, balances, windows, spends } = rows
  if (asJson) console.log(JSON.stringify({ right: first === undefined, rows, wrong, first: first ?? null }))
  else
    console.log(
      `read ${counted(generations, 'generation')}, ${counted(transfers, 'transfer')}, ` +
        `${counted(balances, 'balance')}, ${counted(windows, 'quota window')}, ${counted(spends, 'key limit')}`,
    )
  failIfWrong({ wrong, first })
  if (!asJson) console.log('the ledger is consistent')
}

function failIfWrong({ wrong, first }: Pick<Audit, 'wrong' | 'first'>): void {
  if (first !== undefined)
    throw new Error(
      `the ledger is inconsistent: ${first.table} ${first.id} must have ${first.expected}, ` +
        `but has ${first.found}${others(wrong - 1)}`,
    )
}

const others = (more: number): string =>
  more === 0 ? '' : `; ${more} more ${more === 1 ? 'row is' : 'rows are'} wrong`
