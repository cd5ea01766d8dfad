import { describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { completionTokens, promptTokens } from '../../src/generation/usage.ts'
import { readProgress } from '../../src/ledger/open-generation.ts'
import type { GenerationRecord } from '../../src/store/store.ts'
import { expectBookRight } from '../audit.ts'
import { startGatewayProcess, type GatewayProcess } from '../server.ts'
import { until } from '../transport/raw-server.ts'
import { TEXT } from './scripted.ts'
import { storeIn } from '../stores.ts'
import {
  ask,
  configFor,
  expectEnding,
  modelOf,
  named,
  NOTHING,
  provider,
  readUntil,
  receivedUsage,
  recordOf,
  useProvider,
  WAYS,
  type Way,
} from './ending-ways.ts'

useProvider()

/**
 * All cases concurrently, each stopped when its provider goes silent. Returns the records after `stop` has ended the
 * gateway.
 */
async function stopped(
  stop: (gateway: GatewayProcess) => Promise<GatewayProcess | void>,
): Promise<{ record: GenerationRecord; way: Way; midway: boolean }[]> {
  const data = mkdtempSync(join(tmpdir(), 'sluice-test-'))
  const gateway = await startGatewayProcess({ data, config: configFor(provider, { timeouts: { drain: '100ms' } }) })
  try {
    const before = provider.requests.length
    const all = WAYS.flatMap((way) =>
      (['silent', 'silent-midway'] as const).map((script) => ({
        way,
        script,
        answer: ask(gateway, way, modelOf(way, script)),
      })),
    )
    await until(() => provider.requests.length === before + all.length)
    await Promise.all(
      all.map(async ({ way, script, answer }) => {
        if (way.stream && script === 'silent-midway') await readUntil(await answer, 'three')
        else void answer.then((response) => response.text()).catch(() => {})
      }),
    )
    const after = await stop(gateway)
    const store = await storeIn(data)
    const records = await store.ledger.generations(undefined, 1000)
    await store.close()
    await expectBookRight(data)
    await after?.stop()
    expect(records.length).toBe(all.length)
    return all.map(({ way, script }) => ({
      way,
      midway: way.stream && script === 'silent-midway',
      record: recordOf(records, way, script),
    }))
  } finally {
    await gateway.stop()
    rmSync(data, { recursive: true, force: true })
  }
}

/** Resolves when all are stored as open, and those whose response has begun with all that was received. */
async function allStored({ data }: GatewayProcess): Promise<void> {
  type Stored = { ask: { model: string; streamed: boolean }; heard: { text: number } }
  const store = await storeIn(data)
  const isWhole = (id: string, state: string): boolean => {
    const { ask, heard } = JSON.parse(state) as Stored
    if (!ask.streamed || !ask.model.endsWith('/silent-midway')) return true
    return Math.max(heard.text, readProgress(store.progress.read()).get(id)?.[2] ?? 0) === TEXT.length
  }
  for (;;) {
    const open = await store.ledger.openGenerations()
    if (open.length === 2 * WAYS.length && open.every(({ id, state }) => isWhole(id, state))) break
    await Bun.sleep(20)
  }
  await store.close()
}

describe('the end of the server', () => {
  test('a generation that outlasts the drain is recorded as shutdown', async () => {
    const ended = await stopped(async (gateway) => {
      gateway.kill('SIGTERM')
      expect(await gateway.exited).toBe(0)
    })
    for (const { record, way, midway } of ended) {
      expectEnding(record, way, { ending: 'shutdown', usage: midway ? receivedUsage(way) : NOTHING, estimated: midway })
    }
  }, 20_000)

  test('a generation found open at the next start is recorded as crashed', async () => {
    const ended = await stopped(async (gateway) => {
      await allStored(gateway)
      gateway.kill('SIGKILL')
      await gateway.exited
      return startGatewayProcess({ data: gateway.data, config: configFor(provider) })
    })
    for (const { record, way, midway } of ended) {
      expect([named(way), record.ending, record.estimated]).toEqual([named(way), 'crashed', midway])
      if (!midway) expect([promptTokens(record.usage), completionTokens(record.usage), record.bill]).toEqual([0, 0, 0n])
      // Only lengths are stored, so its tokens are an upper bound and not a count.
      else
        expect([record.bill > 0n, record.bill <= record.held, completionTokens(record.usage)]).toEqual([
          true,
          true,
          Math.ceil(TEXT.length / 4),
        ])
    }
  }, 20_000)
})
