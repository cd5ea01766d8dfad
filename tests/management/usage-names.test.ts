import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { KeyAnswer, Page, RequestAnswer, UsageAnswer } from '../../src/endpoints/management/answers.ts'
import { runSluice } from '../cli/run.ts'
import { startGateway, type Gateway } from '../server.ts'
import { withStoreText } from '../stores.ts'
import { ownerOf, type Browser } from './browser.ts'

/** Names of accounts, keys and people in lists and sums: two keys have one name, and one of them is of the file. */

const FILE_KEY = 'sk-ai-v1-laptop-of-the-file'
const CONFIG = `keys: [{ key: ${FILE_KEY}, name: laptop, account: team }]\n`

const scratch = mkdtempSync(join(tmpdir(), 'sluice-usage-names-'))
let gateway: Gateway
let owner: Browser
/** The ids of the keys in the file and in the store. */
let ids: [inFile: string, stored: string]

beforeAll(async () => {
  gateway = await startGateway({ config: CONFIG })
  owner = await ownerOf(gateway)
  const { text, id } = (
    await owner.post<{ text: string; id: string }>('/keys', { kind: 'pay-as-you-go', name: 'laptop' })
  ).json
  const { data } = (await owner.get<Page<KeyAnswer>>('/keys')).json
  ids = [data.find(({ source }) => source === 'sluice.yaml')!.id, id]
  for (const key of [FILE_KEY, text, text, gateway.key]) await generate(key)
})
afterAll(async () => {
  await gateway.stop()
  rmSync(scratch, { recursive: true, force: true })
})

async function generate(key: string): Promise<void> {
  const response = await fetch(`${gateway.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'sandbox/chat', messages: [{ role: 'user', content: 'Hello' }] }),
  })
  await response.text()
}

const labels = async (group: string): Promise<string[]> =>
  (await owner.get<UsageAnswer>(`/usage?from=-1h&group=${group}`)).json.groups.map(({ label }) => label).toSorted()

test('requests with a key of the file have its name, and are found by it', async () => {
  const { data } = (await owner.get<Page<RequestAnswer>>('/requests?key=laptop')).json
  expect(data.map(({ key }) => key)).toEqual([
    { id: ids[1], name: 'laptop' },
    { id: ids[1], name: 'laptop' },
    { id: ids[0], name: 'laptop' },
  ])
})

test('groups with one name have their ids, too', async () => {
  const laptops = [`laptop (${ids[0]})`, `laptop (${ids[1]})`].toSorted()
  expect(await labels('key')).toEqual(['first', ...laptops])
  expect(await labels('account,key')).toEqual(
    ['default, first', `default, laptop (${ids[1]})`, `team, laptop (${ids[0]})`].toSorted(),
  )
})

test('people who made keys have their names', async () => {
  expect(await labels('user')).toEqual(['Owner', 'none'].toSorted())
})

test('sluice usage shows the same names, whatever the number of groups and the format', async () => {
  const config = join(scratch, 'sluice.yaml')
  writeFileSync(config, await withStoreText(CONFIG, gateway.data))
  const usage = async (...args: string[]): Promise<string[]> => {
    const words = ['usage', '--config', config, '--data', gateway.data, '--group', ...args]
    const { out, err } = await runSluice(words, { cwd: scratch, env: { HOME: scratch } })
    expect(err).toBe('')
    return out.trim().split(/\r?\n/)
  }
  const table = await usage('account,key')
  const rows = table.map((line) => line.split(/ {2,}/).slice(0, 3))
  expect(rows).toContainEqual(['team', `laptop (${ids[0]})`, '1'])
  expect(rows).toContainEqual(['default', `laptop (${ids[1]})`, '2'])
  const csv = await usage('key,user', '--format', 'csv')
  expect(csv.map((line) => line.split(',').slice(0, 3))).toContainEqual([`laptop (${ids[1]})`, 'Owner', '2'])
}, 60_000)
