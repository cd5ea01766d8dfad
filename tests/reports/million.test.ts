import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { readFileSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Page, RequestAnswer, UsageAnswer } from '../../src/endpoints/management/answers.ts'
import { nanoOf } from '../../src/money.ts'
import { ownerOf, type Browser } from '../management/browser.ts'
import { startGatewayProcess, type GatewayProcess } from '../server.ts'
import { withAccounts } from '../store/records.ts'
import { storeIn, withoutAudit } from '../stores.ts'
import { Chance, randomGeneration } from './records.ts'

/** A server with the records of 30 days, a million of them in the long form, over a change of clocks. */
const RECORDS = process.env['SLUICE_LONG_TESTS'] === '1' ? 1_000_000 : 50_000
const BATCH = 2_000
const DAY_MS = 86_400_000
const [FROM, TO] = [Date.UTC(2026, 9, 12, 3, 30), Date.UTC(2026, 10, 11, 3, 30)]
const MB = 2 ** 20

const data = mkdtempSync(join(tmpdir(), 'sluice-million-'))
/** The facts of each record that sums need. */
const times = new Float64Array(RECORDS)
const bills = new BigUint64Array(RECORDS)
let gateway: GatewayProcess
let owner: Browser

beforeAll(async () => {
  const store = await storeIn(data, { exclusive: true, durability: 'process' })
  await withAccounts(store)
  const chance = new Chance(7)
  for (let first = 0; first < RECORDS; first += BATCH)
    await Promise.all(
      Array.from({ length: Math.min(BATCH, RECORDS - first) }, (_, index) => {
        const number = first + index
        const at = FROM + Math.floor(((TO - FROM) * number) / RECORDS)
        const record = randomGeneration(chance, at, number)
        times[number] = at
        bills[number] = record.kind === 'subscription' ? 0n : record.bill
        return store.ledger.closeGeneration({ record, transfers: [], windows: [], spend: undefined, wasOpen: false })
      }),
    )
  await store.close()
  gateway = await startGatewayProcess({ data })
  owner = await ownerOf(gateway)
}, 600_000)

afterAll(async () => {
  gateway.kill('SIGKILL')
  await gateway.exited
  withoutAudit(data)
  await gateway.stop()
  rmSync(data, { recursive: true })
})

/** Runs `act`, and prints how long it took: figures for people, which no test relies on. */
async function timed<T>(name: string, act: () => Promise<T>): Promise<T> {
  const began = performance.now()
  const result = await act()
  if (RECORDS >= 1_000_000) console.log(`${name}: ${Math.round(performance.now() - began)} ms`)
  return result
}

const list = async (query: string): Promise<Page<RequestAnswer>> =>
  (await owner.get<Page<RequestAnswer>>(`/requests?${query}`)).json

const iso = (at: number): string => new Date(at).toISOString()

describe('the list of many requests', () => {
  test('the newest page, and one after a jump, are whole at once', async () => {
    await list('limit=1')
    const newest = await timed('newest page', () => list('limit=100'))
    const far = await timed('far jump', () => list(`limit=100&to=${iso(FROM + DAY_MS)}`))
    expect([newest.data.length, far.data.length]).toEqual([100, 100])
    expect(Date.parse(newest.data[0]!.at)).toBe(times[RECORDS - 1]!)
    const before = times.findLast((at) => at < FROM + DAY_MS)
    expect(Date.parse(far.data[0]!.at)).toBe(before!)
  })

  test('a filter that no row meets ends, in steps where all rows have to be read', async () => {
    const known = await timed('filter without rows, known to the roll-ups', () => list('model=no/such'))
    expect([known.data, known.next]).toEqual([[], null])
    let pages = 0
    await timed('filter without rows, all searched', async () => {
      for (let cursor = ''; ; pages++) {
        const page = await list(`min_total_ms=999999999${cursor}`)
        expect(page.data).toEqual([])
        if (page.next === null) return
        expect(page.scanned_to).not.toBeNull()
        cursor = `&cursor=${page.next}`
      }
    })
    if (RECORDS >= 1_000_000) console.log(`pages: ${pages + 1}`)
  }, 120_000)
})

describe('30 days by day', () => {
  test.each(['Asia/Kolkata', 'America/St_Johns'])(
    'days in %s equal the records',
    async (zone) => {
      const query = `/usage?from=${iso(FROM)}&to=${iso(TO)}&bucket=day&tz=${zone}`
      const { json: usage } = await timed(`30 days in ${zone}`, () => owner.get<UsageAnswer>(query))
      const format = new Intl.DateTimeFormat('en-CA', { timeZone: zone, dateStyle: 'short' })
      const days = new Map<string, { requests: number; bill: bigint }>()
      // The same hour has the same day, except where a half hour divides it.
      let [known, name] = [-1, '']
      for (const [number, at] of times.entries()) {
        const half = Math.floor(at / 1_800_000)
        if (half !== known) [known, name] = [half, format.format(at)]
        const day = days.get(name) ?? { requests: 0, bill: 0n }
        days.set(name, day)
        day.requests++
        day.bill += bills[number]!
      }
      const points = usage.groups[0]!.points.map(([at, { requests, cost_usd }]) => [
        format.format(Date.parse(at)),
        { requests, bill: nanoOf(cost_usd) },
      ])
      expect(points).toEqual([...days])
      expect(usage.total.requests).toBe(RECORDS)
    },
    60_000,
  )
})

/** The longest time between two chunks of a stream, in milliseconds. */
async function longestGap(signal: AbortSignal): Promise<number> {
  let longest = 0
  while (!signal.aborted) {
    const response = await fetch(`${gateway.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${gateway.key}`, 'content-type': 'application/json' },
      body: JSON.stringify({
        model: 'sandbox/chat',
        stream: true,
        messages: [{ role: 'user', content: '[[pause: 20]] count to a hundred' }],
      }),
    })
    let last = performance.now()
    for await (const _ of response.body!) {
      const now = performance.now()
      longest = Math.max(longest, now - last)
      last = now
    }
  }
  return longest
}

const memoryOf = (pid: number): number =>
  Number(/^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0) * 1024

test('an export has every row in memory that does not grow with them, and streams go on meanwhile', async () => {
  const ending = new AbortController()
  const gap = longestGap(ending.signal)
  const before = memoryOf(gateway.pid)
  let [rows, early, most] = [0, 0, 0]
  await timed('export', async () => {
    const response = await fetch(`${gateway.url}/v1/management/requests/export?format=csv&to=${iso(TO)}`, {
      headers: { 'sec-fetch-site': 'same-origin', 'x-sluice-console': '1', cookie: owner.cookie },
    })
    const second = await owner.get('/requests/export')
    expect(second.code).toBe('request_in_progress')
    for await (const chunk of response.body!) {
      for (const byte of chunk) if (byte === 10) rows++
      const memory = memoryOf(gateway.pid)
      if (rows < RECORDS / 4) early = Math.max(early, memory)
      most = Math.max(most, memory)
    }
  })
  ending.abort()
  expect(rows).toBe(RECORDS + 1)
  // A million rows have 250 MB as CSV, three quarters of them more than this.
  expect(most - early).toBeLessThan(64 * MB)
  const longest = await gap
  if (RECORDS >= 1_000_000)
    console.log(
      `memory + ${Math.round((early - before) / MB)}, then + ${Math.round((most - early) / MB)} MB, ` +
        `longest gap of a stream ${Math.round(longest)} ms`,
    )
}, 300_000)
