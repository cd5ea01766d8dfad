import {
  asked,
  charged,
  COUNTED_INPUT,
  least,
  nothing,
  nothingReceived,
  outputOf,
  priced,
  rounded,
  Speed,
  sum,
  WORD,
  worstPriced,
} from './model-pricing.ts'
import {
  calendarStart,
  growthPoint,
  LENGTH,
  monthAfter,
  NAMES,
  type Entry,
  type Limit,
  type Policy,
  type Request,
  type Span,
  type Subscribed,
  type Tier,
  type WindowName,
} from './model-entries.ts'

/**
 * The expected behaviour of the ledger: a log of all admitted requests, from which every sum is computed anew. Nothing
 * is shared with the code under test. Amounts are nano-USD, flows micro-flows, instants Unix milliseconds.
 */
export class Model {
  log: Entry[] = []
  speed = new Speed()
  /** Credit and bonus posted so far; `unseen`: by another process, not loaded by the server yet. */
  readonly posted = new Map<string, Record<'credit' | 'bonus', { all: bigint; unseen: bigint }>>()
  readonly subscriptions = new Map<string, Subscribed>()
  readonly overdraft: bigint
  readonly policy: Policy
  readonly usdPerFlow: bigint
  readonly tiers: Record<string, Tier>

  constructor(overdraft: bigint, policy: Policy, usdPerFlow: bigint, tiers: Record<string, Tier>) {
    this.overdraft = overdraft
    this.policy = policy
    this.usdPerFlow = usdPerFlow
    this.tiers = tiers
  }

  /** The balance in the server's memory or in the book. */
  balance(account: string, kind: 'credit' | 'bonus', where: 'server' | 'book'): bigint {
    const { all, unseen } = this.posted.get(account)![kind]
    const paid = this.log
      .filter((entry) => entry.account === account && (where === 'server' || entry.durable))
      .map((entry) => entry.closed?.[kind] ?? 0n)
    return all - (where === 'server' ? unseen : 0n) - sum(paid)
  }

  held(account: string): bigint {
    return sum(
      this.log
        .filter((entry) => entry.account === account && !entry.subscribed && entry.closed === undefined)
        .map((entry) => entry.held),
    )
  }

  /** The amount that a hold may use. It excludes the overdraft, which is for bills above their holds. */
  available(account: string): bigint {
    return this.balance(account, 'credit', 'server') + this.balance(account, 'bonus', 'server') - this.held(account)
  }

  /** The subscription in the period of `now`. */
  renew(account: string, now: number): { at: number; start: number; end: number; tier: string } {
    const subscription = this.subscriptions.get(account)!
    const at = (subscription.seen = Math.max(subscription.seen, now))
    let passed = subscription.months
    while (monthAfter(subscription.anchor, passed + 1) <= at) passed++
    if (passed > subscription.months)
      Object.assign(subscription, {
        months: passed,
        tier: subscription.renews ? (subscription.nextTier ?? subscription.tier) : 'free',
        renews: true,
        nextTier: null,
      })
    return {
      at,
      start: monthAfter(subscription.anchor, passed),
      end: monthAfter(subscription.anchor, passed + 1),
      tier: subscription.tier,
    }
  }

  /** The window in force at `now`; undefined where none is. */
  window(account: string, name: WindowName, now: number): (Span & { used: bigint; held: bigint }) | undefined {
    const { at, start } = this.renew(account, now)
    const entries = this.log.filter((entry) => entry.account === account && entry.windows[name] !== undefined)
    const latest = entries
      .map((entry) => entry.windows[name]!)
      .reduce<Span | undefined>(
        (last, span) => (last === undefined || span.start > last.start ? span : last),
        undefined,
      )
    if (latest === undefined || (name === 'monthly' ? latest.start < start : latest.end <= at)) return undefined
    const within = entries.filter((entry) => entry.windows[name]!.start === latest.start)
    return {
      ...latest,
      used: sum(within.map(({ closed }) => (closed?.counted.has(name) === true ? closed.flows : 0n))),
      held: sum(within.map(({ closed, flows }) => (closed === undefined ? flows : 0n))),
    }
  }

  spending(key: string, limit: Limit, now: number): { since: number; spent: bigint; held: bigint } {
    const mine = this.log.filter((entry) => entry.key === key && entry.limit !== undefined)
    return this.spendingSince(key, Math.max(calendarStart(now, limit.period), ...mine.map((entry) => entry.since)))
  }

  /** The use of a key's limit in the period that began at `since`. */
  spendingSince(key: string, since: number): { since: number; spent: bigint; held: bigint } {
    const within = this.log.filter((entry) => entry.key === key && entry.limit !== undefined && entry.since === since)
    return {
      since,
      spent: sum(within.map(({ closed }) => closed?.bill ?? 0n)),
      held: sum(within.map(({ closed, budget }) => (closed === undefined ? budget : 0n))),
    }
  }

  get unwritten(): Entry[] {
    return this.log.filter((entry) => entry.closed !== undefined && !entry.durable)
  }

  flowsOf(list: bigint, penaltyTenths: number): bigint {
    return rounded(list * BigInt(penaltyTenths) * 1_000_000n, 10n * this.usdPerFlow)
  }

  /** `owed`: a write of open generations is pending. */
  admit(
    request: Request,
    now: number,
    owed: boolean,
  ): 'admitted' | 'insufficient_credit' | 'quota_exceeded' | 'store_unavailable' {
    if (owed || this.unwritten.length > 0) return 'store_unavailable'
    const discount = Math.max(request.discount, this.tiers[this.renew(request.account, now).tier]!.discount)
    const terms = { ...request, discount }
    const first = 2_048 * request.candidates
    const mayGrow = request.mayEnd || (request.subscribed && this.mayOvershoot(request))
    const isSmall = mayGrow && request.worst.outputTokens > first
    const { held, flows } = this.heldFor(terms, isSmall ? first : request.worst.outputTokens)
    const output = isSmall && held > 0n ? first : undefined
    const overshoots = output !== undefined && !request.mayEnd
    const budget = overshoots ? this.heldFor(terms, request.worst.outputTokens).held : held
    const spending = request.limit === undefined ? undefined : this.spending(request.key, request.limit, now)
    if (budget > 0n && spending !== undefined && spending.spent + spending.held + budget > request.limit!.amount)
      return 'insufficient_credit'
    const windows: Entry['windows'] = {}
    if (request.subscribed) {
      const { at, start, end, tier } = this.renew(request.account, now)
      for (const name of NAMES) {
        const current = this.window(request.account, name, now)
        if (flows > 0n && (current?.used ?? 0n) + (current?.held ?? 0n) + flows > this.tiers[tier]!.flows[name])
          return 'quota_exceeded'
        windows[name] =
          current === undefined
            ? name === 'monthly'
              ? { start, end }
              : { start: at, end: at + LENGTH[name] }
            : { start: current.start, end: current.end }
      }
    } else if (held > 0n && held > this.available(request.account)) return 'insufficient_credit'
    this.log.push({
      ...request,
      discount,
      held,
      flows,
      output,
      budget,
      growAt: output === undefined ? Infinity : growthPoint(request, output),
      unseen: 0,
      overshoots,
      createdAt: now,
      windows,
      since: spending?.since ?? 0,
      durable: false,
      received: nothingReceived(),
      countedInput: COUNTED_INPUT,
      deferred: false,
    })
    return 'admitted'
  }

  mayOvershoot({ account, subscribed }: Request): boolean {
    const others = this.log.filter((one) => one.account === account && one.closed === undefined && one.overshoots)
    return this.policy[subscribed ? 'subscription' : 'payAsYouGo'] === 'finish' && others.length < 10
  }

  /** The money and the flows of a request with so much output. */
  heldFor(
    { worst, rates, discount, subscribed, penaltyTenths }: Request,
    output: number,
  ): { held: bigint; flows: bigint } {
    const { list, bill } = worstPriced({ ...worst, outputTokens: output }, rates, discount)
    return subscribed ? { held: list, flows: this.flowsOf(list, penaltyTenths) } : { held: bill, flows: 0n }
  }

  /**
   * The hold of an answer under way is 2,048 tokens ahead of it, in steps of 512, as far as there is something left. A
   * response that `goesOn` beyond that is exhausted.
   */
  grow(entry: Entry, goesOn: boolean, now: number, ageMs: number): void {
    const { worst, received, candidates } = entry
    if (entry.output === undefined) return
    const text = ((received.text + received.reasoning) * WORD.length) / 3
    const tokens = Math.floor(candidates * (Math.max(outputOf(received.usage), text) + entry.unseen))
    if (tokens < entry.growAt) return
    const wanted = Math.min(worst.outputTokens, tokens + 2_048 * candidates)
    if (!this.roomFor(entry, wanted, now).funds && !entry.overshoots) entry.overshoots = this.mayOvershoot(entry)
    const fits = (output: number): boolean => {
      const { funds, key } = this.roomFor(entry, output, now)
      return key && (funds || entry.overshoots)
    }
    let output = wanted
    for (let low = entry.output; !fits(output) && output > low; ) {
      const middle = Math.ceil((low + output) / 2)
      if (middle === output) output = low
      else if (fits(middle)) low = middle
      else output = middle
    }
    const { held, flows } = this.heldFor(entry, output)
    if (entry.subscribed || !entry.overshoots) Object.assign(entry, { held, flows })
    if (entry.limit !== undefined && held > entry.budget) entry.budget = held
    entry.output = output
    entry.growAt = output === wanted ? growthPoint(entry, output) : Math.min(output, tokens + 512)
    if (output === wanted || tokens < output) return
    entry.growAt = goesOn ? Infinity : tokens
    const funds = entry.subscribed ? 'quota windows' : 'balance'
    const cause = this.roomFor(entry, output + 1, now).key ? funds : 'limit of the key'
    if (goesOn) entry.exhausted = { tokens: output, candidates, unseen: this.speed.hidden(received, ageMs), cause }
  }

  /** Reports whether a hold of so much output fits into what is left of the funds, and of the key's limit. */
  roomFor(entry: Entry, output: number, now: number): { funds: boolean; key: boolean } {
    const { held, flows } = this.heldFor(entry, output)
    const [more, missing] = [held - entry.held, held - entry.budget]
    const spending = entry.limit && this.spendingSince(entry.key, entry.since)
    return {
      funds: entry.subscribed
        ? flows <= entry.flows || flows - entry.flows <= this.flowsLeft(entry, now)
        : more <= 0n || more <= this.available(entry.account),
      key: spending === undefined || missing <= 0n || missing <= entry.limit!.amount - spending.spent - spending.held,
    }
  }

  /** The flows that are left in those windows of an answer which are the latest. */
  flowsLeft({ account, windows }: Entry, now: number): bigint {
    const { tier } = this.renew(account, now)
    return NAMES.map((name) => {
      const others = this.log.filter((entry) => entry.account === account && entry.windows[name] !== undefined)
      const start = Math.max(...others.map((entry) => entry.windows[name]!.start))
      if (windows[name]!.start !== start) return 1n << 62n
      const within = others.filter((entry) => entry.windows[name]!.start === start)
      const taken = within.map(({ closed, flows }) =>
        closed === undefined ? flows : closed.counted.has(name) ? closed.flows : 0n,
      )
      return this.tiers[tier]!.flows[name] - sum(taken)
    }).reduce(least)
  }

  /** `ageMs`: real time since it was admitted. */
  close(entry: Entry, outcome: string, now: number, ageMs: number, received = entry.received): void {
    if (entry.subscribed) this.renew(entry.account, now)
    const left = outcome === 'client-left' && !entry.deferred
    const hidden = left ? this.speed.hidden(received, ageMs) : (entry.exhausted?.unseen ?? 0)
    const limit = left ? entry.worst.outputTokens : Infinity
    const what = charged(received, outcome, entry.countedInput, hidden, limit, entry.exhausted)
    if (received.finished && what?.estimated !== true) this.speed.measure(received)
    const usage = what === undefined ? nothing() : asked(what.usage, entry.worst)
    const { list, bill } = what === undefined ? { list: 0n, bill: 0n } : priced(usage, entry.rates, entry.discount)
    const most = this.available(entry.account) + this.overdraft + (entry.subscribed ? 0n : entry.held)
    const paid = entry.subscribed ? 0n : least(bill, most < 0n ? 0n : most)
    const has = this.balance(entry.account, 'bonus', 'server')
    const bonus = least(paid, has < 0n ? 0n : has)
    const counted = new Set(
      NAMES.filter(
        (name) =>
          entry.windows[name] !== undefined &&
          this.log.every(
            (other) =>
              other.account !== entry.account || (other.windows[name]?.start ?? 0) <= entry.windows[name]!.start,
          ),
      ),
    )
    entry.closed = {
      outcome,
      begun: received.begun,
      usage,
      estimated: what?.estimated ?? false,
      bill: entry.subscribed ? list : bill,
      flows: entry.subscribed ? this.flowsOf(list, entry.penaltyTenths) : 0n,
      bonus,
      credit: paid - bonus,
      writtenOff: entry.subscribed ? 0n : bill - paid,
      counted,
    }
  }

  /** Memory is lost. What was written as open is settled by what was written, or stays open where it was deferred. */
  crash(now: number): void {
    this.speed = new Speed()
    this.log = this.log.filter((entry) => entry.durable || entry.written !== undefined)
    for (const { credit, bonus } of this.posted.values()) credit.unseen = bonus.unseen = 0n
    const left = this.log.filter((entry) => !entry.durable)
    for (const entry of left) {
      delete entry.closed
      delete entry.exhausted
      Object.assign(entry, entry.writtenHold, { output: undefined })
      // The request is lost, so its tokens cannot be counted.
      entry.countedInput = Math.ceil(entry.worst.inputTokens / 2)
      entry.received = nothingReceived()
    }
    for (const [account, subscription] of this.subscriptions) {
      const rows = this.log.flatMap((entry) =>
        entry.durable && entry.account === account
          ? [...entry.closed!.counted].map((name) => entry.windows[name]!.start)
          : [],
      )
      subscription.seen = Math.max(monthAfter(subscription.anchor, subscription.months), ...rows)
    }
    for (const entry of left.filter(({ deferred }) => !deferred)) {
      this.close(entry, 'crashed', now, 0, entry.written)
      entry.durable = true
    }
  }
}
