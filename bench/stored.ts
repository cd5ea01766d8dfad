import { mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { chargesOf } from '../src/ledger/book.ts'
import { noUsage } from '../src/generation/usage.ts'
import { SqliteStore } from '../src/store/sqlite/store.ts'
import type { Closing } from '../src/store/store.ts'
import { startSluice } from './contenders.ts'

/** Generations written in one transaction while the store is filled. */
const BATCH = 1_000
const LOOKUPS = 2_000

export type Stored = { generations: number; bytesEach: number; recordMs: Quantiles; balanceMs: Quantiles }
type Quantiles = { median: number; p99: number }

/** Lookup times with many generations in the store, and disk space per generation. */
export const measureStored = async (generations: number): Promise<Stored> => {
  const directory = mkdtempSync(join(tmpdir(), 'bench-stored-'))
  const data = join(directory, 'data')
  try {
    // The first start creates the account and its key.
    await (await startSluice(directory, 1)).stop()
    const before = bytesIn(data)
    const ids = await fill(data, generations)
    const bytesEach = (bytesIn(data) - before) / generations
    const running = await startSluice(directory, 1)
    try {
      const get = (path: string): Promise<number> => timed(`http://127.0.0.1:${running.port}${path}`, running.headers)
      const records: number[] = []
      const balances: number[] = []
      for (let i = 0; i < LOOKUPS; i += 1) {
        records.push(await get(`/v1/management/generation?id=${ids[Math.floor(Math.random() * ids.length)]}`))
        balances.push(await get('/v1/management/payg/balance'))
      }
      return { generations, bytesEach, recordMs: quantiles(records), balanceMs: quantiles(balances) }
    } finally {
      await running.stop()
    }
  } finally {
    rmSync(directory, { recursive: true, force: true })
  }
}

const fill = async (data: string, generations: number): Promise<string[]> => {
  const store = new SqliteStore({ folder: data, exclusive: false })
  const accountId = (await store.accounts.list())[0]!.id
  const keyId = (await store.accounts.keys())[0]!.id
  const ids: string[] = []
  while (ids.length < generations) {
    const closings = Array.from({ length: Math.min(BATCH, generations - ids.length) }, () => closing(accountId, keyId))
    await Promise.all(closings.map((one) => store.ledger.closeGeneration(one)))
    ids.push(...closings.map(({ record }) => record.id))
  }
  await store.close()
  return ids
}

const closing = (accountId: string, keyId: string): Closing => {
  const bill = BigInt(Math.floor(Math.random() * 10_000_000) + 1)
  return {
    record: {
      id: Bun.randomUUIDv7().replaceAll('-', ''),
      accountId,
      keyId,
      kind: 'pay-as-you-go',
      api: 'chat.completions',
      model: 'bench/m',
      provider: 'bench',
      client: null,
      createdAt: Date.now(),
      latency: 800,
      duration: 4_000,
      streamed: true,
      finish: 'stop',
      ending: 'completed',
      retries: 0,
      attempts: null,
      translation: null,
      estimated: false,
      estimation: null,
      disputed: null,
      usage: {
        ...noUsage(),
        inputTokens: Math.floor(Math.random() * 20_000),
        outputTokens: Math.floor(Math.random() * 2_000),
      },
      price: { version: '2026-11-01', model: 'bench/m', rates: '{"prompt":["100000000"],"completion":["400000000"]}' },
      discount: 0,
      held: bill * 2n,
      bill,
      flows: 0n,
    },
    transfers: chargesOf(accountId, { bonus: 0n, credit: bill, writtenOff: 0n }, null, undefined),
    windows: [],
    spend: undefined,
    wasOpen: false,
  }
}

const bytesIn = (folder: string): number =>
  readdirSync(folder).reduce((sum, file) => sum + statSync(join(folder, file)).size, 0)

const timed = async (url: string, headers: Record<string, string>): Promise<number> => {
  const startedAt = performance.now()
  const response = await fetch(url, { headers })
  await response.arrayBuffer()
  if (response.status !== 200) throw new Error(`${url} responded with status ${response.status}`)
  return performance.now() - startedAt
}

const quantiles = (times: number[]): Quantiles => {
  const sorted = times.sort((a, b) => a - b)
  return { median: sorted[sorted.length >> 1]!, p99: sorted[Math.floor(sorted.length * 0.99)]! }
}
