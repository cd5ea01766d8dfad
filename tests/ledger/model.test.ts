import { afterAll, beforeAll, spyOn, test } from 'bun:test'
import * as fc from 'fast-check'
import { log } from '../../src/log/log.ts'
import { LedgerPair } from './ledger-pair.ts'
import { rates, step, USD } from './model-steps.ts'
import { IS_LONG, runs } from '../runs.ts'
import { ON_POSTGRES } from '../stores.ts'

/** Silences the log lines about a full disk. */
const logged = (['error', 'warn'] as const).map((level) => spyOn(log, level))
beforeAll(() => logged.forEach((spy) => spy.mockImplementation(() => {})))
afterAll(() => logged.forEach((spy) => spy.mockRestore()))

const policy = fc.constantFrom<'cut' | 'finish'>('cut', 'finish')
const RUNS = ON_POSTGRES ? runs(12, 600) : runs(30, 3_000)

test('the ledger agrees with its model after any sequence of steps', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(0n, 0n, USD / 10n),
      fc.record({ payAsYouGo: policy, subscription: policy }),
      rates,
      fc.array(step, { minLength: 20, maxLength: 70, size: 'max' }),
      async (overdraft, policy, first, steps) => {
        const pair = new LedgerPair(overdraft, policy, first)
        try {
          await pair.begin()
          for (const step of steps) {
            await pair.take(step)
            await pair.check()
          }
          await pair.checkAll()
        } finally {
          await pair.end()
        }
      },
    ),
    { numRuns: RUNS, interruptAfterTimeLimit: IS_LONG ? 600_000 : 60_000 },
  )
}, 600_000)
