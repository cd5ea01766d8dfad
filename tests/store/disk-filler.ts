import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { GatewayError } from '../../src/error.ts'
import { SqliteStore } from '../../src/store/sqlite/store.ts'
import { allGenerations, closing, expectBalanced, record } from './records.ts'
import { accountOf } from './account.ts'

/**
 * Closes generations on a small disk until it is full, frees space, closes the failed ones again, and prints the
 * outcome. Argument: a folder on that disk.
 */
const disk = process.argv[2] ?? ''
const ballast = join(disk, 'ballast')
writeFileSync(ballast, new Uint8Array(1_500_000).fill(1))
const store = new SqliteStore({ folder: join(disk, 'data'), exclusive: true })
await store.accounts.add(accountOf('a'))

const big = (number: number) =>
  closing(number, 3n, {
    record: record(number, { bill: 3n, attempts: 'x'.repeat(20_000) }),
    spend: { keyId: 'k', since: 0, spent: 3n },
  })
const failed: number[] = []
const errors = new Set<string>()
let closed = 0
const close = (number: number): Promise<void> =>
  store.ledger.closeGeneration(big(number)).then(
    () => void closed++,
    (error: unknown) => {
      failed.push(number)
      errors.add(error instanceof GatewayError ? error.code : String(error))
    },
  )
let number = 0
while (failed.length < 20 && number < 2_000) {
  await Promise.all([close(number), close(number + 1), close(number + 2)])
  number += 3
}
const whenFull = {
  closed,
  failed: failed.length,
  errors: [...errors],
  kept: (await allGenerations(store)).length,
  revenue: String((await store.ledger.state()).spends[0]?.spent),
}
await expectBalanced(store)

rmSync(ballast)
await Promise.all(failed.splice(0).map(close))
await expectBalanced(store)
const whenCleared = {
  closed,
  failed: failed.length,
  kept: (await allGenerations(store)).length,
  revenue: String((await store.ledger.state()).spends[0]?.spent),
}
await store.close()

const again = new SqliteStore({ folder: join(disk, 'data'), exclusive: true })
await expectBalanced(again)
console.log(JSON.stringify({ number, whenFull, whenCleared, again: (await allGenerations(again)).length }))
await again.close()
