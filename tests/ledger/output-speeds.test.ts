import { describe, expect, test } from 'bun:test'
import { newSubscription } from '../../src/accounts/subscription.ts'
import type { GenerationEvent } from '../../src/generation/event.ts'
import { completionTokens, noUsage } from '../../src/generation/usage.ts'
import { topUp } from '../../src/ledger/book.ts'
import type { OpenGeneration } from '../../src/ledger/ledger.ts'
import type { GenerationRecord } from '../../src/store/store.ts'
import { Rig } from './rig.ts'
import { accountOf } from '../store/account.ts'

const USD = 1_000_000_000n
const LIMIT = 20_000
const PRICE = {
  version: '1',
  model: 'm',
  rates: { prompt: { base: USD, tiers: [] }, completion: { base: 10n * USD, tiers: [] } },
}
/** 12,000 tokens, of which 11,990 are reasoning that the provider does not show. */
const REPORT: GenerationEvent[] = [
  { type: 'usage', usage: { inputTokens: 10, outputTokens: 10, reasoningTokens: 11_990 } },
  { type: 'finish', reason: 'stop', raw: 'stop' },
]
const WORDS: GenerationEvent[] = [
  { type: 'part-start', part: 0, head: { type: 'text' } },
  { type: 'part-delta', part: 0, text: ' word'.repeat(10) },
]

let ids = 0
class Model {
  readonly rig: Rig
  readonly #streamed: boolean

  constructor(rig: Rig, streamed: boolean) {
    this.rig = rig
    this.#streamed = streamed
  }

  begin(): OpenGeneration {
    const open = this.rig.ledger.reserve(
      {
        id: String(++ids).padStart(32, '0'),
        accountId: 'a',
        keyId: 'k',
        kind: 'pay-as-you-go',
        api: 'chat.completions',
        model: 'm',
        createdAt: this.rig.now,
        streamed: this.#streamed,
        discount: 0,
        penalty: 1,
        price: PRICE,
        worst: { ...noUsage(), inputTokens: 100, outputTokens: LIMIT },
      },
      () => Promise.resolve(10),
    )
    open.meter.attempts.push({ provider: 'p', sent: true, milliseconds: 0 })
    return open
  }

  /** Receives the words of a stream after this time. */
  receive({ meter }: OpenGeneration, afterMs: number): void {
    this.rig.time.ageMs += afterMs
    meter.record(WORDS)
  }

  /** A generation to its end. */
  async complete(ms: number): Promise<GenerationRecord> {
    const open = this.begin()
    this.receive(open, ms)
    open.meter.record(REPORT)
    await this.rig.ledger.close(open, 'completed')
    return this.recordOf(open)
  }

  async leave(open: OpenGeneration): Promise<GenerationRecord> {
    await this.rig.ledger.close(open, 'client-left')
    return this.recordOf(open)
  }

  async recordOf({ request }: OpenGeneration): Promise<GenerationRecord> {
    return (await this.rig.other.ledger.findGeneration('a', request.id))!
  }
}

async function withModel(streamed: boolean, check: (model: Model) => Promise<void>): Promise<void> {
  const flows = { '5_hour': 1, '7_day': 1, monthly: 1 }
  const rig = new Rig(0n, { usdPerFlow: 0.01, tiers: [['free', { usdPerMonth: 0, flows, discount: 0 }]] })
  try {
    await rig.open()
    await rig.other.accounts.add(accountOf('a'), newSubscription('a', 'free', rig.now), [
      topUp({ reference: 'credit', at: 1, accountId: 'a', amount: 100n * USD, bonus: false }),
    ])
    await rig.ledger.load()
    await check(new Model(rig, streamed))
  } finally {
    await rig.close()
  }
}

const ratio = (part: GenerationRecord, whole: GenerationRecord): number => Number(part.bill) / Number(whole.bill)

describe('a client that leaves without a report of its usage', () => {
  test('pays at the last word of a stream within 5 % of what staying costs', async () => {
    await withModel(true, async (model) => {
      const stayed = await model.complete(120_000)
      const open = model.begin()
      model.receive(open, 118_000)
      model.rig.time.ageMs += 500
      const left = await model.leave(open)
      expect(left).toMatchObject({ ending: 'client-left', estimated: true, estimation: 'timed' })
      expect(left.usage.outputTokens).toBe(10)
      expect(ratio(left, stayed)).toBeWithin(0.95, 1.05)
    })
  })

  test('pays for the reasoning so far where it leaves during that', async () => {
    await withModel(true, async (model) => {
      const stayed = await model.complete(120_000)
      const open = model.begin()
      model.rig.time.ageMs += 60_000
      expect(ratio(await model.leave(open), stayed)).toBeWithin(0.48, 0.52)
    })
  })

  test('pays for the time of an answer that is not streamed', async () => {
    await withModel(false, async (model) => {
      const stayed = await model.complete(120_000)
      const open = model.begin()
      model.rig.time.ageMs += 96_000
      const left = await model.leave(open)
      expect(left.estimation).toBe('timed')
      expect(ratio(left, stayed)).toBeWithin(0.78, 0.82)
    })
  })

  test('pays for the time until it left, not for that in which its provider was read on', async () => {
    await withModel(false, async (model) => {
      const stayed = await model.complete(120_000)
      const open = model.begin()
      model.rig.time.ageMs += 60_000
      open.meter.markLeft()
      model.rig.time.ageMs += 60_000
      expect(ratio(await model.leave(open), stayed)).toBeWithin(0.48, 0.52)
    })
  })

  test('pays at most the output limit, however long it takes', async () => {
    await withModel(false, async (model) => {
      const open = model.begin()
      model.rig.time.ageMs += 10_000_000
      const left = await model.leave(open)
      expect(completionTokens(left.usage)).toBe(LIMIT)
      expect([left.disputed, left.bill <= left.held]).toEqual([null, true])
    })
  })

  test('pays what it received of a model that hides no reasoning', async () => {
    await withModel(true, async (model) => {
      const shown = model.begin()
      model.rig.time.ageMs += 100
      shown.meter.record([
        { type: 'part-start', part: 0, head: { type: 'reasoning' } },
        { type: 'part-delta', part: 0, text: ' word'.repeat(400) },
      ])
      model.receive(shown, 8_000)
      shown.meter.record([
        { type: 'usage', usage: { inputTokens: 10, outputTokens: 10, reasoningTokens: 400 } },
        { type: 'finish', reason: 'stop', raw: 'stop' },
      ])
      await model.rig.ledger.close(shown, 'completed')
      const open = model.begin()
      model.receive(open, 60_000)
      expect(await model.leave(open)).toMatchObject({
        estimation: 'counted',
        usage: { outputTokens: 10, reasoningTokens: 0 },
      })
    })
  })

  test('cannot lower the speed of a model by many short requests before', async () => {
    await withModel(true, async (model) => {
      const stayed = await model.complete(300_000)
      for (let short = 0; short < 50; short++) {
        const open = model.begin()
        model.receive(open, 200)
        open.meter.record([
          { type: 'usage', usage: { inputTokens: 10, outputTokens: 10 } },
          { type: 'finish', reason: 'stop', raw: 'stop' },
        ])
        await model.rig.ledger.close(open, 'completed')
      }
      const open = model.begin()
      model.receive(open, 300_000)
      expect(ratio(await model.leave(open), stayed)).toBeGreaterThan(0.95)
    })
  })
})
