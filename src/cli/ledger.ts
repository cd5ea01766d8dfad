import { Plans } from '../accounts/plans.ts'
import { audit, type Audit } from '../ledger/audit.ts'
import type { WrongRollUp, WrongTotal } from '../store/store.ts'
import type { Given } from './command.ts'
import { withExistingData } from './data.ts'

export async function auditLedger(given: Given): Promise<void> {
  await withExistingData(given, async ({ store, config }) => {
    printAudit(
      await audit(store, { overdraft: config.billing.overdraft, usdPerFlow: new Plans(config).usdPerFlow }),
      given.on('json'),
    )
    checkTotals(await store.kept.wrongTotals())
    checkRollUps(await store.reports.wrongRollUps())
  })
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
      `read ${generations} generations, ${transfers} transfers, ${balances} balances, ${windows} quota windows, ` +
        `${spends} key limits`,
    )
  if (first !== undefined)
    throw new Error(
      `the ledger is inconsistent: ${first.table} ${first.id} must have ${first.expected}, ` +
        `but has ${first.found}${others(wrong - 1)}`,
    )
  if (!asJson) console.log('the ledger is consistent')
}

const others = (more: number): string =>
  more === 0 ? '' : `; ${more} more ${more === 1 ? 'row is' : 'rows are'} wrong`
