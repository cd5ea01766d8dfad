import { writtenResponse } from '../../src/store/responses.ts'
import { SqliteStore } from '../../src/store/sqlite/store.ts'
import { accountOf } from './account.ts'

/** Saves responses until it is killed, and prints each id once it is saved. */
const store = new SqliteStore({ folder: process.argv[2] ?? '', exclusive: true })
await store.accounts.add(accountOf('a'))
for (let number = 0; ; number++) {
  const id = `resp_${number}`
  await store.responses.save('a', {
    ...writtenResponse({ id, output: [{ id: `msg_${number}`, text: 'x'.repeat(2000) }] })!,
    inputItems: [],
    expiresAt: Date.now() + 3_600_000,
  })
  await Bun.write(Bun.stdout, `${id}\n`)
}
