import { describe, expect, setDefaultTimeout, test } from 'bun:test'
import { Slots } from '../../src/ledger/slots.ts'
import type { LeaseStore } from '../../src/store/leases.ts'
import { randomOf } from '../../prove/table.ts'
import { until } from './account-contract.ts'
import { DIES_SOON, inherited, type Member, withProcesses } from './members.ts'
import { failure } from './records.ts'

setDefaultTimeout(120_000)

/** The slots of each process. `store`: wraps its leases. */
async function withSlots(
  count: number,
  run: (slots: Slots[], members: Member[]) => Promise<void>,
  store = (leases: LeaseStore): LeaseStore => leases,
  options: Parameters<typeof withProcesses>[2] = {},
): Promise<void> {
  const runWith = async (members: Member[]): Promise<void> => {
    const slots = members.map(({ processes }) => new Slots(store(processes)))
    try {
      await run(slots, members)
    } finally {
      for (const one of slots) one.stop()
    }
  }
  await withProcesses(count, runWith, options)
}

/** Takes a slot as soon as there is one. */
async function taken(slots: Slots, owner: string, limit: number): Promise<void> {
  while (!slots.take(owner, limit)) {
    await slots.lease(owner, limit, 1).catch(() => {})
    if (slots.take(owner, limit)) return
    await Bun.sleep(1)
  }
}

/** A store of which some calls fail, before they are made or when they are answered, and others take some time. */
const unreliable =
  (random: () => number) =>
  (leases: LeaseStore): LeaseStore =>
    new Proxy(leases, {
      get: (target, name) => {
        if (name === 'slots')
          return async (...wanted: Parameters<LeaseStore['slots']>) => {
            await Bun.sleep(random() * 5)
            if (random() < 0.1) throw new Error('lost')
            const lease = await target.slots(...wanted)
            await Bun.sleep(random() * 5)
            if (random() < 0.1) throw new Error('lost')
            return lease
          }
        const value = target[name as keyof LeaseStore] as unknown
        return typeof value === 'function' ? value.bind(target) : value
      },
    })

describe('slots of an owner', () => {
  const USERS = 12
  const USES = 8

  test.each([
    [1, 1],
    [3, 2],
    [8, 3],
  ])('of which %i may be used are never used by more over four processes, and all users get one', (limit, seed) => {
    const random = randomOf(seed)
    let used = 0
    let most = 0
    const use = async (slots: Slots): Promise<void> => {
      await taken(slots, 'o', limit)
      most = Math.max(most, ++used)
      await Bun.sleep(random() * 8)
      used--
      slots.leave('o')
      await Bun.sleep(random() * 8)
    }
    return withSlots(
      4,
      async (all) => {
        const users = Array.from({ length: USERS }, async (_, index) => {
          for (let round = 0; round < USES; round++) await use(all[index % all.length]!)
        })
        await Promise.all(users)
        expect(most).toBeLessThanOrEqual(limit)
        expect(most).toBeGreaterThan(0)
      },
      unreliable(random),
    )
  })

  test('are used again without the store', () =>
    withSlots(1, async ([slots], [member]) => {
      await taken(slots!, 'o', 100)
      const before = member!.connection.statements
      for (let index = 0; index < 1_000; index++) {
        slots!.leave('o')
        expect(slots!.take('o', 100)).toBe(true)
      }
      expect(member!.connection.statements - before).toBeLessThan(10)
    }))

  test('are leased for many that wait at a time, as long as many are free', () =>
    withSlots(2, async ([slots], [member]) => {
      const before = member!.connection.statements
      for (let used = 0; used < 200; ) {
        await slots!.lease('o', 1_000, 200 - used)
        while (used < 200 && slots!.take('o', 1_000)) used++
      }
      expect(member!.connection.statements - before).toBeLessThan(15)
    }))

  test('that are free are all leased by requests which come together', () =>
    withSlots(1, async ([slots]) => {
      const asked = Array.from({ length: 2 }, () => slots!.leaseOne('o', 2, () => slots!.take('o', 2)))
      expect(await Promise.all(asked)).toEqual([true, true])
    }))

  test('that are idle at one process are given to another that asks', () =>
    withSlots(2, async ([first, second]) => {
      await taken(first!, 'o', 1)
      first!.leave('o')
      // Fewer rounds than the time takes after which idle slots go back unasked.
      for (let round = 0; round < 5 && !second!.take('o', 1); round++) await second!.lease('o', 1, 1)
      expect([second!.take('o', 1), first!.take('o', 1)]).toEqual([false, false])
      second!.leave('o')
      expect(second!.take('o', 1)).toBe(true)
    }))

  test('that are all used at one process go to another that asks as they are left', () =>
    withSlots(2, async ([first, second]) => {
      await taken(first!, 'o', 1)
      const isLeft = async (): Promise<boolean> => {
        await second!.lease('o', 1, 1)
        expect(second!.take('o', 1)).toBe(false)
        first!.leave('o')
        return !first!.take('o', 1)
      }
      expect(await until(isLeft)).toBe(true)
      await taken(second!, 'o', 1)
    }))

  test('are leased again where the limit was lowered', () =>
    withSlots(2, async ([first, second]) => {
      for (let index = 0; index < 4; index++) await taken(first!, 'o', 4)
      for (let index = 0; index < 4; index++) first!.leave('o')
      await taken(first!, 'o', 1)
      await second!.lease('o', 1, 1)
      expect(second!.take('o', 1)).toBe(false)
      expect(first!.take('o', 1)).toBe(false)
      first!.leave('o')
      await taken(second!, 'o', 1)
    }))

  test('of a process that others have declared dead come back, and that process gets none', () =>
    withSlots(
      2,
      async ([dead, heir], [lost, other]) => {
        await taken(dead!, 'o', 1)
        await heir!.lease('o', 1, 1)
        expect(heir!.take('o', 1)).toBe(false)
        await inherited(other!, lost!)
        await taken(heir!, 'o', 1)
        dead!.leave('o')
        expect(String(await failure(dead!.lease('other', 1, 1)))).toContain('unavailable')
        expect(dead!.isAway('other')).toBe(true)
      },
      (leases) => leases,
      DIES_SOON,
    ))

  test('stay with who has them while the store is away, and no others are used', () =>
    withSlots(1, async ([slots], [member]) => {
      await taken(slots!, 'o', 2)
      await member!.connection.close()
      slots!.leave('o')
      expect([slots!.take('o', 2), slots!.take('o', 2)]).toEqual([true, false])
      await failure(slots!.lease('o', 2, 1))
      expect([slots!.take('o', 2), slots!.isAway('o')]).toEqual([false, true])
    }))

  test('are not changed by a call that arrives after a later one', () =>
    withProcesses(1, async ([member]) => {
      const { processes } = member!
      const wanted = { owner: 'o', limit: 3, least: 1, most: 1 }
      expect(await processes.slots({ ...wanted, call: 2, held: 0 })).toEqual({ granted: 1, elsewhere: 0 })
      await failure(processes.slots({ ...wanted, call: 1, held: 0, least: 0, most: 0 }))
      const rows = await member!.connection.all<{ places: number }>('SELECT places FROM places')
      expect(rows).toEqual([{ places: 1 }])
    }))
})

test('a call that is not answered in time keeps no later one waiting', async () => {
  let calls = 0
  const store = {
    onReclaim() {},
    slots: () => (calls++ === 0 ? new Promise(() => {}) : Promise.resolve({ granted: 1, elsewhere: 0 })),
  }
  const slots = new Slots(store as never, 20)
  expect(String(await failure(slots.lease('account', 2, 1)))).toContain('PostgreSQL has not answered')
  expect(await slots.lease('account', 2, 1)).toBe(true)
  expect(slots.take('account', 2)).toBe(true)
  slots.stop()
})
