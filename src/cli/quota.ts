import { isAccepted } from '../store/refused.ts'
import type { Given } from './command.ts'
import { withExistingData } from './data.ts'

export async function resetQuota(given: Given, name: string): Promise<void> {
  await withExistingData(given, async ({ accounts, store, line }) => {
    const account = await accounts.named(name)
    const entry = { action: 'quota.reset', target: account.id, accountId: account.id }
    const requested = await isAccepted(store.together(() => [store.ledger.requestReset(account.id), line(entry)]))
    if (given.on('json')) return console.log(JSON.stringify({ account: account.name, requested }))
    console.log(
      requested
        ? `${account.name}: all quota windows are reset; a running server does so within two seconds`
        : `${account.name} has used no quota; nothing was changed`,
    )
  })
}
