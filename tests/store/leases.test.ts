import { describe, expect, setDefaultTimeout, test } from 'bun:test'
import { limitsOf } from '../../src/accounts/shared-limits.ts'
import { PostgresClient } from '../../src/store/postgres/client.ts'
import { takeTurn } from '../../src/store/postgres/locks.ts'
import { ProgressTable } from '../../src/store/postgres/progress-table.ts'
import type { Inheritance } from '../../src/store/leases.ts'
import { until } from './account-contract.ts'
import { DIES_SOON, inherited, type Member, withProcesses } from './members.ts'
import { closing, failure, idOf, topUp } from './records.ts'

setDefaultTimeout(60_000)

const sum = (amounts: readonly bigint[]): bigint => amounts.reduce((a, b) => a + b, 0n)

describe('leases of money', () => {
  test('processes that race never lease more than there is', () =>
    withProcesses(3, async (members) => {
      await members[0]!.ledger.post(topUp('top-up', 1_000n))
      const leases = await Promise.all(
        Array.from({ length: 60 }, (_, index) => members[index % 3]!.processes.funds('a', { least: 40n, most: 60n })),
      )
      expect(sum(leases.map(({ credit, bonus }) => credit + bonus))).toBe(1_000n)
    }))

  test('what goes back can be leased by another, and the balance stays', () =>
    withProcesses(2, async ([first, second]) => {
      await first!.ledger.post(topUp('top-up', 100n))
      expect(await first!.processes.funds('a', { least: 100n, most: 100n })).toMatchObject({ credit: 100n })
      expect(await second!.processes.funds('a', { least: 50n, most: 50n })).toMatchObject({
        credit: 0n,
        elsewhere: 100n,
      })
      const funds = [{ accountId: 'a', credit: 70n, bonus: 0n }]
      await first!.processes.giveBack({ funds, windows: [], budgets: [] })
      expect(await second!.processes.funds('a', { least: 50n, most: 50n })).toMatchObject({
        credit: 50n,
        elsewhere: 30n,
      })
      const { balances } = await first!.ledger.state(['a'])
      expect(balances.find(({ kind }) => kind === 'credit')?.balance).toBe(100n)
    }))

  test('of much that is free, a process gets a fair share beyond what it needs', () =>
    withProcesses(4, async ([first]) => {
      await first!.ledger.post(topUp('top-up', 1_000n))
      expect(await first!.processes.funds('a', { least: 100n, most: 5_000n })).toMatchObject({ credit: 325n })
    }))
})

/** A transaction beside the processes. */
async function beside(member: Member, sql: string): Promise<PostgresClient> {
  const client = await PostgresClient.open(member.connection.address)
  await client.script(`BEGIN; ${sql}`)
  return client
}

/** Waits until a statement waits for a lock. */
async function untilLocked(member: Member): Promise<void> {
  const waiting = (): Promise<unknown> =>
    member.connection.one(
      `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`,
    )
  while ((await waiting()) === undefined) await Bun.sleep(5)
}

const TERMS = '[{"name": "5_hour", "most": 100, "starts_at": 1, "ends_at": 9}]'

describe('leases that go back', () => {
  const ALL = { funds: [{ accountId: 'a', credit: 30n, bonus: 0n }], windows: [], budgets: [] }

  test.each([
    ['a part of them', ({ processes }: Member): Promise<unknown> => processes.giveBack(ALL)],
    ['all of them', ({ processes }: Member): Promise<unknown> => processes.giveBackAll('funds', 'a')],
  ])('lock nothing for which a lease waits that holds what they wait for: %s', (_, giveBack) =>
    withProcesses(1, async ([member]) => {
      await member!.ledger.post(topUp('top-up', 100n))
      await member!.processes.funds('a', { least: 30n, most: 30n })
      const lease = await beside(member!, 'SELECT FROM book_balances WHERE shard = 0 FOR UPDATE')
      const returning = giveBack(member!)
      await untilLocked(member!)
      await lease.script('SELECT FROM book_balances FOR UPDATE NOWAIT; COMMIT')
      await returning
      await lease.close()
      expect(await member!.processes.funds('a', { least: 100n, most: 100n })).toMatchObject({ credit: 100n })
    }),
  )

  test.each([
    ['funds', 'book_balances', `lease_funds(ID, 'a', 30, 30)`],
    ['windows', 'quota_windows', `lease_windows(ID, 'a', '${TERMS}', 1, 30, 30)`],
    ['budget', 'key_spends', `lease_budget(ID, 'a', 0, 100, 30, 30)`],
  ] as const)('are all %s, also those of a lease that is under way', (kind, table, call) =>
    withProcesses(1, async ([member]) => {
      const { connection, processes, ledger } = member!
      const lease = `SELECT ${call.replace('ID', `${processes.id}`)}`
      await ledger.post(topUp('top-up', 100n))
      const leasing = await beside(member!, `${lease}; COMMIT`)
      await connection.run(`DELETE FROM ${table} WHERE shard = $1`, processes.id)
      await leasing.script(`BEGIN; ${lease}`)
      const returning = processes.giveBackAll(kind, 'a')
      await untilLocked(member!)
      await leasing.script('COMMIT')
      await returning
      await leasing.close()
      expect(await ledger.leased()).toEqual([])
    }),
  )
})

describe('leases of quota windows and key limits', () => {
  const terms = (startsAt: number): { window: '5_hour'; limit: bigint; startsAt: number; endsAt: number }[] => [
    { window: '5_hour', limit: 100n, startsAt, endsAt: startsAt + 10 },
  ]

  test('all processes see one beginning of a window, and share its flows', () =>
    withProcesses(2, async ([first, second]) => {
      const wanted = { least: 60n, most: 60n }
      const [one] = await first!.processes.windows('a', terms(1_000), 1_000, wanted)
      const [other] = await second!.processes.windows('a', terms(1_005), 1_005, wanted)
      expect([one, other]).toMatchObject([
        { startedAt: 1_000, granted: 60n, elsewhere: 0n },
        { startedAt: 1_000, granted: 40n, elsewhere: 60n },
      ])
      const [next] = await second!.processes.windows('a', terms(1_010), 1_010, wanted)
      expect(next).toMatchObject({ startedAt: 1_010, granted: 60n, elsewhere: 0n })
    }))

  test('a limit of a key is shared, and begins anew with its period', () =>
    withProcesses(2, async ([first, second]) => {
      const of = (since: number) => ({ keyId: 'k', since, limit: 100n, period: 'day' as const })
      const wanted = { least: 70n, most: 70n }
      expect(await first!.processes.budget(of(5), wanted)).toEqual({ since: 5, granted: 70n, elsewhere: 0n })
      expect(await second!.processes.budget(of(5), wanted)).toEqual({ since: 5, granted: 30n, elsewhere: 70n })
      expect(await second!.processes.budget(of(6), wanted)).toEqual({ since: 6, granted: 70n, elsewhere: 0n })
      expect(await first!.processes.budget(of(5), wanted)).toMatchObject({ since: 6, granted: 30n })
    }))
})

describe('a process that others have declared dead', () => {
  test('can write nothing more, and what it held is with another', () =>
    withProcesses(
      2,
      async ([dead, heir]) => {
        await heir!.ledger.post(topUp('top-up', 100n))
        await dead!.processes.funds('a', { least: 80n, most: 80n })
        await dead!.ledger.saveOpen([{ id: idOf(1), accountId: 'a', state: '{}' }])
        let isFenced = false
        dead!.processes.onFenced(() => (isFenced = true))
        expect(await inherited(heir!, dead!)).toEqual({
          funds: [{ accountId: 'a', credit: 80n, bonus: 0n }],
          windows: [],
          budgets: [],
          generations: [{ id: idOf(1), accountId: 'a', state: '{}' }],
          progress: undefined,
        })
        expect(await heir!.processes.inherit()).toBeUndefined()
        expect(String(await failure(dead!.ledger.closeGeneration(closing(1, 5n))))).toContain('unavailable')
        expect(isFenced).toBe(true)
        expect(String(await failure(dead!.processes.funds('a', { least: 1n, most: 1n })))).toContain('unavailable')
        expect(await heir!.ledger.findGeneration('a', idOf(1))).toBeUndefined()
        await heir!.ledger.closeGeneration(closing(1, 5n, { wasOpen: true }))
        expect(await heir!.ledger.openGenerations()).toEqual([])
      },
      DIES_SOON,
    ))

  test('is not one that could not report before another one started: that first gives it time', () =>
    withProcesses(
      2,
      async ([silent, started]) => {
        await started!.connection.run(
          `UPDATE processes SET heartbeat_at = now() - interval '1 hour' WHERE id = $1`,
          silent!.processes.id,
        )
        expect(await started!.processes.inherit()).toBeUndefined()
        expect(await silent!.processes.confirm()).toBe(true)
      },
      { deadMs: 600_000 },
    ))

  test('was silent while others were not: after a time without the server, all can report first', () =>
    withProcesses(
      2,
      async ([silent, heir]) => {
        // No process reports unless it is asked to, as where the server is away.
        await Bun.sleep(2_500)
        expect(await heir!.processes.inherit()).toBeUndefined()
        expect(await silent!.processes.confirm()).toBe(true)
        const giveUpAt = performance.now() + 30_000
        let inheritance: Inheritance | undefined
        while (inheritance === undefined && performance.now() < giveUpAt) {
          inheritance = await heir!.processes.inherit()
          await Bun.sleep(50)
        }
        expect(inheritance).toBeDefined()
        expect(await silent!.processes.confirm()).toBe(false)
      },
      { deadMs: 2_000 },
    ))

  test('is found also where it reported last before the clock of the server was set back', () =>
    withProcesses(
      2,
      async ([dead, heir]) => {
        await heir!.connection.run(
          `UPDATE processes SET heartbeat_at = now() + interval '1 hour' WHERE id = $1`,
          dead!.processes.id,
        )
        expect(await until(async () => (await heir!.processes.inherit()) !== undefined)).toBe(true)
      },
      DIES_SOON,
    ))

  test('leaves the last progress that it wrote, and writes none later', () =>
    withProcesses(
      2,
      async ([dead, heir]) => {
        const progress = new ProgressTable(dead!.connection)
        for (const text of ['["first"]', '["second"]', '["third"]']) progress.write(text)
        const texts = (): Promise<unknown[]> => heir!.connection.all('SELECT text FROM open_progress')
        for (const giveUpAt = Date.now() + 20_000; Date.now() < giveUpAt; await Bun.sleep(10))
          if (Bun.deepEquals(await texts(), [{ text: '["third"]' }])) break
        expect((await inherited(heir!, dead!)).progress).toBe('["third"]')
        const { statements } = dead!.connection
        progress.write('["late"]')
        while (dead!.connection.statements === statements) await Bun.sleep(10)
        await heir!.connection.all('SELECT pg_sleep(0.3)')
        expect(await texts()).toEqual([])
      },
      DIES_SOON,
    ))

  test('learns of it by its next report', () =>
    withProcesses(
      2,
      async ([dead, heir]) => {
        const fenced = new Promise<void>((resolve) => dead!.processes.onFenced(resolve))
        await heir!.connection.run('UPDATE processes SET ended_at = now() WHERE id = $1', dead!.processes.id)
        await fenced
        expect(dead!.processes.isAlive).toBe(false)
      },
      { heartbeatMs: 50, deadMs: 3_600_000 },
    ))
})

describe('permits of a key', () => {
  test('are as many as its limit, over all processes, in any minute', () =>
    withProcesses(3, async (members) => {
      const limits = members.map(({ processes }) => limitsOf({ leases: processes }))
      const admitted = async (requests: number): Promise<number> => {
        const outcomes = await Promise.allSettled(
          Array.from({ length: requests }, async (_, index) => limits[index % 3]!.checkRateLimit('k', 'chat', 10)),
        )
        for (const outcome of outcomes)
          if (outcome.status === 'rejected')
            expect(outcome.reason).toMatchObject({ code: 'rate_limit_exceeded', retryAfterSeconds: expect.any(Number) })
        return outcomes.filter(({ status }) => status === 'fulfilled').length
      }
      expect(await admitted(60)).toBe(10)
      expect(await admitted(6)).toBe(0)
      await members[0]!.connection.run('UPDATE permits SET at = at - 62001')
      expect(await admitted(60)).toBe(10)
    }))

  test('do not count that were given before the clock of the server was set back', () =>
    withProcesses(1, async ([member]) => {
      const { connection, processes } = member!
      const wanted = { keyId: 'k', endpoint: 'chat', limit: 4, least: 1, most: 4, spent: 0, unused: [] }
      expect(await processes.permits(wanted)).toMatchObject({ granted: 1 })
      await connection.run('UPDATE permits SET permits = 4, at = at + 3600000')
      expect(await processes.permits(wanted)).toMatchObject({ granted: 1, waitMs: 0 })
    }))

  test('are fetched for many requests at a time, as long as many are left', () =>
    withProcesses(1, async ([member]) => {
      const limits = limitsOf({ leases: member!.processes })
      for (let index = 0; index < 2_000; index++) await limits.checkRateLimit('k', 'chat', 1_000_000)
      expect(member!.connection.statements).toBeLessThan(200)
    }))
})

test('a turn of which nothing comes any more ends, as that of a process that sleeps', () =>
  withProcesses(1, async ([member]) => {
    const { address } = member!.connection
    const begin = async (): Promise<void> => {}
    const endFirst = await takeTurn(address, begin, 500)
    const endSecond = await takeTurn(address, begin)
    await Promise.all([endFirst(), endSecond()])
  }))

test('a process that ends gives its leases back', () =>
  withProcesses(2, async ([first, second]) => {
    await first!.ledger.post(topUp('top-up', 100n))
    await first!.processes.funds('a', { least: 80n, most: 80n })
    await first!.processes.end()
    expect(await second!.processes.inherit()).toBeUndefined()
    expect(await second!.processes.funds('a', { least: 100n, most: 100n })).toMatchObject({
      credit: 100n,
      elsewhere: 0n,
    })
  }))

test('a process that ends gives back what is leased for it at that moment', () =>
  withProcesses(2, async ([first, second]) => {
    await first!.ledger.post(topUp('top-up', 100n))
    const lease = await beside(first!, `SELECT lease_funds(${first!.processes.id}, 'a', 80, 80)`)
    const ending = first!.processes.end()
    await untilLocked(second!)
    await lease.script('COMMIT')
    await Promise.all([ending, lease.close()])
    expect(await second!.processes.funds('a', { least: 100n, most: 100n })).toMatchObject({ credit: 100n })
  }))

test('a process that asks for what others do not use is listened to', () =>
  withProcesses(2, async ([first, second]) => {
    const asked = new Promise<string>((resolve) => first!.processes.onReclaim(resolve))
    const repeated = setInterval(() => void second!.processes.reclaim('a'), 50)
    expect(await asked).toBe('a')
    clearInterval(repeated)
  }))

test('generations that are open elsewhere are read in pages, the newest first, also of some accounts alone', () =>
  withProcesses(2, async ([first, second]) => {
    const rows = [1, 2, 3, 4].map((n) => ({ id: idOf(n), accountId: n % 2 ? 'a' : 'b', state: `{"n":${n}}` }))
    await first!.ledger.saveOpen(rows)
    await second!.ledger.saveOpen([{ id: idOf(5), accountId: 'a', state: '{}' }])
    const { processes } = second!
    const newest = 'f'.repeat(32)
    expect(await processes.openElsewhere(newest, 2)).toEqual([rows[3]!, rows[2]!])
    expect(await processes.openElsewhere(rows[2]!.id, 9)).toEqual([rows[1]!, rows[0]!])
    expect(await processes.openElsewhere(newest, 9, ['a'])).toEqual([rows[2]!, rows[0]!])
    expect([await processes.openOne(rows[0]!.id), await processes.openOne(idOf(5))]).toMatchObject([
      { state: '{"n":1}' },
      undefined,
    ])
  }))
