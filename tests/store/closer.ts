import type { Durability } from '../../src/config/terms.ts'
import { SqliteStore } from '../../src/store/sqlite/store.ts'
import { closing, idOf } from './records.ts'
import { accountOf } from './account.ts'

/**
 * Closes generations, a few at a time, until it is killed, and prints each number once it is committed. Arguments:
 * folder, first number, durability.
 */
const TOGETHER = 7
const [folder = '', first, durability] = process.argv.slice(2)
const store = new SqliteStore({ folder, exclusive: true, durability: durability as Durability })
await store.accounts.add(accountOf('a'))
for (let number = Number(first); ; number += TOGETHER) {
  const numbers = Array.from({ length: TOGETHER }, (_, index) => number + index)
  await store.ledger.saveOpen(
    numbers.map((one) => ({ id: idOf(one), accountId: 'a', state: '{}' })),
    true,
  )
  const lines = await Promise.all(
    numbers.map(async (one) => {
      await store.ledger.closeGeneration(
        closing(one, BigInt(one + 1), {
          spend: { keyId: 'k', since: 0, spent: BigInt(one + 1) },
          windows: [{ accountId: 'a', window: '7_day', startedAt: 1, endsAt: 2, used: 3n }],
          wasOpen: true,
        }),
      )
      return `${one}\n`
    }),
  )
  await Bun.write(Bun.stdout, lines.join(''))
}
