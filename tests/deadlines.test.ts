import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { Deadline, Deadlines, deadlines, tickOf } from '../src/deadlines.ts'
import { runs } from './runs.ts'

/** The timers of the runtime, with a clock that a test advances. */
class FakeTimers {
  now = 0
  armed = new Map<object, { at: number; run: () => void }>()
  fired = 0
  readonly #real = { set: globalThis.setTimeout, clear: globalThis.clearTimeout }

  install(): void {
    globalThis.setTimeout = ((run: () => void, ms: number) => {
      const timer = { unref: () => timer }
      this.armed.set(timer, { at: this.now + ms, run })
      return timer
    }) as unknown as typeof setTimeout
    globalThis.clearTimeout = ((timer: object) => void this.armed.delete(timer)) as unknown as typeof clearTimeout
  }

  remove(): void {
    globalThis.setTimeout = this.#real.set
    globalThis.clearTimeout = this.#real.clear
  }

  /** Advances to this instant, and fires every timer at the instant for which it was armed. */
  advance(to: number): void {
    for (;;) {
      const next = [...this.armed].sort(([, a], [, b]) => a.at - b.at)[0]
      if (next === undefined || next[1].at > to) break
      const [timer, { at, run }] = next
      this.armed.delete(timer)
      this.now = Math.max(this.now, at)
      this.fired += 1
      run()
    }
    this.now = Math.max(this.now, to)
  }
}

let timers: FakeTimers

/** A test in one turn of the event loop, in which nothing else sees these timers. */
const faked = (run: () => void) => (): void => {
  timers = new FakeTimers()
  timers.install()
  try {
    run()
  } finally {
    timers.remove()
  }
}

/** A deadline with the instants between which it must pass, and those at which it has. */
class Watched {
  readonly deadline = new Deadline(this)
  readonly passed: number[] = []
  due: { from: number; to: number } | undefined
  onPass: (() => void) | undefined

  constructor(
    readonly wheel: Deadlines,
    readonly clock: { now: number },
  ) {}

  set(ms: number): void {
    const from = this.clock.now + ms
    // Timers have whole milliseconds.
    this.due = { from, to: from + tickOf(ms) + 1 }
    this.wheel.set(this.deadline, ms)
  }

  clear(): void {
    this.due = undefined
    this.wheel.clear(this.deadline)
  }

  onDeadline(): void {
    const { now } = this.clock
    if (this.due === undefined || now < this.due.from || now > this.due.to)
      throw new Error(`passed at ${now}, expected ${JSON.stringify(this.due)}`)
    this.due = undefined
    this.passed.push(now)
    this.onPass?.()
  }
}

const newWheel = (): Deadlines => new Deadlines(() => timers.now)
const watched = (wheel: Deadlines): Watched => new Watched(wheel, timers)

describe('a deadline', () => {
  test(
    'passes once, never early and at most one tick late, and a timer is armed only while one is set',
    faked(() => {
      const delay = fc.oneof(
        fc.integer({ min: 0, max: 200 }),
        fc.integer({ min: 0, max: 700_000 }),
        fc.integer({ min: 0, max: 2 ** 30 }),
        fc.double({ min: 0, max: 5_000, noNaN: true }),
      )
      const which = fc.nat({ max: 11 })
      const step = fc.oneof(
        { weight: 4, arbitrary: fc.record({ kind: fc.constant('set' as const), which, ms: delay }) },
        { weight: 2, arbitrary: fc.record({ kind: fc.constant('clear' as const), which }) },
        { weight: 2, arbitrary: fc.record({ kind: fc.constant('wait' as const), ms: delay }) },
        {
          weight: 1,
          arbitrary: fc.record({ kind: fc.constant('setOnPass' as const), which, other: which, ms: delay }),
        },
        { weight: 1, arbitrary: fc.record({ kind: fc.constant('clearOnPass' as const), which, other: which }) },
      )
      const started = fc.oneof(fc.constant(0), fc.double({ min: 0, max: 2 ** 34, noNaN: true }))
      fc.assert(
        fc.property(started, fc.array(step, { maxLength: 60 }), (startedAt, steps) => {
          timers.now = startedAt
          timers.armed.clear()
          const wheel = newWheel()
          const all = Array.from({ length: 12 }, () => watched(wheel))
          for (const one of steps) {
            if (one.kind === 'set') all[one.which]!.set(one.ms)
            else if (one.kind === 'clear') all[one.which]!.clear()
            else if (one.kind === 'wait') timers.advance(timers.now + one.ms)
            else
              all[one.which]!.onPass = () => {
                all[one.which]!.onPass = undefined
                if (one.kind === 'setOnPass') all[one.other]!.set(one.ms)
                else all[one.other]!.clear()
              }
            for (const { due } of all) if (due !== undefined && due.to < timers.now) throw new Error('is too late')
            expect(wheel.size).toBe(all.filter(({ due }) => due !== undefined).length)
            expect(timers.armed.size).toBe(wheel.size === 0 ? 0 : 1)
          }
          timers.advance(timers.now + 2 ** 33)
          expect(all.filter(({ due }) => due !== undefined)).toEqual([])
          expect(timers.armed.size).toBe(0)
        }),
        { numRuns: runs(1_000, 100_000) },
      )
    }),
  )

  test(
    'of a far future costs no turns before it, and those of one tick pass in one turn',
    faked(() => {
      const wheel = newWheel()
      const all = Array.from({ length: 500 }, () => watched(wheel))
      // Set over one second, ten seconds before they pass.
      for (const [index, one] of all.entries()) {
        timers.advance(index * 2)
        one.set(10_000)
      }
      timers.advance(10_000)
      expect(timers.fired).toBe(0)
      timers.advance(60_000)
      expect(all.map(({ passed }) => passed.length)).toEqual(all.map(() => 1))
      expect(timers.fired).toBeLessThanOrEqual(Math.ceil(1_000 / tickOf(10_000)) + 1)
    }),
  )

  test(
    'that is set again replaces itself',
    faked(() => {
      const one = watched(newWheel())
      for (let at = 0; at < 1_000; at += 10) {
        timers.advance(at)
        one.set(50)
      }
      expect(one.passed).toEqual([])
      timers.advance(5_000)
      expect(one.passed).toHaveLength(1)
    }),
  )

  test(
    'that is set within a time moves only to an earlier instant',
    faked(() => {
      const wheel = newWheel()
      const one = watched(wheel)
      wheel.setWithin(one.deadline, 10_000)
      const { at } = one.deadline
      for (let now = 1; now < 9_000; now += 100) {
        timers.advance(now)
        wheel.setWithin(one.deadline, 10_000)
        expect(one.deadline.at).toBe(at)
      }
      wheel.setWithin(one.deadline, 50)
      expect(one.deadline.at).toBeWithin(timers.now + 50, timers.now + 52)
      one.clear()
    }),
  )

  test(
    'after more than twelve days, or never, does not pass',
    faked(() => {
      const wheel = newWheel()
      for (const ms of [Infinity, 2 ** 30 + 1, 1e15]) watched(wheel).set(ms)
      expect([wheel.size, timers.armed.size]).toEqual([0, 0])
    }),
  )

  test(
    'passes even if the owner of another one throws',
    faked(() => {
      const wheel = newWheel()
      const [broken, other] = [watched(wheel), watched(wheel)]
      broken.onPass = () => {
        throw new Error('broken')
      }
      broken.set(20)
      other.set(20)
      expect(() => timers.advance(100)).toThrow('broken')
      expect(timers.armed.size).toBe(1)
      other.due!.to = Infinity
      timers.advance(200)
      expect(other.passed).toHaveLength(1)
    }),
  )
})

test('one run of the timer ends although owners set their deadlines again and the clock was set back', () => {
  const timers = new FakeTimers()
  timers.install()
  try {
    let [now, passed] = [100_000, 0]
    const wheel = new Deadlines(() => now)
    const deadline: Deadline = new Deadline({
      onDeadline() {
        passed += 1
        now = 0
        if (passed < 1_000) wheel.set(deadline, 10)
      },
    })
    wheel.set(deadline, 5)
    now = 100_010
    const [armed] = timers.armed.values()
    armed!.run()
    expect([passed, wheel.size]).toEqual([1, 1])
  } finally {
    timers.remove()
  }
})

test('a short deadline passes in real time', async () => {
  const startedAt = performance.now()
  const passed = Promise.withResolvers<void>()
  deadlines.set(new Deadline({ onDeadline: passed.resolve }), 30)
  // The timer of the wheel does not keep a process alive.
  const alive = setTimeout(() => {}, 10_000)
  await passed.promise
  clearTimeout(alive)
  expect(performance.now() - startedAt).toBeGreaterThanOrEqual(30)
  expect(performance.now() - startedAt).toBeLessThan(5_000)
})
