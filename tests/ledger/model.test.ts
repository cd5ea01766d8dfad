import { afterAll, beforeAll, expect, spyOn, test } from 'bun:test'
import * as fc from 'fast-check'
import { audit } from '../../src/ledger/audit.ts'
import { topUp } from '../../src/ledger/book.ts'
import type { Outcome } from '../../src/ledger/outcomes.ts'
import type { OpenGeneration } from '../../src/ledger/ledger.ts'
import { ratingOf } from '../../src/ledger/recorded.ts'
import type { GenerationEvent } from '../../src/generation/event.ts'
import { newSubscription } from '../../src/accounts/quota.ts'
import {
  counted,
  COUNTED_INPUT,
  Model,
  nothing,
  priced,
  WORD,
  type Ask,
  type Entry,
  type Heard,
  type Limit,
  type Rates,
  type Tier,
  type Usage,
} from './model.ts'
import { Rig, type Death } from './rig.ts'
import { IS_LONG, runs } from '../runs.ts'
import { NotCovered } from '../../src/store/store.ts'

const USD = 1_000_000_000n
const MICRO = 1_000_000n
/** Little enough that a few requests hold all of it. */
const [CREDIT, GIFT] = [USD / 2n, USD / 10n]
const HOUR = 3_600_000

const TIERS = {
  free: { usdPerMonth: 0, flows: { '5_hour': 3, '7_day': 8, monthly: 20 }, discount: 0 },
  pro: { usdPerMonth: 20, flows: { '5_hour': 12, '7_day': 30, monthly: 60 }, discount: 10 },
}

const KEYS: { id: string; account: string; subscribed: boolean; limit?: Limit }[] = [
  { id: 'a-payg', account: 'a', subscribed: false },
  { id: 'a-daily', account: 'a', subscribed: false, limit: { amount: USD / 4n, period: 'day' } },
  { id: 'a-sub', account: 'a', subscribed: true },
  { id: 'a-sub-weekly', account: 'a', subscribed: true, limit: { amount: USD / 5n, period: 'week' } },
  { id: 'b-payg', account: 'b', subscribed: false },
  { id: 'b-once', account: 'b', subscribed: false, limit: { amount: USD / 4n, period: null } },
  { id: 'b-sub-monthly', account: 'b', subscribed: true, limit: { amount: USD / 5n, period: 'month' } },
]

/** As often large as small: what is small always fits. */
const rate = fc.record({
  base: fc.noBias(fc.bigInt(0n, 12n * USD)),
  tiers: fc.constantFrom<{ over: number; rate: bigint }[]>(
    [],
    [{ over: 2_000, rate: 15n * USD }],
    [
      { over: 500, rate: 3n * USD + 1n },
      { over: 9_000, rate: 20n * USD },
    ],
  ),
})
const fee = fc.record({ base: fc.bigInt(0n, USD / 50n), tiers: fc.constant<{ over: number; rate: bigint }[]>([]) })
const rates: fc.Arbitrary<Rates> = fc.record(
  {
    prompt: rate,
    completion: rate,
    reasoning: rate,
    input_cache_read: rate,
    input_cache_write_5_min: rate,
    input_cache_write_1_h: rate,
    input_audio: rate,
    output_audio: rate,
    output_image: rate,
    web_search: fee,
    image: fee,
    request: fee,
  },
  { requiredKeys: ['prompt', 'completion'] },
)

const few = fc.nat({ max: 12_000 })
const many = fc.noBias(fc.nat({ max: 20_000 }))
const usage: fc.Arbitrary<Partial<Usage>> = fc.record(
  {
    inputTokens: few,
    outputTokens: fc.integer({ min: 1, max: 12_000 }),
    cacheReadTokens: few,
    reasoningTokens: few,
    cacheWrite5mTokens: few,
    cacheWrite1hTokens: few,
    inputAudioTokens: few,
    outputAudioTokens: few,
    outputImageTokens: few,
    webSearches: fc.nat({ max: 3 }),
    images: fc.nat({ max: 3 }),
  },
  { requiredKeys: ['outputTokens'] },
)

const which = fc.nat({ max: 1_000 })
const ending = fc.constantFrom<Outcome>('completed', 'completed', 'client-left', 'failed', 'timed-out', 'shutdown')
const step = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      do: fc.constant('admit' as const),
      key: fc.nat({ max: KEYS.length - 1 }),
      free: fc.constantFrom(false, false, false, true),
      input: many,
      output: many,
      discount: fc.constantFrom(0, 500, 3_333, 10_000),
      penaltyTenths: fc.constantFrom(10, 15),
    }),
  },
  {
    weight: 8,
    arbitrary: fc.record({
      do: fc.constant('hear' as const),
      which,
      what: fc.constantFrom(
        'text' as const,
        'reasoning' as const,
        'usage' as const,
        'usage' as const,
        'finish' as const,
        'image' as const,
      ),
      words: fc.integer({ min: 1, max: 300 }),
      usage,
    }),
  },
  {
    weight: 7,
    arbitrary: fc.record({
      do: fc.constant('close' as const),
      which: fc.array(which, { minLength: 1, maxLength: 3 }),
      ending,
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('defer' as const), which }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('again' as const), which, ending }) },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant('post' as const),
      account: fc.constantFrom('a', 'b'),
      bonus: fc.boolean(),
      amount: fc.bigInt(-USD / 10n, USD / 8n),
      seen: fc.boolean(),
    }),
  },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('wait' as const), ms: fc.constantFrom(0, 60, 150, 6_000) }) },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant('jump' as const),
      ms: fc.constantFrom(1, HOUR, 5 * HOUR, 30 * HOUR, 169 * HOUR, 24 * 31 * HOUR, -HOUR, -30 * HOUR, -24 * 31 * HOUR),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant('plan' as const),
      account: fc.constantFrom('a', 'b'),
      tier: fc.constantFrom('free', 'pro'),
      how: fc.constantFrom('now' as const, 'next' as const, 'end' as const),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('reprice' as const), rates }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('look' as const) }) },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant('crash' as const),
      after: fc.constantFrom(0, 150, 150),
      death: fc.constantFrom<Death>('before', 'after'),
      which: fc.array(which, { maxLength: 2 }),
      ending,
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('fail' as const), times: fc.integer({ min: 1, max: 3 }) }) },
)
type Step = typeof step extends fc.Arbitrary<infer Value> ? Value : never
type Of<Name extends Step['do']> = Extract<Step, { do: Name }>

/** What providers charge. */
const COST: Rates = { prompt: { base: USD / 2n, tiers: [] }, completion: { base: USD, tiers: [] } }

/** The ledger and its model, step by step side by side. */
class Pair {
  readonly #rig: Rig
  readonly #model: Model
  #rates: Rates
  #version = 1
  #names = 0
  readonly #open = new Map<string, OpenGeneration>()
  /** When each was admitted and last written as open, in real time. */
  readonly #ages = new Map<string, { bornMs: number; writtenMs?: number }>()

  constructor(overdraft: bigint, rates: Rates) {
    this.#rig = new Rig(overdraft, { usdPerFlow: 0.03283, tiers: Object.entries(TIERS) })
    const tiers = Object.entries(TIERS).map(([name, { flows, discount }]) => [
      name,
      {
        discount: discount * 100,
        flows: Object.fromEntries(Object.entries(flows).map(([window, most]) => [window, BigInt(most) * MICRO])),
      },
    ])
    this.#model = new Model(overdraft, 32_830_000n, Object.fromEntries(tiers) as Record<string, Tier>)
    this.#rates = rates
    this.#rig.cost = { version: 'cost', model: 'm', rates: COST }
  }

  async begin(): Promise<void> {
    const { now } = this.#rig
    await this.#rig.open()
    for (const [id, tier] of [
      ['a', 'pro'],
      ['b', 'free'],
    ] as const) {
      const money = [
        topUp({ reference: `start ${id}`, at: now, accountId: id, amount: CREDIT, bonus: false }),
        topUp({ reference: `gift ${id}`, at: now, accountId: id, amount: GIFT, bonus: true }),
      ]
      await this.#rig.other.addAccount(
        { id, name: id, status: 'healthy', createdAt: now, discount: 0 },
        newSubscription(id, tier, now),
        money,
      )
      this.#model.posted.set(id, { credit: { all: CREDIT, unseen: 0n }, bonus: { all: GIFT, unseen: 0n } })
      this.#model.subscriptions.set(id, { anchor: now, tier, nextTier: null, renews: true, months: 0, seen: now })
    }
    await this.#wait(0)
  }

  async end(): Promise<void> {
    await this.#rig.close()
  }

  async take(step: Step): Promise<void> {
    switch (step.do) {
      case 'admit':
        this.#admit(step)
        break
      case 'hear':
        this.#record(step)
        break
      case 'close':
        await this.#close(step)
        break
      case 'defer':
        await this.#defer(step)
        break
      case 'again':
        await this.#again(step)
        break
      case 'post':
        await this.#post(step)
        break
      case 'wait':
        await this.#wait(step.ms)
        break
      case 'jump':
        this.#rig.now += step.ms
        break
      case 'plan':
        await this.#plan(step)
        break
      case 'reprice':
        ;[this.#rates, this.#version] = [step.rates, this.#version + 1]
        break
      case 'look':
        this.#look()
        break
      case 'crash':
        await this.#crash(step)
        break
      case 'fail':
        this.#rig.failures = step.times
        break
    }
  }

  get #running(): Entry[] {
    return this.#model.log.filter(({ closed }) => closed === undefined)
  }

  #pick(from: Entry[], chosen: number[]): Entry[] {
    return [...new Set(chosen.flatMap((at) => from[at % Math.max(1, from.length)] ?? []))]
  }

  #admit({ key, free, input, output, discount, penaltyTenths }: Of<'admit'>): void {
    const { id: keyId, account, subscribed, limit } = KEYS[key]!
    const id = String(++this.#names).padStart(32, '0')
    const worst = { ...nothing(), inputTokens: input, outputTokens: output }
    const ask: Ask = {
      id,
      account,
      key: keyId,
      subscribed,
      limit,
      version: `v${this.#version}`,
      rates: free ? undefined : this.#rates,
      discount,
      penaltyTenths,
      worst,
    }
    let said = 'admitted'
    try {
      this.#open.set(
        id,
        this.#rig.ledger.reserve(
          {
            id,
            accountId: account,
            keyId,
            kind: subscribed ? 'subscription' : 'pay-as-you-go',
            limit,
            api: 'chat',
            model: 'm',
            createdAt: this.#rig.now,
            streamed: true,
            price: free ? undefined : { version: ask.version, model: 'm', rates: this.#rates },
            discount,
            penalty: penaltyTenths / 10,
            worst,
          },
          () => Promise.resolve(COUNTED_INPUT),
        ),
      )
      this.#open.get(id)!.meter.tries.push({ provider: 'p', sent: true, milliseconds: 0 })
    } catch (error) {
      said = (error as { code: string }).code
    }
    expect(said).toBe(this.#model.admit(ask, this.#rig.now, this.#rig.keepOwed))
    this.#ages.set(id, { bornMs: this.#rig.time.ageMs })
  }

  #record({ which, what, words, usage }: Of<'hear'>): void {
    const [entry] = this.#pick(this.#running, [which])
    if (entry === undefined) return
    const { meter } = this.#open.get(entry.id)!
    meter.served = { provider: 'p', model: 'm' }
    meter.record(heardAs(what, words, usage))
    const { heard } = entry
    heard.begun = true
    if (what === 'text' || what === 'reasoning') heard[what] += words
    if (what === 'finish') heard.finished = true
    if (what === 'image') heard.usage = { ...heard.usage, images: heard.usage.images + 1 }
    // Images are those that were heard, whatever is told of them.
    if (what === 'usage') heard.usage = { ...heard.usage, ...usage, images: heard.usage.images }
  }

  /** Several at once where nothing has to be counted for them, which would take a turn longer. */
  async #close({ which, ending }: Of<'close'>): Promise<void> {
    const chosen = this.#pick(this.#running, which)
    const together = chosen.filter(({ heard }) => !isCounted(heard, ending))
    for (const entries of [together, ...chosen.filter((entry) => !together.includes(entry)).map((entry) => [entry])]) {
      for (const entry of entries) this.#model.close(entry, ending, this.#rig.now)
      const written = await Promise.all(
        entries.map(({ id }) =>
          this.#rig.ledger.close(this.#open.get(id)!, ending).then(
            () => true,
            () => false,
          ),
        ),
      )
      this.#noteTaken()
      expect(written).toEqual(entries.map(({ durable }) => durable))
    }
  }

  #noteTaken(): void {
    for (const entry of this.#model.log) entry.durable = this.#rig.taken.has(entry.id)
  }

  /** Its provider goes on in the background: nothing was heard of it yet. */
  async #defer({ which }: Of<'defer'>): Promise<void> {
    const [entry] = this.#pick(
      this.#running.filter(({ heard, deferred }) => !heard.begun && !deferred),
      [which],
    )
    if (entry === undefined || this.#rig.failures > 0) return
    await this.#rig.ledger.defer(this.#open.get(entry.id)!)
    Object.assign(entry, { deferred: true, kept: structuredClone(entry.heard) })
  }

  async #again({ which, ending }: Of<'again'>): Promise<void> {
    const [entry] = this.#pick(
      this.#model.log.filter(({ id, closed }) => closed !== undefined && this.#open.has(id)),
      [which],
    )
    if (entry === undefined) return
    const open = this.#open.get(entry.id)!
    open.meter.record([{ type: 'usage', usage: { outputTokens: 77_777 } }])
    await this.#rig.ledger.close(open, ending)
  }

  async #post({ account, bonus, amount, seen }: Of<'post'>): Promise<void> {
    if (amount === 0n) return
    const kind = bonus ? 'bonus' : 'credit'
    const operation = {
      ...topUp({ reference: `operation ${++this.#names}`, at: this.#rig.now, accountId: account, amount, bonus }),
      covered: amount < 0n,
    }
    const { balance } = (await this.#rig.other.ledgerState()).balances.find(
      (one) => one.kind === kind && one.owner === account,
    )!
    if (balance + amount < 0n && amount < 0n)
      return void (await expect(this.#rig.other.post(operation)).rejects.toEqual(new NotCovered(balance)))
    expect(await this.#rig.other.post(operation)).toBe(true)
    expect(await this.#rig.other.post(operation)).toBe(false)
    const posted = this.#model.posted.get(account)![kind]
    posted.all += amount
    posted.unseen += amount
    if (seen) await this.#wait(0)
  }

  /** Real time passes, and the timers ring: the look at what other processes wrote, and the sweep. */
  async #wait(ms: number): Promise<void> {
    const { time } = this.#rig
    time.ageMs += ms
    const { failures: refusals, keepOwed: owed } = this.#rig
    this.#rig.kept.clear()
    this.#rig.keepOwed = false
    await time.ring()
    await this.#rig.flush()
    this.#noteTaken()
    expect(this.#model.unwritten.length === 0 || refusals > 0).toBe(true)
    for (const { credit, bonus } of this.#model.posted.values()) credit.unseen = bonus.unseen = 0n
    for (const entry of this.#running) {
      const age = this.#ages.get(entry.id)!
      const due =
        !entry.deferred &&
        time.ageMs - age.bornMs > 100 &&
        (age.writtenMs === undefined || time.ageMs - age.writtenMs > 5_000)
      if (due) age.writtenMs = time.ageMs
      const isKept = this.#rig.kept.has(entry.id)
      if (due ? refusals === 0 : !owed) expect(isKept).toBe(due)
      if (isKept) entry.kept = structuredClone(entry.heard)
    }
    expect(this.#rig.keepOwed && refusals === 0).toBe(false)
  }

  async #plan({ account, tier, how }: Of<'plan'>): Promise<void> {
    this.#rig.ledger.quota(account)
    this.#model.renew(account, this.#rig.now)
    await this.#rig.flush()
    const stored = (await this.#rig.other.ledgerState()).subscriptions.find(({ accountId }) => accountId === account)!
    const change =
      how === 'now'
        ? { tier, nextTier: null, renews: true }
        : how === 'next'
          ? { nextTier: tier, renews: true }
          : { renews: false }
    await this.#rig.other.setSubscription({ ...stored, ...change })
    Object.assign(this.#model.subscriptions.get(account)!, change)
    await this.#wait(0)
  }

  /**
   * What a client reads of its quota: used and remaining are the maximum, the share is right, and it resets when its
   * window ends.
   */
  #look(): void {
    for (const account of ['a', 'b']) {
      const { now, ledger } = this.#rig
      const detail = ledger.quota(account).detail(now, 'healthy', 1)
      const { tier, end } = this.#model.renew(account, now)
      expect(detail.plan).toMatchObject({ tier, expires_at: new Date(end).toISOString() })
      for (const name of ['5_hour', '7_day'] as const) {
        const shown = detail[`quota_${name}`]
        const window = this.#model.window(account, name, now)
        const max = TIERS[tier as keyof typeof TIERS].flows[name]
        expect(shown.resets_at).toBe(window === undefined ? null : new Date(window.end).toISOString())
        expect(shown.max_flows).toBe(max)
        expect(shown.used_flows).toBeCloseTo(Math.min(max, Number(window?.used ?? 0n) / 1e6), 3)
        expect(shown.used_flows + shown.remaining_flows).toBeCloseTo(max, 9)
        expect(shown.usage_percentage).toBeCloseTo(shown.used_flows / max, 3)
        expect(shown.usage_percentage <= 1).toBe(true)
      }
    }
  }

  async #crash({ after, death, which, ending }: Of<'crash'>): Promise<void> {
    await this.#wait(after)
    const entries = this.#pick(
      this.#running.filter(({ heard }) => !isCounted(heard, ending)),
      which,
    )
    for (const entry of entries) this.#model.close(entry, ending, this.#rig.now)
    await this.#rig.die(death, () => {
      for (const { id } of entries) void this.#rig.ledger.close(this.#open.get(id)!, ending).catch(() => {})
    })
    this.#noteTaken()
    this.#open.clear()
    this.#model.crash(this.#rig.now)
    await this.#rig.open()
    await this.#rig.flush()
    for (const open of this.#rig.ledger.deferred) this.#open.set(open.request.id, open)
    expect([...this.#open.keys()].toSorted()).toEqual(this.#running.map(({ id }) => id))
  }

  /**
   * Memory and book are what the model says, everything adds up, and every record is there once, with what it says
   * paid.
   */
  async check(): Promise<void> {
    const { other, ledger } = this.#rig
    const [{ balances, spends }, records, transfers, open] = [
      await other.ledgerState(),
      await other.generations(undefined, 1_000),
      await other.transfers(undefined, 5_000),
      await other.openGenerations(),
    ]
    for (const account of ['a', 'b']) {
      const stored = (kind: string): bigint =>
        balances.find((balance) => balance.kind === kind && balance.owner === account)?.balance ?? 0n
      expect(ledger.balance(account)).toEqual({
        credit: this.#model.balance(account, 'credit', 'server'),
        bonus: this.#model.balance(account, 'bonus', 'server'),
      })
      expect({ credit: stored('credit'), bonus: stored('bonus') }).toEqual({
        credit: this.#model.balance(account, 'credit', 'book'),
        bonus: this.#model.balance(account, 'bonus', 'book'),
      })
    }
    expect(balances.reduce((all, { balance }) => all + balance, 0n)).toBe(0n)
    const durable = this.#model.log.filter(({ durable }) => durable)
    expect(records.map(({ id }) => id)).toEqual(durable.map(({ id }) => id))
    expect(open.map(({ id }) => id)).toEqual(
      this.#model.log.filter(({ durable, kept }) => !durable && kept !== undefined).map(({ id }) => id),
    )
    for (const [at, entry] of durable.entries()) {
      const { begun, usage, estimated, bill, flows, ending, credit, bonus, writtenOff } = entry.closed!
      const record = records[at]!
      expect(record).toMatchObject({
        usage,
        estimated,
        bill,
        flows,
        ending,
        held: entry.held,
        accountId: entry.account,
        keyId: entry.key,
        discount: entry.discount,
      })
      expect(record.price?.version).toBe(entry.rates === undefined ? undefined : entry.version)
      const postings = transfers
        .filter(({ reference, kind }) => reference === entry.id)
        .map(({ kind, amount }) => [kind, amount])
      expect(Object.fromEntries(postings)).toEqual(
        Object.fromEntries(
          [
            ['bonus', bonus],
            ['credit', credit],
            ['write-off', writtenOff],
            ['cost', begun ? priced(usage, COST, 0).bill : 0n],
          ].filter(([, amount]) => (amount as bigint) > 0n),
        ),
      )
      const rating = ratingOf(record)
      expect(entry.subscribed ? rating.origin : rating.bill).toBe(bill)
      expect(rating.items.reduce((all, line) => all + line.bill, 0n)).toBe(rating.bill)
      expect(
        rating.items.every(
          (line) => line.bill >= 0n && line.discount >= 0n && line.origin - line.discount === line.bill,
        ),
      ).toBe(true)
    }
    for (const { id, limit } of KEYS)
      if (limit !== undefined) {
        const written = spends.find(({ keyId }) => keyId === id)
        const mine = this.#model.log.filter(({ key, durable }) => durable && key === id)
        const since = Math.max(...mine.map((entry) => entry.since))
        expect(written?.spent).toBe(
          mine.length === 0
            ? undefined
            : mine.filter((entry) => entry.since === since).reduce((all, entry) => all + entry.closed!.bill, 0n),
        )
      }
  }

  async checkAll(): Promise<void> {
    this.#rig.failures = 0
    await this.#wait(0)
    await this.check()
    this.#look()
    expect(
      (await audit(this.#rig.other, { overdraft: this.#model.overdraft, usdPerFlow: 32_830_000n })).first,
    ).toBeUndefined()
  }
}

const heardAs = (what: Of<'hear'>['what'], words: number, usage: Partial<Usage>): GenerationEvent[] => {
  if (what === 'usage') return [{ type: 'usage', usage }]
  if (what === 'finish') return [{ type: 'finish', reason: 'stop', raw: 'stop' }]
  return [
    {
      type: 'part-start',
      part: 0,
      head: what === 'image' ? { type: 'image', mediaType: 'image/png' } : { type: what },
    },
    { type: 'part-delta', part: 0, text: WORD.repeat(words) },
  ]
}

/** Whether Sluice counts itself what this ending charges, which takes it longer. */
const isCounted = (heard: Heard, ending: Outcome): boolean => Object.values(counted(heard, ending) ?? {}).includes(true)

/** The operator is told of every disk that is full. */
const told = spyOn(console, 'error')
beforeAll(() => void told.mockImplementation(() => {}))
afterAll(() => told.mockRestore())

const RUNS = runs(60, 3_000)

test('whatever happens to it in whatever order, the ledger does what its model does', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(0n, 0n, USD / 10n),
      rates,
      fc.array(step, { minLength: 20, maxLength: 70, size: 'max' }),
      async (overdraft, first, steps) => {
        const pair = new Pair(overdraft, first)
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
