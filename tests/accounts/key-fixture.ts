import { afterEach, beforeEach } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Accounts } from '../../src/accounts/accounts.ts'
import { Keys, type ConfiguredKey, type Identity } from '../../src/accounts/keys.ts'
import { GatewayError } from '../../src/error.ts'
import { topUp } from '../../src/ledger/book.ts'
import type { Store } from '../../src/store/store.ts'
import { storeIn } from '../stores.ts'

/** Keys over a data folder of their own for each test, with a clock. */
export class KeyFixture {
  folder = ''
  accounts!: Accounts
  now = 0
  /** The opened ones, the last at the end. */
  stores: Store[] = []

  constructor() {
    beforeEach(() => {
      this.folder = mkdtempSync(join(tmpdir(), 'sluice-keys-'))
      this.stores = []
      this.now = 1_000_000
    })
    afterEach(async () => {
      for (const store of this.stores) await store.close()
      rmSync(this.folder, { recursive: true, force: true })
    })
  }

  async open(configured: ConfiguredKey[] = []): Promise<Keys> {
    const store = await storeIn(this.folder)
    this.stores.push(store)
    const now = (): number => this.now
    const credits = (accountId: string) => [
      topUp({ reference: 'first', at: this.now, accountId, amount: 5n, bonus: false }),
    ]
    this.accounts = new Accounts({ store, first: { credits }, now })
    return Keys.open({ store, accounts: this.accounts, folder: this.folder, configured, now })
  }
}

export const bearer = (text: string): Headers => new Headers({ authorization: `Bearer ${text}` })

/** The identity or the code of the error. */
export function identify(keys: Keys, headers: Headers): Identity | string {
  try {
    return keys.identify(headers)
  } catch (error) {
    if (!(error instanceof GatewayError)) throw error
    return error.code
  }
}
