import { expect, test } from 'bun:test'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Conduct } from '../../src/accounts/conduct.ts'
import { Keys } from '../../src/accounts/keys.ts'
import { Limits } from '../../src/accounts/limits.ts'
import { Plans } from '../../src/accounts/plans.ts'
import { answer } from '../../src/app.ts'
import { loadConfig } from '../../src/config.ts'
import { GatewayError } from '../../src/error.ts'
import { Ledger } from '../../src/ledger/ledger.ts'
import { Prices } from '../../src/ledger/prices.ts'
import { Open } from '../../src/open.ts'
import { accountsOf } from '../../src/opening.ts'
import { Catalogue } from '../../src/providers/catalogue.ts'
import { SqliteStore } from '../../src/store/sqlite.ts'

test('a response in the background that cannot be kept ends once: its account is not taken for one that asks too much', async () => {
  const upstream = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: () => Response.json({ id: 'resp_theirs', object: 'response', created_at: 1, status: 'queued', background: true, model: 'm', output: [], usage: null }) })
  const folder = mkdtempSync(join(tmpdir(), 'sluice-deferral-'))
  const file = join(folder, 'test-config.yaml')
  writeFileSync(file, `billing: { unpriced: free }\nproviders:\n  up: { protocol: responses, baseUrl: "http://127.0.0.1:${upstream.port}/v1" }\n`)
  const config = loadConfig({ file, data: folder }, {})
  const sqlite = new SqliteStore({ folder, exclusive: true })
  const full = (): Promise<void> => Promise.reject(new GatewayError('store_unavailable', 'The disk is full.'))
  const store = new Proxy(sqlite, {
    get(target, name) {
      if (name === 'keepOpen') return full
      const member: unknown = Reflect.get(target, name, target)
      return typeof member === 'function' ? (member.bind(target) as unknown) : member
    },
  })
  const keys = await Keys.open({ store, accounts: accountsOf(store, config), folder })
  const [first] = await keys.start()
  const prices = new Prices(config)
  const ledger = await Ledger.open({ store, prices, plans: new Plans(config), overdraft: 0n })
  let now = 0
  const conduct = new Conduct(config.accountStatus, () => now)
  const spine = { config, store, keys, limits: new Limits(), conduct, catalogue: new Catalogue(config), prices, ledger, open: new Open(), draining: false }
  try {
    const headers = { host: 'sluice', authorization: `Bearer ${first?.text}` }
    const response = await answer(spine, new Request('http://sluice/v1/responses', { method: 'POST', headers, body: JSON.stringify({ model: 'up/m', input: 'Hello', background: true }) }))
    expect(response.status).toBe(503)
    expect(spine.open.size).toBe(0)
    now += 60_000
    expect(conduct.judge(await store.accounts())).toEqual([])
  } finally {
    await ledger.stop()
    await sqlite.close()
    await upstream.stop(true)
    rmSync(folder, { recursive: true, force: true })
  }
})
