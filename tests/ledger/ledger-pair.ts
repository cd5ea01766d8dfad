import { expect } from 'bun:test'
import { newSubscription } from '../../src/accounts/subscription.ts'
import { audit } from '../../src/ledger/audit.ts'
import { topUp } from '../../src/ledger/book.ts'
import type { OpenGeneration } from '../../src/ledger/ledger.ts'
import type { Outcome } from '../../src/ledger/outcomes.ts'
import { NotCovered } from '../../src/store/store.ts'
import { Model } from './model.ts'
import { holdOf, type Entry, type Policy, type Request, type Tier } from './model-entries.ts'
import { isDueAt, type Age } from './pair-ages.ts'
import { COST, expectLedger, expectQuotas } from './model-checks.ts'
import { counted, COUNTED_INPUT, nothing, type Rates, type Received } from './model-pricing.ts'
import { CREDIT, eventsOf, GIFT, KEYS, MICRO, TIERS, type Of, type Step } from './model-steps.ts'
import { Rig } from './rig.ts'
import { accountOf } from '../store/account.ts'

/** The ledger and its model, taken through the same steps. */
export class LedgerPair {
  readonly #rig: Rig
  readonly #model: Model
  #rates: Rates
  #version = 1
  #names = 0
  #looks = 0
  readonly #open = new Map<string, OpenGeneration>()
  readonly #ages = new Map<string, Age>()

  constructor(overdraft: bigint, policy: Policy, rates: Rates) {
    this.#rig = new Rig(overdraft, { usdPerFlow: 0.03283, tiers: Object.entries(TIERS) }, policy)
    const tiers = Object.entries(TIERS).map(([name, { flows, discount }]) => [
      name,
      {
        discount: discount * 100,
        flows: Object.fromEntries(Object.entries(flows).map(([window, most]) => [window, BigInt(most) * MICRO])),
      },
    ])
    this.#model = new Model(overdraft, policy, 32_830_000n, Object.fromEntries(tiers) as Record<string, Tier>)
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
      await this.#rig.other.accounts.add(accountOf(id, { createdAt: now }), newSubscription(id, tier, now), money)
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
      case 'record':
        await this.#record(step)
        break
      case 'close':
        await this.#close(step)
        break
      case 'defer':
        await this.#defer(step)
        break
      case 'closeAgain':
        await this.#closeAgain(step)
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
      case 'inspect':
        expectQuotas(this.#rig, this.#model)
        break
      case 'crash':
        await this.#crash(step)
        break
      case 'takeOver':
        await this.#takeOver()
        break
      case 'fail':
        this.#rig.failures = step.times
        break
    }
  }

  get #running(): Entry[] {
    return this.#model.log.filter(({ closed }) => closed === undefined)
  }

  #ageOf({ id }: Entry): number {
    return this.#rig.time.ageMs - this.#ages.get(id)!.bornMs
  }

  #pick(from: Entry[], chosen: number[]): Entry[] {
    return [...new Set(chosen.flatMap((at) => from[at % Math.max(1, from.length)] ?? []))]
  }

  #admit({ key, free, input, output, candidates, mayEnd, discount, penaltyTenths }: Of<'admit'>): void {
    const { id: keyId, account, subscribed, limit } = KEYS[key]!
    const id = String(++this.#names).padStart(32, '0')
    const worst = { ...nothing(), inputTokens: input, outputTokens: output }
    const request: Request = {
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
      candidates,
      mayEnd,
    }
    let result = 'admitted'
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
            price: free ? undefined : { version: request.version, model: 'm', rates: this.#rates },
            discount,
            penalty: penaltyTenths / 10,
            worst,
            candidates,
            mayEnd,
          },
          () => Promise.resolve(COUNTED_INPUT),
        ),
      )
      this.#open.get(id)!.meter.attempts.push({ provider: 'p', sent: true, milliseconds: 0 })
    } catch (error) {
      result = (error as { code: string }).code
    }
    expect(result).toBe(this.#model.admit(request, this.#rig.now, this.#rig.rewriteOwed))
    this.#ages.set(id, { bornMs: this.#rig.time.ageMs, changed: true, moved: false, isOld: false, order: 0 })
  }

  async #record({ which, what, words, usage }: Of<'record'>): Promise<void> {
    const [entry] = this.#pick(this.#running, [which])
    if (entry === undefined) return
    const { meter } = this.#open.get(entry.id)!
    meter.served = { provider: 'p', model: 'm' }
    meter.record(eventsOf(what, words, usage))
    const age = this.#ages.get(entry.id)!
    age.changed = age.moved = true
    age.begunMs ??= this.#rig.time.ageMs
    const { received } = entry
    received.begun = true
    if (what === 'text' || what === 'reasoning') received[what] += words
    if (what === 'burst') received.text += words
    if (what === 'reasoning') received.reasons = true
    if (what === 'text' || what === 'image' || what === 'burst') received.firstOutputMs ??= this.#ageOf(entry)
    if (what === 'finish') received.finished = true
    if (what === 'image') received.usage = { ...received.usage, images: received.usage.images + 1 }
    // Images are counted from their parts, not from reported usage.
    if (what === 'usage' || what === 'burst')
      received.usage = { ...received.usage, ...usage, images: received.usage.images }
    this.#model.grow(entry, what !== 'usage' && what !== 'finish', this.#rig.now, this.#ageOf(entry))
    await this.#endExhausted()
  }

  /** Ends those for which no more can be held, as the relay does, unless they are complete. */
  async #endExhausted(): Promise<void> {
    for (const entry of this.#running) {
      expect(this.#open.get(entry.id)!.meter.exhausted).toEqual(entry.exhausted)
      if (entry.exhausted === undefined || entry.received.finished) continue
      await this.#closeAll([entry], 'exhausted')
    }
  }

  /** Closes several at once, except those whose tokens have to be counted, which takes a turn longer. */
  async #close({ which, outcome }: Of<'close'>): Promise<void> {
    const chosen = this.#pick(this.#running, which)
    const together = chosen.filter(({ received }) => !isCounted(received, outcome))
    for (const entries of [together, ...chosen.filter((entry) => !together.includes(entry)).map((entry) => [entry])])
      await this.#closeAll(entries, outcome)
  }

  async #closeAll(entries: Entry[], outcome: Outcome): Promise<void> {
    for (const entry of entries) this.#model.close(entry, outcome, this.#rig.now, this.#ageOf(entry))
    const stored = await Promise.all(
      entries.map(({ id }) =>
        this.#rig.ledger.close(this.#open.get(id)!, outcome).then(
          () => true,
          () => false,
        ),
      ),
    )
    this.#markDurable()
    expect(stored).toEqual(entries.map(({ durable }) => durable))
  }

  #markDurable(): void {
    for (const entry of this.#model.log) entry.durable = this.#rig.committed.has(entry.id)
  }

  /** Defers one of which nothing was received yet. */
  async #defer({ which }: Of<'defer'>): Promise<void> {
    const [entry] = this.#pick(
      this.#running.filter(({ received, deferred }) => !received.begun && !deferred),
      [which],
    )
    if (entry === undefined || this.#rig.failures > 0) return
    const owed = this.#rig.rewriteOwed
    await this.#rig.ledger.defer(this.#open.get(entry.id)!)
    // The write of a deferral is not the retry of a refused one.
    this.#rig.rewriteOwed = owed
    const written = structuredClone(entry.received)
    Object.assign(entry, { deferred: true, written, writtenHold: holdOf(entry) })
  }

  async #closeAgain({ which, outcome }: Of<'closeAgain'>): Promise<void> {
    const [entry] = this.#pick(
      this.#model.log.filter(({ id, closed }) => closed !== undefined && this.#open.has(id)),
      [which],
    )
    if (entry === undefined) return
    const open = this.#open.get(entry.id)!
    open.meter.record([{ type: 'usage', usage: { outputTokens: 77_777 } }])
    await this.#rig.ledger.close(open, outcome)
  }

  async #post({ account, bonus, amount, seen }: Of<'post'>): Promise<void> {
    if (amount === 0n) return
    const kind = bonus ? 'bonus' : 'credit'
    const operation = {
      ...topUp({ reference: `operation ${++this.#names}`, at: this.#rig.now, accountId: account, amount, bonus }),
      covered: amount < 0n,
    }
    const { balance } = (await this.#rig.other.ledger.state()).balances.find(
      (one) => one.kind === kind && one.owner === account,
    )!
    if (balance + amount < 0n && amount < 0n)
      return void (await expect(this.#rig.other.ledger.post(operation)).rejects.toEqual(new NotCovered(balance)))
    expect(await this.#rig.other.ledger.post(operation)).toBe(true)
    expect(await this.#rig.other.ledger.post(operation)).toBe(false)
    const posted = this.#model.posted.get(account)![kind]
    posted.all += amount
    posted.unseen += amount
    if (seen) await this.#wait(0)
  }

  /** Real time passes and timers fire: the watch for other processes' writes, and the sweep. */
  async #wait(ms: number): Promise<void> {
    const { time } = this.#rig
    time.ageMs += ms
    const { failures: refusals, rewriteOwed: owed } = this.#rig
    this.#rig.written.clear()
    this.#rig.rewriteOwed = false
    await time.fireTimers()
    await this.#rig.flush()
    this.#markDurable()
    expect(this.#model.unwritten.length === 0 || refusals > 0).toBe(true)
    for (const { credit, bonus } of this.#model.posted.values()) credit.unseen = bonus.unseen = 0n
    for (const entry of this.#lookedAt()) {
      entry.unseen = this.#model.speed.possible(entry.received, this.#ageOf(entry))
      this.#model.grow(entry, entry.received.firstOutputMs === undefined, this.#rig.now, this.#ageOf(entry))
    }
    for (const entry of this.#running) {
      const age = this.#ages.get(entry.id)!
      const isDue = isDueAt(age, time.ageMs)
      const due = isDue && !entry.deferred && (age.changed || age.begunMs === undefined)
      if (isDue) Object.assign(age, { dueMs: time.ageMs, changed: false, isOld: age.begunMs !== undefined })
      const isWritten = this.#rig.written.has(entry.id)
      if (due ? refusals === 0 : !owed) expect(isWritten).toBe(due)
      if (isWritten) entry.writtenHold = holdOf(entry)
      const isProgressWritten = age.isOld && age.moved && !entry.deferred && entry.written !== undefined
      if (isWritten || isProgressWritten) entry.written = structuredClone(entry.received)
      if (age.isOld) age.moved = false
    }
    expect(this.#rig.rewriteOwed && refusals === 0).toBe(false)
    await this.#endExhausted()
  }

  /** Those that the sweep looks at, in its order. */
  #lookedAt(): Entry[] {
    const { ageMs } = this.#rig.time
    const due = this.#running.filter(({ id }) => isDueAt(this.#ages.get(id)!, ageMs))
    const sorted = due.toSorted((a, b) => this.#ages.get(a.id)!.order - this.#ages.get(b.id)!.order)
    for (const { id } of sorted) {
      const age = this.#ages.get(id)!
      if (age.begunMs !== undefined) age.order = ++this.#looks
    }
    return sorted
  }

  async #plan({ account, tier, how }: Of<'plan'>): Promise<void> {
    this.#rig.ledger.funds.quota(account)
    this.#model.renew(account, this.#rig.now)
    await this.#rig.flush()
    const stored = (await this.#rig.other.ledger.state()).subscriptions.find(({ accountId }) => accountId === account)!
    const change =
      how === 'now'
        ? { tier, nextTier: null, renews: true }
        : how === 'next'
          ? { nextTier: tier, renews: true }
          : { renews: false }
    await this.#rig.other.ledger.setSubscription({ ...stored, ...change })
    Object.assign(this.#model.subscriptions.get(account)!, change)
    await this.#wait(0)
  }

  async #crash({ after, death, which, outcome }: Of<'crash'>): Promise<void> {
    await this.#wait(after)
    const entries = this.#pick(
      this.#running.filter(({ received }) => !isCounted(received, outcome)),
      which,
    )
    for (const entry of entries) this.#model.close(entry, outcome, this.#rig.now, this.#ageOf(entry))
    await this.#rig.die(death, () => {
      for (const { id } of entries) void this.#rig.ledger.close(this.#open.get(id)!, outcome).catch(() => {})
    })
    await this.#restart()
  }

  /** Another process takes over, once this one has ended what was under way. */
  async #takeOver(): Promise<void> {
    this.#rig.failures = 0
    await this.#wait(0)
    for (const entry of this.#running.filter(({ deferred }) => !deferred)) await this.#closeAll([entry], 'shutdown')
    await this.#rig.ledger.stop()
    await this.#rig.die('before', () => {})
    await this.#restart()
  }

  async #restart(): Promise<void> {
    this.#markDurable()
    this.#open.clear()
    this.#model.crash(this.#rig.now)
    await this.#rig.open()
    await this.#rig.flush()
    for (const open of this.#rig.ledger.deferred) this.#open.set(open.request.id, open)
    expect([...this.#open.keys()].toSorted()).toEqual(this.#running.map(({ id }) => id))
  }

  check(): Promise<void> {
    return expectLedger(this.#rig, this.#model)
  }

  async checkAll(): Promise<void> {
    this.#rig.failures = 0
    await this.#wait(0)
    await this.check()
    expectQuotas(this.#rig, this.#model)
    expect(
      (await audit(this.#rig.other, { overdraft: this.#model.overdraft, usdPerFlow: 32_830_000n })).first,
    ).toBeUndefined()
  }
}

/** True where Sluice counts tokens itself for this outcome, which takes a turn longer. */
const isCounted = (received: Received, outcome: Outcome): boolean =>
  Object.values(counted(received, outcome) ?? {}).includes(true)
