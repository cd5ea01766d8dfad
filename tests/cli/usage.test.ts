import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { closing, record, withAccounts } from '../store/records.ts'
import { storeIn, withStoreOption } from '../stores.ts'
import { type Ran, runSluice } from './run.ts'

const scratch = mkdtempSync(join(tmpdir(), 'sluice-cli-usage-'))
afterAll(() => rmSync(scratch, { recursive: true, force: true }))
const folder = join(scratch, 'data')
const DAY = Date.UTC(2026, 10, 20)

beforeAll(async () => {
  const store = await storeIn(folder)
  await withAccounts(store)
  const models = ['acme/large', 'acme/large', 'acme/small']
  for (const [number, model] of models.entries())
    await store.ledger.closeGeneration({
      ...closing(number, 1_500_000n),
      record: record(number, { bill: 1_500_000n, model, createdAt: DAY + number * 3_600_000 }),
    })
  await store.close()
})

const usage = async (...args: string[]): Promise<Ran> =>
  runSluice(await withStoreOption(['usage', '--data', folder, ...args]), { cwd: scratch, env: { HOME: scratch } })

const RANGE = ['--from', '2026-11-20', '--to', '2026-11-21']

test('usage is printed as a table, as CSV and as JSON', async () => {
  const table = await usage(...RANGE, '--group', 'model')
  expect(table.err).toBe('')
  expect(table.out.split('\n').map((line) => line.trim().split(/ +/).slice(0, 5))).toEqual([
    ['model', 'requests', 'failed', 'refused', 'cost_usd'],
    ['acme/large', '2', '0', '0', '0.003'],
    ['acme/small', '1', '0', '0', '0.0015'],
    [''],
  ])
  const csv = await usage(
    ...RANGE,
    '--group',
    'model,account',
    '--bucket',
    'day',
    '--tz',
    'Asia/Kolkata',
    '--format',
    'csv',
  )
  expect(csv.out.split('\r\n')[1]).toStartWith('2026-11-20T00:00:00.000Z,acme/large,name of a,2,0,0,0.003,')
  const json = JSON.parse((await usage(...RANGE, '--format', 'json')).out) as { total: object }
  expect(json.total).toMatchObject({ requests: 3, cost_usd: '0.0045' })
  expect(JSON.parse((await usage('--from', '-7d', '--to', '-1h', '--format', 'json')).out)).toHaveProperty('groups')
}, 60_000)

test.each([
  [['--group', 'colour'], '--group must be one or two of model, key, account, provider, outcome, code, user'],
  [['--from', 'soon'], '--from must be an instant'],
  [['--tz', 'Mars'], '--tz must be the name of a time zone'],
  [['--format', 'xml'], '--format must be one of table, csv, json'],
  [['--from', '-400d', '--bucket', 'minute'], '--bucket gives more than 2000 points in this range; take a larger one'],
])('a wrong option is named: %j', async (args, message) => {
  const { code, err } = await usage(...args)
  expect([code, err]).toEqual([2, expect.stringContaining(message)])
})

test('an account that does not exist is answered as by other commands', async () => {
  const { code, err } = await usage('--account', 'absent')
  expect([code, err]).toEqual([1, expect.stringContaining('no account "absent"; sluice accounts list shows all')])
})
