import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { rmSync } from 'node:fs'
import { AbuseDetection } from '../../src/accounts/abuse-detection.ts'
import { readConfig } from '../../src/config/load.ts'
import type { AccountStatus, Store } from '../../src/store/store.ts'
import { newPostgresFolder, sqlIn, storeIn } from '../stores.ts'

/** Abuse detection of two processes over one PostgreSQL. */

const MINUTE = 60_000

const rules = {
  ...readConfig('', 'sluice.yaml', {}).accountStatus,
  refusals: { monitored: 9, abusive: 29 },
  addresses: { monitored: 9, abusive: 29 },
  concurrency: { monitored: 9, abusive: 29 },
}

let folder: string
let stores: Store[]
let processes: AbuseDetection[]
let now: number
let status: AccountStatus
beforeEach(async () => {
  folder = newPostgresFolder()
  stores = [await storeIn(folder, { exclusive: true }), await storeIn(folder, { exclusive: true })]
  now = 0
  status = 'healthy'
  processes = [new AbuseDetection(rules, () => (now += 5)), new AbuseDetection(rules, () => (now += 5))]
}, 60_000)
afterEach(async () => {
  for (const store of stores) await store.close()
  rmSync(folder, { recursive: true, force: true })
})

/** Each process exchanges and evaluates as once a minute, three times; the status is stored, as the server does. */
async function evaluate(): Promise<AccountStatus> {
  for (let round = 0; round < 3; round++)
    for (const [index, process] of processes.entries()) {
      await process.exchange(stores[index]!.activities)
      status = process.evaluate([{ id: 'a', status }])[0]?.status ?? status
    }
  return status
}

/** Lets so many minutes pass, also for the reports that are stored. */
async function pass(minutes: number): Promise<void> {
  now += minutes * MINUTE
  await sqlIn(folder, `UPDATE activities SET at = at - interval '${minutes} minutes'`)
}

/** Activity of the account at both processes. `at`: how much of it at each. */
const acts: Record<string, (process: AbuseDetection, count: number, which: number) => void> = {
  refusals: (process, count) => {
    for (let index = 0; index < count; index++) process.recordRefusal('a')
  },
  addresses: (process, count, which) => {
    for (let index = 0; index < count; index++) {
      process.begin('a', () => `10.${which}.0.${index}`)
      process.end('a')
    }
  },
  concurrency: (process, count) => {
    for (let index = 0; index < count; index++) process.begin('a', undefined)
    for (let index = 0; index < count; index++) process.end('a')
  },
}

describe('the thresholds of an account over two processes', () => {
  test.each(Object.keys(acts))('%s that are spread over both count together', async (name) => {
    const act = (one: number, other: number): void => {
      acts[name]!(processes[0]!, one, 0)
      acts[name]!(processes[1]!, other, 1)
    }
    act(8, 1)
    expect(await evaluate()).toBe('healthy')
    await pass(61)
    act(2, 8)
    expect(await evaluate()).toBe('monitored')
    await pass(125)
    act(25, 5)
    expect(await evaluate()).toBe('abusive')
  })

  test('what two processes count little of is added to what a third one counts much of', async () => {
    stores.push(await storeIn(folder, { exclusive: true }))
    processes.push(new AbuseDetection(rules, () => (now += 5)))
    for (const [index, count] of [6, 2, 2].entries()) acts.refusals!(processes[index]!, count, index)
    expect(await evaluate()).toBe('monitored')
  })

  test('an address that both have seen counts once', async () => {
    for (const process of processes) acts.addresses!(process, 9, 0)
    expect(await evaluate()).toBe('healthy')
  })

  test('an account that is far below them is not written down', async () => {
    acts.refusals!(processes[0]!, 4, 0)
    acts.refusals!(processes[1]!, 4, 1)
    await evaluate()
    expect(await sqlIn(folder, 'SELECT * FROM activities')).toEqual([])
  })

  test('a status that follows at one is kept by both for an hour after the last breach', async () => {
    acts.refusals!(processes[0]!, 8, 0)
    acts.refusals!(processes[1]!, 8, 1)
    expect(await evaluate()).toBe('monitored')
    for (let minutes = 0; minutes < 110; minutes += 10) {
      await pass(10)
      expect([minutes, await evaluate()]).toEqual([minutes, 'monitored'])
    }
    await pass(15)
    expect(await evaluate()).toBe('healthy')
  })

  test('a lower status that is set by an administrator clears the counters of both', async () => {
    acts.refusals!(processes[0]!, 20, 0)
    acts.refusals!(processes[1]!, 20, 1)
    expect(await evaluate()).toBe('abusive')
    status = 'healthy'
    expect(await evaluate()).toBe('healthy')
    await pass(1)
    acts.refusals!(processes[0]!, 9, 0)
    expect(await evaluate()).toBe('healthy')
    acts.refusals!(processes[1]!, 1, 1)
    expect(await evaluate()).toBe('monitored')
  })

  test('what a process that has ended counted is counted for an hour', async () => {
    acts.refusals!(processes[0]!, 8, 0)
    await evaluate()
    processes[0] = new AbuseDetection(rules, () => (now += 5))
    acts.refusals!(processes[1]!, 2, 1)
    await processes[1]!.exchange(stores[1]!.activities)
    expect(await sqlIn(folder, 'SELECT process FROM activities')).toHaveLength(1)
    expect(processes[1]!.evaluate([{ id: 'a', status }])).toEqual([
      { accountId: 'a', before: 'healthy', status: 'monitored' },
    ])
  })
})
