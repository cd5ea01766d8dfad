import { expect } from 'bun:test'
import { LeaseLane } from '../../src/ledger/lease-lane.ts'
import { runs } from '../runs.ts'
import { once } from '../stores.ts'
import { randomOf } from '../../prove/table.ts'

/** Lanes of several processes that race for what one store has, in simulated time: its answers come late. */

class Time {
  #now = 0
  #events: { at: number; run: () => void }[] = []

  now = (): number => this.#now

  sleep = (ms: number): Promise<void> => new Promise((resolve) => this.after(ms, resolve))

  after(ms: number, run: () => void): void {
    this.#events.push({ at: this.#now + ms, run })
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
type Process = { lane: LeaseLane; leased: bigint; held: bigint; shard: bigint }

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
    const lane = new LeaseLane(
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
            if (other !== own) time.after(this.#latency(), () => other.lane.giveBack())
        },
        giveBack,
      },
      time,
    )
    const own = { lane, leased: 0n, held: 0n, shard: 0n }
    return own
  }

  async ask(process: number): Promise<void> {
    const own = this.processes[process]!
    while (own.leased - own.held < 1n) {
      if (await own.lane.get(1n)) continue
      if (own.leased - own.held >= 1n) break
      return
    }
    own.held += 1n
    own.lane.onHeld()
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
    const { lane } = race.processes[0]!
    // Leased, and not held, by a request that waits for something else besides.
    race.time.after(0, () => void lane.get(1n))
    race.time.after(200, () => {
      latencyMs = 100
      lane.giveBack()
      latencyMs = 10
    })
    race.time.after(200 + laterMs, () => void race.ask(0))
    await race.time.run()
    expect([laterMs, race.served]).toEqual([laterMs, 1])
  }
})
