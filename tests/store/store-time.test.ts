import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { SteadyClock } from '../../src/accounts/clock.ts'
import { StoreTime } from '../../src/store/postgres/store-time.ts'

const SECOND = 1_000
const MINUTE = 60 * SECOND
const HOUR = 60 * MINUTE
const START = 10 * HOUR

test('the time is that of the machine as long as no answer proves it wrong, and of the server otherwise', () => {
  let elapsed = 1_000
  const time = new StoreTime(
    () => HOUR,
    () => elapsed,
  )
  expect(time.now()).toBe(HOUR)
  elapsed = 1_020
  time.correct(HOUR + 5, 1_000)
  expect(time.now()).toBe(HOUR + 20)
  // An answer that took 20 ms leaves it open when the server read its clock.
  time.correct(3 * HOUR, 1_000)
  expect(time.now()).toBe(3 * HOUR)
  time.correct(HOUR, 1_000)
  expect(time.now()).toBe(HOUR + 20)
})

test('after an answer, the time is wrong by less than that took', () =>
  fc.assert(
    fc.property(
      fc.integer({ min: -HOUR, max: HOUR }),
      fc.array(fc.tuple(fc.integer({ min: 0, max: 500 }), fc.integer({ min: 0, max: 500 })), { minLength: 1 }),
      (wrong, answers) => {
        let server = START
        const time = new StoreTime(
          () => server + wrong,
          () => server - 9 * HOUR,
        )
        for (const [there, back] of answers) {
          const sentAt = server - 9 * HOUR
          const read = (server += there)
          server += back
          time.correct(read, sentAt)
          expect(Math.abs(time.now() - server)).toBeLessThanOrEqual(there + back)
        }
      },
    ),
  ))

describe('the steady clock over the time of a server', () => {
  /** A process that asks the server every two seconds. `pace`: of this machine's monotonic clock. */
  const processOver = ({ wrongMs = 0, pace = 1 } = {}) => {
    const server = { passedMs: 0, offsetMs: 0 }
    const right = (): number => START + server.passedMs
    const elapsed = (): number => server.passedMs * pace
    const time = new StoreTime(() => right() + wrongMs, elapsed)
    const ask = (): unknown => time.correct(right() + server.offsetMs, elapsed())
    ask()
    const { now } = new SteadyClock(time.now, elapsed)
    const pass = (ms: number): void => {
      for (let passed = 0; passed < ms; passed += 2 * SECOND) {
        server.passedMs += 2 * SECOND
        ask()
        now()
      }
    }
    return { server, right, now, pass }
  }

  test('does not follow a server whose clock jumps for a moment, and follows one that keeps its new time', () => {
    const { server, right, now, pass } = processOver({ wrongMs: HOUR })
    for (const offsetMs of [20 * 365 * 24 * HOUR, -2 * HOUR]) {
      server.offsetMs = offsetMs
      pass(50 * SECOND)
      expect(now()).toBe(right())
      server.offsetMs = 0
      pass(10 * SECOND)
      expect(now()).toBe(right())
    }
    server.offsetMs = 2 * HOUR
    pass(50 * SECOND)
    expect(now()).toBe(right())
    pass(20 * SECOND)
    expect(now()).toBe(right() + 2 * HOUR)
  })

  test('goes on at its own pace over a server whose clock was set back, as by a failover', () => {
    const { server, right, now, pass } = processOver()
    server.offsetMs = -HOUR
    pass(10 * MINUTE)
    expect(now()).toBe(right())
  })

  test('stays right on a machine whose own pace is wrong, and never goes back', () => {
    for (const pace of [0.999, 1.001]) {
      const { right, now, pass } = processOver({ pace })
      let before = now()
      for (let minute = 0; minute < 120; minute++) {
        pass(MINUTE)
        expect(now()).toBeGreaterThanOrEqual(before)
        expect(Math.abs((before = now()) - right())).toBeLessThan(5)
      }
    }
  })
})
