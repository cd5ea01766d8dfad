import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Conduct } from '../../src/accounts/conduct.ts'
import { Keys } from '../../src/accounts/keys.ts'
import { Limits } from '../../src/accounts/limits.ts'
import { Plans } from '../../src/accounts/plans.ts'
import { loadConfig } from '../../src/config.ts'
import { Ledger } from '../../src/ledger/ledger.ts'
import { Prices } from '../../src/ledger/prices.ts'
import { Open } from '../../src/open.ts'
import { accountsOf } from '../../src/opening.ts'
import { Catalogue } from '../../src/providers/catalogue.ts'
import { Reasoning } from '../../src/reasoning.ts'
import type { Spine } from '../../src/spine.ts'
import { Files } from '../../src/store/files.ts'
import { SqliteStore } from '../../src/store/sqlite.ts'

/** Methods of a store -> what they do instead. */
export type Failing = Record<string, (...args: never[]) => Promise<unknown>>

type InProcess = { sqlite: SqliteStore; rooms: Omit<Spine, 'predictor'>; headers: Record<string, string> }

/**
 * The rooms of a gateway in this process, whose store fails where `failing` says so at that moment. `text`: its
 * sluice.yaml; `headers`: those of its first key.
 */
export async function roomsIn(
  folder: string,
  text: string,
  failing: () => Failing,
  now?: () => number,
): Promise<InProcess> {
  const file = join(folder, 'test-config.yaml')
  writeFileSync(file, text)
  const config = loadConfig({ file, data: folder }, {})
  const sqlite = new SqliteStore({ folder, exclusive: true })
  const store = new Proxy(sqlite, {
    get(target, name) {
      const member: unknown = failing()[String(name)] ?? Reflect.get(target, name, target)
      return typeof member === 'function' ? (member.bind(target) as unknown) : member
    },
  })
  const keys = await Keys.open({ store, accounts: accountsOf(store, config), folder })
  const [first] = await keys.start()
  const prices = new Prices(config)
  const ledger = await Ledger.open({ store, prices, plans: new Plans(config), overdraft: 0n })
  const files = await Files.open({
    store,
    folder,
    quotaBytes: config.files.quotaBytes,
    outputKeepMs: config.files.outputKeepMs,
  })
  const conduct = new Conduct(config.accountStatus, now)
  const rooms = {
    config,
    store,
    files,
    keys,
    limits: new Limits(),
    conduct,
    catalogue: new Catalogue(config),
    prices,
    ledger,
    reasoning: await Reasoning.open(store, 0),
    open: new Open(),
    draining: false,
  }
  return { sqlite, rooms, headers: { host: 'sluice', authorization: `Bearer ${first?.text}` } }
}
