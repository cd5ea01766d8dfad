import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import type { GatewayError } from '../../src/error.ts'
import { MemoryBudget } from '../../src/http/memory-budget.ts'
import { MemoryPool } from '../../src/http/memory-pool.ts'
import { until } from './raw-server.ts'

const NEVER = new AbortController().signal

/** Takes memory, and adds the name to `order` when it is there. */
const taker = (pool: MemoryPool, order: string[]) => (name: string, owner: string, bytes: number, urgent?: boolean) => {
  const waiting = pool.take(owner, bytes, NEVER, urgent)
  if (waiting === undefined) order.push(name)
  else
    void waiting.then(
      () => order.push(name),
      () => {},
    )
}

const failureOf = (waiting: Promise<void> | undefined): Promise<GatewayError> =>
  waiting!.then(
    () => Promise.reject(new Error('it was admitted')),
    (error: GatewayError) => error,
  )

describe('a pool of memory', () => {
  test('gives what is free at once, and the rest in turns of the owners', async () => {
    const pool = new MemoryPool(100)
    const order: string[] = []
    const take = taker(pool, order)
    take('a1', 'a', 60)
    take('b1', 'b', 40)
    expect(order).toEqual(['a1', 'b1'])
    for (const name of ['a2', 'a3', 'a4']) take(name, 'a', 50)
    take('b2', 'b', 50)
    pool.give('a', 60)
    pool.give('b', 40)
    for (const last of ['a', 'b', 'a']) {
      pool.admit()
      await Bun.sleep(0)
      pool.give(last, 50)
    }
    pool.admit()
    await Bun.sleep(0)
    expect(order).toEqual(['a1', 'b1', 'a2', 'b2', 'a3', 'a4'])
  })

  test('keeps a part for others than the one who has most', async () => {
    const pool = new MemoryPool(100)
    const order: string[] = []
    const take = taker(pool, order)
    for (const name of ['a1', 'a2', 'a3', 'a4']) take(name, 'a', 25)
    take('b1', 'b', 25)
    await Bun.sleep(0)
    expect(order).toEqual(['a1', 'a2', 'a3', 'b1'])
  })

  test('is not taken from others by one request of any size', async () => {
    const pool = new MemoryPool(100)
    const order: string[] = []
    const take = taker(pool, order)
    take('large', 'a', 90)
    pool.force('a', 180)
    take('own', 'a', 1)
    take('b1', 'b', 15)
    take('c1', 'c', 15)
    await Bun.sleep(0)
    expect(order).toEqual(['large', 'b1'])
    pool.give('b', 15)
    pool.admit()
    pool.give('a', 270)
    expect(pool.used).toBe(15)
  })

  test('is given first of all to a request that is larger, once nothing else is taken', async () => {
    const pool = new MemoryPool(100)
    const order: string[] = []
    const take = taker(pool, order)
    take('small', 'a', 1)
    take('large', 'b', 1000)
    take('behind', 'c', 30)
    expect(order).toEqual(['small'])
    pool.give('a', 1)
    pool.admit()
    await Bun.sleep(0)
    expect(order).toEqual(['small', 'large'])
    pool.give('b', 1000)
    pool.admit()
    await Bun.sleep(0)
    expect(order).toEqual(['small', 'large', 'behind'])
  })

  test('is given to urgent requests first', async () => {
    const pool = new MemoryPool(100)
    const order: string[] = []
    const take = taker(pool, order)
    take('first', 'a', 100)
    take('waiting', 'b', 100)
    take('urgent', 'c', 100, true)
    for (const owner of ['a', 'c']) {
      pool.give(owner, 100)
      pool.admit()
      await Bun.sleep(0)
    }
    expect(order).toEqual(['first', 'urgent', 'waiting'])
  })

  test('still serves what an owner of an urgent request waits for besides', async () => {
    const pool = new MemoryPool(100)
    const order: string[] = []
    const take = taker(pool, order)
    take('first', 'a', 100)
    take('waiting', 'b', 100)
    take('urgent', 'b', 100, true)
    for (const owner of ['a', 'b']) {
      pool.give(owner, 100)
      pool.admit()
      await Bun.sleep(0)
    }
    expect(order).toEqual(['first', 'urgent', 'waiting'])
  })

  test('refuses those who waited too long, with the time after which a retry is of use', async () => {
    const pool = new MemoryPool(6_000, 20)
    pool.force('a', 6_000)
    const { code, retryAfterSeconds, shouldRetry } = await failureOf(pool.take('b', 2_000, NEVER))
    expect({ code, retryAfterSeconds, shouldRetry }).toEqual({
      code: 'overloaded',
      retryAfterSeconds: 20,
      shouldRetry: true,
    })
    // The faster memory is given back, the sooner.
    pool.give('a', 6_000)
    pool.force('a', 6_000)
    expect((await failureOf(pool.take('b', 2_000, NEVER))).retryAfterSeconds).toBe(4)
  })

  test('refuses at once when very many wait', async () => {
    const pool = new MemoryPool(100)
    pool.force('a', 75)
    pool.force('c', 25)
    const waiting = Array.from({ length: 1_000 }, (_, n) => pool.take(`${n}`, 1, NEVER))
    expect((await failureOf(pool.take('b', 1, NEVER))).code).toBe('overloaded')
    pool.give('a', 75)
    pool.give('c', 25)
    for (let n = 0; n < 10; n++) {
      pool.admit()
      for (let m = 0; m < 100; m++) pool.give(`${100 * n + m}`, 1)
    }
    await Promise.all(waiting)
    expect(pool.used).toBe(0)
  })

  test('is not kept for a client that left, and those behind it go on', async () => {
    const pool = new MemoryPool(100)
    const order: string[] = []
    pool.force('a', 50)
    const client = new AbortController()
    const left = failureOf(pool.take('b', 100, client.signal))
    taker(pool, order)('c', 'c', 50)
    expect(order).toEqual([])
    client.abort()
    await left
    expect(order).toEqual(['c'])
    expect(pool.used).toBe(100)
  })

  test('is never given twice, whatever is taken and given back', async () => {
    const action = fc.record({ owner: fc.constantFrom('a', 'b', 'c'), bytes: fc.integer({ min: 1, max: 150 }) })
    await fc.assert(
      fc.asyncProperty(fc.array(fc.option(action, { nil: undefined }), { maxLength: 60 }), async (actions) => {
        const pool = new MemoryPool(100)
        const client = new AbortController()
        const held: { owner: string; bytes: number }[] = []
        let waiting = 0
        for (const next of actions) {
          if (next === undefined) {
            const given = held.shift()
            if (given !== undefined) pool.give(given.owner, given.bytes)
            pool.admit()
          } else {
            waiting++
            const taken = (): void => {
              waiting--
              held.push(next)
            }
            void Promise.resolve(pool.take(next.owner, next.bytes, client.signal)).then(taken, () => {})
          }
          await Bun.sleep(0)
          const sum = held.reduce((total, { bytes }) => total + bytes, 0)
          expect(pool.used).toBe(sum)
          const counted = ['a', 'b', 'c'].reduce((total, owner) => {
            const own = held.filter((one) => one.owner === owner)
            return (
              total +
              Math.min(
                75,
                own.reduce((all, { bytes }) => all + bytes, 0),
              )
            )
          }, 0)
          expect(counted <= 100 || held.length === 1).toBe(true)
          // Whoever waits does so for somebody.
          expect(waiting === 0 || held.length > 0).toBe(true)
        }
        // Those that still wait would fail after the test.
        client.abort()
      }),
      { numRuns: 200 },
    )
  })
})

describe('the memory of requests', () => {
  test('is free again at their end, whatever they did', async () => {
    const memory = new MemoryBudget(2 ** 30)
    const request = new AbortController().signal
    memory.receive(request, 'a', 100_000)
    expect(memory.used).toBe(100_000)
    memory.work(request, 'read')
    expect(memory.used).toBe(800_000)
    memory.sent(request)
    expect(memory.used).toBe(300_000)
    memory.respond(request, 'a', 1_000_000)
    expect(memory.used).toBe(4_300_000)
    memory.streams(request)
    expect(memory.used).toBe(4_100_000)
    memory.release(request)
    memory.release(request)
    expect(memory.used).toBe(0)
  })

  test('is taken by a response until its client has it', async () => {
    const memory = new MemoryBudget(2 ** 30)
    let isConnected = true
    memory.untilTaken('a', 1_000, () => isConnected)
    expect(memory.used).toBe(0)
    memory.untilTaken('a', 1_000_000, () => isConnected)
    await Bun.sleep(500)
    expect(memory.used).toBe(2_000_000)
    isConnected = false
    await until(() => memory.used === 0)
  })
})
