import { SqliteStore } from '../../src/store/sqlite/store.ts'
import { withAccounts } from '../store/records.ts'
import { Chance, randomGeneration } from './records.ts'

/** Closes generations until it is killed, and prints how many are committed. Argument: the data folder. */
const store = new SqliteStore({ folder: process.argv[2]!, exclusive: true, durability: 'process' })
await withAccounts(store)
await store.reports.begin()
const chance = new Chance(1)
for (let number = 0; ; number += 10) {
  const records = Array.from({ length: 10 }, (_, index) => randomGeneration(chance, Date.now(), number + index))
  await Promise.all(
    records.map((record) =>
      store.ledger.closeGeneration({ record, transfers: [], windows: [], spend: undefined, wasOpen: false }),
    ),
  )
  await Bun.write(Bun.stdout, `${number + 10}\n`)
}
