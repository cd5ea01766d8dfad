import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { Plans } from '../../src/accounts/plans.ts'
import { newSubscription } from '../../src/accounts/subscription.ts'
import { ConfigError, readConfig } from '../../src/config/load.ts'

const plansOf = (text: string): Plans => new Plans(readConfig(text, 'sluice.yaml', {}))

function problemsOf(text: string): string[] {
  try {
    plansOf(text)
    return []
  } catch (error) {
    if (error instanceof ConfigError) return error.problems
    throw error
  }
}

describe('plans', () => {
  test('the built-in plans are those documented', () => {
    const plans = plansOf('')
    expect(plans.usdPerFlow).toBe(32_830_000n)
    expect(plans.tiers()).toEqual([
      {
        tier: 'free',
        usdPerMonth: 0,
        flows: { '5_hour': 5_000_000n, '7_day': 38_640_000n, monthly: 165_600_000n },
        discount: 0,
      },
      {
        tier: 'pro',
        usdPerMonth: 20,
        flows: { '5_hour': 50_000_000n, '7_day': 213_293_000n, monthly: 914_112_000n },
        discount: 0,
      },
      {
        tier: 'max',
        usdPerMonth: 100,
        flows: { '5_hour': 300_000_000n, '7_day': 1_280_220_000n, monthly: 5_486_659_000n },
        discount: 0,
      },
      {
        tier: 'ultra',
        usdPerMonth: 200,
        flows: { '5_hour': 800_000_000n, '7_day': 3_413_921_000n, monthly: 14_631_091_000n },
        discount: 0,
      },
    ])
  })

  test('configured plans override built-in ones and add to them', () => {
    const plans = plansOf(`plans:
  usdPerFlow: 0.05
  tiers:
    pro: { flows: { 7_day: 200.1234 }, discount: 7.25 }
    team: { usdPerMonth: 60, flows: { 5_hour: 150, 7_day: 640, monthly: 0 } }`)
    expect(plans.usdPerFlow).toBe(50_000_000n)
    expect(plans.of('pro')).toEqual({
      tier: 'pro',
      usdPerMonth: 20,
      flows: { '5_hour': 50_000_000n, '7_day': 200_123_400n, monthly: 914_112_000n },
      discount: 725,
    })
    expect(plans.of('team')).toEqual({
      tier: 'team',
      usdPerMonth: 60,
      flows: { '5_hour': 150_000_000n, '7_day': 640_000_000n, monthly: 0n },
      discount: 0,
    })
    expect(plans.tiers().map(({ tier }) => tier)).toEqual(['free', 'pro', 'max', 'ultra', 'team'])
    expect(plansOf('').of('pro').discount).toBe(0)
  })

  for (const [text, problems] of [
    [
      'plans: { tiers: { team: { usdPerMonth: 1 } } }',
      ['1:25: plans.tiers.team requires flows.5_hour and flows.7_day and flows.monthly'],
    ],
    [
      'plans: { tiers: { prp: { flows: { 5_hour: 1, 7_day: 1, monthly: 1 } } } }',
      ['1:24: plans.tiers.prp requires usdPerMonth (did you mean pro?)'],
    ],
    [
      'plans: { tiers: { constructor: { usdPerMonth: 1 } } }',
      ['1:32: plans.tiers.constructor requires flows.5_hour and flows.7_day and flows.monthly'],
    ],
    [
      'plans: { tiers: { pro: { flows: { 5_hour: 1.00001 } } } }',
      ['1:43: plans.tiers.pro.flows.5_hour must have at most 4 decimals, not 1.00001'],
    ],
    [
      'plans: { tiers: { pro: { flows: { 5_hour: -1 } } } }',
      ['1:43: plans.tiers.pro.flows.5_hour must be a number from 0 to 1000000000, not -1'],
    ],
    [
      'plans: { tiers: { pro: { discount: 101 } } }',
      ['1:36: plans.tiers.pro.discount must be a number from 0 to 100, not 101'],
    ],
    [
      'plans: { tiers: { pro: { discount: 0.125 } } }',
      ['1:36: plans.tiers.pro.discount must have at most 2 decimals, not 0.125'],
    ],
    ['plans: { usdPerFlow: 0 }', ['1:22: plans.usdPerFlow must be a number from 1e-9 to 1000000, not 0']],
    [
      'plans: { tiers: { Pro: {} } }',
      [
        '1:19: plans.tiers has the name "Pro", which must be lower-case letters, digits, dots, - and _, ' +
          'beginning with a letter or digit',
      ],
    ],
  ] as const) {
    test(`the configuration ${text} is refused`, () => {
      expect(problemsOf(text)).toEqual(problems.map((problem) => `sluice.yaml:${problem}`))
    })
  }

  test('a plan that is not configured any more counts as the free plan, with a warning', () => {
    const plans = plansOf('')
    expect(plans.of('team')).toBe(plans.of('free'))
    expect(plans.missingTierWarnings([newSubscription('a1', 'pro', 0), newSubscription('a2', 'team', 0)])).toEqual([
      'account a2 has the plan team, which is not configured: it uses the free plan. ' +
        'Configure plans.tiers.team or give it another plan',
    ])
  })
})

describe('flows', () => {
  const plans = plansOf('')

  test('a price is converted to flows', () => {
    expect(plans.flowsOf(32_830_000n, 1)).toBe(1_000_000n)
    expect(plans.flowsOf(32_830_000n, 1.5)).toBe(1_500_000n)
    expect(plans.flowsOf(1_000_000_000n, 1)).toBe(30_459_945n)
    expect(plans.flowsOf(0n, 1.5)).toBe(0n)
  })

  test('flows are rounded once, half to even', () => {
    const round = plansOf('plans: { usdPerFlow: 0.002 }')
    expect([1n, 2n, 3n, 4n, 5n, 6n, 7n].map((nano) => round.flowsOf(nano, 1))).toEqual([0n, 1n, 2n, 2n, 2n, 3n, 4n])
    // Rounding before the penalty would give 0 for one nano-USD.
    expect(round.flowsOf(1n, 1.5)).toBe(1n)
  })

  test('flows differ from the price by at most half a micro-flow, at any size', () => {
    fc.assert(
      fc.property(fc.bigInt(0n, 2n ** 100n), fc.integer({ min: 100, max: 10_000 }), (list, hundredths) => {
        const flows = plans.flowsOf(list, hundredths / 100)
        const off = flows * plans.usdPerFlow * 100n - list * BigInt(hundredths) * 1_000_000n
        expect((off < 0n ? -off : off) * 2n <= plans.usdPerFlow * 100n).toBe(true)
      }),
    )
  })
})
