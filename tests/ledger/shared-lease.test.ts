import { expect } from 'bun:test'
import { SharedLease } from '../../src/ledger/shared-lease.ts'
import { runs } from '../runs.ts'
import { once } from '../stores.ts'
import { randomOf } from '../../prove/table.ts'

/** Leases of several processes that race for what one store has, in simulated time: its answers come late. */

class Time {
  #now = 0
  #events: { at: number; run: () => void }[] = []

  now = (): number => this.#now

  sleep = (ms: number): Promise<void> => new Promise((resolve) => this.after(ms, resolve))

  within = <T>(work: Promise<T>, ms: number, late: () => T | Promise<T>): Promise<T> => {
    const ended = Promise.withResolvers<T>()
    const event = this.after(ms, () => ended.resolve(Promise.try(late)))
    work.then(ended.resolve, ended.reject).finally(() => this.#cancel(event))
    return ended.promise
  }

  after(ms: number, run: () => void): object {
    const event = { at: this.#now + ms, run }
    this.#events.push(event)
    return event
  }

  #cancel(event: object): void {
    this.#events = this.#events.filter((one) => one !== event)
  }

  async run(): Promise<void> {
    for (;;) {
      const at = Math.min(...this.#events.map((event) => event.at))
      if (at === Infinity) return
      const event = this.#events.splice(
        this.#events.findIndex((one) => one.at === at),
        1,
      )[0]!
      this.#now = at
      event.run()
      // All that waits for this event goes on before the next one.
      await new Promise((resolve) => setImmediate(resolve))
    }
  }
}

/** `leased`: as the process knows it; `shard`: as the store does. */
type Process = { lease: SharedLease; leased: bigint; held: bigint; shard: bigint }

/** Processes that lease amounts of 1 from a store which has `free`, and hold them until the end. */
class Race {
  readonly time = new Time()
  free: bigint
  readonly processes: Process[]
  served = 0
  readonly #latency: () => number

  constructor(count: number, free: bigint, latency: () => number) {
    this.free = free
    this.#latency = latency
    this.processes = Array.from({ length: count }, () => this.#process())
  }

  #process(): Process {
    const { time } = this
    const giveBack = (kept: bigint): Promise<void> | void => {
      const idle = own.leased - own.held - kept
      if (idle <= 0n) return
      own.leased -= idle
      return time.sleep(this.#latency()).then(() => {
        own.shard -= idle
        this.free += idle
      })
    }
    const lease = new SharedLease(
      {
        left: () => own.leased - own.held,
        acquire: async (least, most) => {
          await time.sleep(this.#latency())
          const granted = this.free < least ? this.free : this.free < most ? this.free : most
          this.free -= granted
          own.shard += granted
          const elsewhere = this.processes.reduce((sum, one) => (one === own ? sum : sum + one.shard), 0n)
          await time.sleep(this.#latency())
          own.leased += granted
          return { granted, elsewhere }
        },
        reclaim: async () => {
          await time.sleep(this.#latency())
          for (const other of this.processes)
            if (other !== own) time.after(this.#latency(), () => other.lease.giveBack())
        },
        giveBack,
      },
      time,
    )
    const own = { lease, leased: 0n, held: 0n, shard: 0n }
    return own
  }

  async ask(process: number): Promise<void> {
    const own = this.processes[process]!
    while (own.leased - own.held < 1n) {
      if (await own.lease.get(1n)) continue
      if (own.leased - own.held >= 1n) break
      return
    }
    own.held += 1n
    own.lease.onHeld()
    this.served += 1
  }
}

once('of requests that race over several processes, as many are served as there is money for', async () => {
  const served = new Set<number>()
  for (let seed = 0; seed < runs(400, 5_000); seed++) {
    const random = randomOf(seed)
    const slowest = random() * 300
    const race = new Race(3, 5n, () => random() * slowest)
    for (let index = 0; index < 64; index++) race.time.after(random() * 20, () => void race.ask(index % 3))
    await race.time.run()
    served.add(race.served)
  }
  expect([...served]).toEqual([5])
})

once('a request is served from what its own process is giving back', async () => {
  for (const laterMs of [0, 20]) {
    let latencyMs = 10
    const race = new Race(1, 1n, () => latencyMs)
    const { lease } = race.processes[0]!
    // Leased, and not held, by a request that waits for something else besides.
    race.time.after(0, () => void lease.get(1n))
    race.time.after(200, () => {
      latencyMs = 100
      lease.giveBack()
      latencyMs = 10
    })
    race.time.after(200 + laterMs, () => void race.ask(0))
    await race.time.run()
    expect([laterMs, race.served]).toEqual([laterMs, 1])
  }
})

/** Asks for an amount of 1 of a store that has none until later. Gives the outcome and when it was known. */
async function outcomeOf(
  answerMs: (question: number) => number,
): Promise<{ outcome: unknown; atMs: number; questions: number }> {
  const time = new Time()
  let questions = 0
  const answer = (): Promise<void> => time.sleep(answerMs(++questions))
  const lease = new SharedLease(
    {
      left: () => 0n,
      acquire: async () => {
        await answer()
        return { granted: questions >= 7 ? 1n : 0n, elsewhere: 1n }
      },
      reclaim: answer,
      giveBack: () => {},
    },
    time,
  )
  const known = lease
    .get(1n)
    .catch(String)
    .then((outcome) => ({ outcome, atMs: time.now(), questions }))
  await time.run()
  return known
}

once('a request waits for a store that answers each question slowly', async () => {
  expect(await outcomeOf(() => 2_000)).toEqual({ outcome: true, atMs: 14_130, questions: 7 })
})

once('the error after a long wait says that the store is slow, not that money is missing', async () => {
  const { outcome, atMs } = await outcomeOf(() => 4_500)
  expect(outcome).toContain('PostgreSQL answers slowly')
  expect(atMs).toBeLessThan(20_000)
})

once('a question without an answer fails after its own time limit', async () => {
  const { outcome, atMs } = await outcomeOf((question) => (question === 3 ? Infinity : 10))
  expect(outcome).toContain('PostgreSQL has not answered for 5 seconds')
  expect(atMs).toBe(5_035)
})
