import { describe, expect, setDefaultTimeout, test } from 'bun:test'
import { type Limited, Permits } from '../../src/accounts/permits.ts'
import type { LeaseStore, PermitLease } from '../../src/store/leases.ts'
import { forgetPermits } from '../../src/store/postgres/lease-functions.ts'
import { randomOf } from '../../prove/table.ts'
import { until } from './account-contract.ts'
import { type Member, withProcesses } from './members.ts'
import { failure } from './records.ts'

/** Amounts per minute that several processes share. Their time, and that of the permits in the store, is moved on. */

setDefaultTimeout(180_000)

const MINUTE_MS = 60_000
/** A permit counts for so much longer than it may be used. */
const COUNTED_MS = 62_000

type Use = { at: number; amount: number }

/** `spent`: what was reported as used without permits. */
type Rig = {
  members: Member[]
  permits: Permits[]
  spent: Use[]
  now(): number
  /** Moves the time on by whole milliseconds, while no question is under way. */
  pass(ms: number): Promise<void>
}

/** Permits of each process. `isLost`: for each question, whether it is not asked, or not answered. */
async function withPermits(
  count: number,
  run: (rig: Rig) => Promise<void>,
  isLost: () => boolean = () => false,
): Promise<void> {
  await withProcesses(count, async (members) => {
    let passedMs = 0
    let underWay = 0
    let passing: Promise<unknown> | undefined
    const spent: Use[] = []
    const now = (): number => performance.now() + passedMs
    const ask = async (
      { processes }: Member,
      wanted: Parameters<LeaseStore['permits']>[0],
    ): ReturnType<LeaseStore['permits']> => {
      while (passing !== undefined) await passing
      underWay++
      try {
        if (wanted.spent > 0) spent.push({ at: now(), amount: wanted.spent })
        if (isLost()) throw new Error('lost')
        const unused = wanted.unused.map(({ at, ...one }) => ({ ...one, at: at - passedMs }))
        const lease = await processes.permits({ ...wanted, unused })
        if (isLost()) throw new Error('lost')
        return { ...lease, at: lease.at + passedMs }
      } finally {
        underWay--
      }
    }
    const pass = async (ms: number): Promise<void> => {
      while (underWay > 0) await Bun.sleep(1)
      passing = members[0]!.connection.run('UPDATE permits SET at = at - $1', ms)
      await passing
      passedMs += ms
      passing = undefined
    }
    const permits = members.map((member) => new Permits({ permits: (wanted) => ask(member, wanted) }, now))
    await run({ members, permits, spent, now, pass })
  })
}

/** True where so many were had. */
async function had(permits: Permits, limited: Limited, amount: number): Promise<boolean> {
  if (permits.take(limited, amount)) return true
  return (await permits.lease(limited, amount).catch(() => 1)) === 0
}

const sum = (uses: readonly Use[], from: number, to: number): number =>
  uses.reduce((total, { at, amount }) => (at >= from && at < to ? total + amount : total), 0)

/** The most that was used in a minute, wherever it begins, beyond what was spent without permits about that time. */
const mostInAMinute = (uses: readonly Use[], spent: readonly Use[]): number =>
  Math.max(...uses.map(({ at }) => sum(uses, at, at + MINUTE_MS) - sum(spent, at, at + COUNTED_MS)))

const tokens = (limit: number): Limited => ({ keyId: '', endpoint: 'tokens:e', limit })

describe('amounts per minute over four processes', () => {
  const ROUNDS = 25

  /** Random traffic of requests, of which a few are nearly as large as the limit. */
  async function traffic({ permits, now, pass }: Rig, limit: number, seed: number, answers: number): Promise<Use[]> {
    const random = randomOf(seed)
    const uses: Use[] = []
    const request = async (one: Permits): Promise<void> => {
      await Bun.sleep(random() * 30)
      const amount = Math.ceil(limit * (random() < 0.1 ? random() : random() * 0.04))
      if (!(await had(one, tokens(limit), amount))) return
      uses.push({ at: now(), amount })
      await Bun.sleep(random() * 10)
      const answered = Math.floor(random() * limit * answers)
      if (answered === 0) return
      uses.push({ at: now(), amount: answered })
      one.count(tokens(limit), answered)
    }
    for (let round = 0; round < ROUNDS; round++) {
      const requests = Array.from({ length: Math.ceil(random() * 40) }, (_, at) =>
        request(permits[at % permits.length]!),
      )
      await Promise.all(requests)
      await pass(Math.floor(random() < 0.3 ? random() * 2_500 : random() * 25_000))
    }
    return uses
  }

  test.each([
    [60, 1],
    [5_000, 2],
    [1_000_000, 3],
  ])('of which %i may be used are never more in any minute, also where the store does not answer', (limit, seed) => {
    const random = randomOf(seed)
    return withPermits(
      4,
      async (rig) => {
        const uses = await traffic(rig, limit, seed, 0)
        expect(mostInAMinute(uses, [])).toBeLessThanOrEqual(limit)
        expect(sum(uses, 0, Infinity)).toBeGreaterThan(limit)
      },
      () => random() < 0.1,
    )
  })

  test('are exceeded by what answers add without permits, and by nothing else', () =>
    withPermits(4, async (rig) => {
      const limit = 100_000
      const uses = await traffic(rig, limit, 4, 0.05)
      expect(mostInAMinute(uses, rig.spent)).toBeLessThanOrEqual(limit)
      expect(rig.spent.length).toBeGreaterThan(0)
    }))
})

test('what an answer adds counts at all processes, for a minute', () =>
  withPermits(2, async ({ permits: [first, second], pass, members }) => {
    first!.count(tokens(1_000), 990)
    const { connection } = members[0]!
    expect(await until(async () => (await connection.all('SELECT FROM permits')).length === 1)).toBe(true)
    expect(await second!.lease(tokens(1_000), 11)).toBeGreaterThan(MINUTE_MS - 1_000)
    expect(await second!.lease(tokens(1_000), 10)).toBe(0)
    await pass(COUNTED_MS)
    expect(await second!.lease(tokens(1_000), 1_000)).toBe(0)
  }))

test('a request that is too large for what is left does not keep a small one away', () =>
  withPermits(1, async ({ permits: [permits] }) => {
    expect(await permits!.lease(tokens(1_000), 600)).toBe(0)
    const waits = await Promise.all([500, 100, 500].map((amount) => permits!.lease(tokens(1_000), amount)))
    expect(waits.map((wait) => wait > 0)).toEqual([true, false, true])
  }))

test('permits that a process has not used in time go back', () =>
  withPermits(2, async ({ permits: [first, second], pass, members }) => {
    const inStore = async (): Promise<unknown> =>
      (await members[0]!.connection.one<{ sum: unknown }>('SELECT sum(permits)::int AS sum FROM permits'))?.sum
    let used = 0
    do {
      expect(await had(first!, tokens(10_000), 200)).toBe(true)
      used += 200
    } while ((await inStore()) === used)
    await pass(2_000)
    expect(await until(async () => (await inStore()) === used)).toBe(true)
    expect(await second!.lease(tokens(10_000), 10_000 - used)).toBe(0)
  }))

test('permits of owners that are not used any more are forgotten', () =>
  withPermits(1, async ({ permits: [permits], pass, members: [member] }) => {
    const owners = async (): Promise<unknown> => member!.connection.all('SELECT endpoint FROM permits')
    await permits!.lease({ ...tokens(10), endpoint: 'old' }, 1)
    await pass(600_001)
    await permits!.lease({ ...tokens(10), endpoint: 'new' }, 1)
    expect(await owners()).toEqual([{ endpoint: 'old' }, { endpoint: 'new' }])
    await forgetPermits(member!.connection)
    expect(await owners()).toEqual([{ endpoint: 'new' }])
  }))

test('permits are leased for many requests at a time, as long as many are left', () =>
  withPermits(2, async ({ permits, members }) => {
    const before = members.map(({ connection }) => connection.statements)
    for (let at = 0; at < 4_000; at++)
      expect(await had(permits[at % 2]!, tokens(1_000_000_000), 500 + (at % 7))).toBe(true)
    for (const [at, { connection }] of members.entries()) expect(connection.statements - before[at]!).toBeLessThan(200)
  }))

test('a question that is not answered in time keeps no later request waiting, and its answer counts', async () => {
  const first = Promise.withResolvers<PermitLease>()
  const lease = (granted: number): PermitLease => ({ granted, at: 0, usableMs: 60_000, waitMs: 0 })
  let questions = 0
  const permitsOf = async (): Promise<PermitLease> => (questions++ === 0 ? first.promise : lease(1))
  const permits = new Permits({ permits: permitsOf }, undefined, 20)
  expect(String(await failure(permits.lease(tokens(1_000), 1)))).toContain('PostgreSQL has not answered')
  expect(await permits.lease(tokens(1_000), 1)).toBe(0)
  first.resolve(lease(5))
  expect(await until(async () => permits.has(tokens(1_000), 5))).toBe(true)
})
