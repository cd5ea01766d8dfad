/**
 * What the ledger ought to do, in the plainest terms: a log of all that was admitted, from which every sum is added up
 * anew each time it is asked for.
 * Nothing of it is shared with the code that it judges. Amounts are nano-USD, flows micro-flows, instants Unix
 * milliseconds.
 */
export type Usage = Record<
  | 'inputTokens'
  | 'cacheReadTokens'
  | 'cacheWrite5mTokens'
  | 'cacheWrite1hTokens'
  | 'inputAudioTokens'
  | 'outputTokens'
  | 'reasoningTokens'
  | 'outputAudioTokens'
  | 'outputImageTokens'
  | 'webSearches'
  | 'images',
  number
>
type Rate = { base: bigint; tiers: { over: number; rate: bigint }[] }
export type Rates = Partial<
  Record<
    | 'prompt'
    | 'input_cache_read'
    | 'input_cache_write_5_min'
    | 'input_cache_write_1_h'
    | 'input_audio'
    | 'completion'
    | 'reasoning'
    | 'output_audio'
    | 'output_image'
    | 'web_search'
    | 'image'
    | 'request',
    Rate
  >
>
type WindowName = '5_hour' | '7_day' | 'monthly'
/** `discount` in basis points. */
export type Tier = { flows: Record<WindowName, bigint>; discount: number }
export type Limit = { amount: bigint; period: 'day' | 'week' | 'month' | null }
type Span = { start: number; end: number }
type Closed = {
  ending: string
  begun: boolean
  usage: Usage
  estimated: boolean
  bill: bigint
  flows: bigint
  bonus: bigint
  credit: bigint
  writtenOff: bigint
  counted: Set<WindowName>
}

export type Ask = {
  id: string
  account: string
  key: string
  subscribed: boolean
  limit?: Limit | undefined
  version: string
  rates: Rates | undefined
  discount: number
  penaltyTenths: number
  worst: Usage
}
/** `text` and `reasoning`: words heard. */
export type Heard = { begun: boolean; usage: Usage; finished: boolean; text: number; reasoning: number }
export type Entry = Ask & {
  held: bigint
  flows: bigint
  windows: Partial<Record<WindowName, Span>>
  since: number
  heard: Heard
  countedInput: number
  deferred: boolean
  kept?: Heard
  closed?: Closed
  durable: boolean
}

export const nothing = (): Usage => ({
  inputTokens: 0,
  cacheReadTokens: 0,
  cacheWrite5mTokens: 0,
  cacheWrite1hTokens: 0,
  inputAudioTokens: 0,
  outputTokens: 0,
  reasoningTokens: 0,
  outputAudioTokens: 0,
  outputImageTokens: 0,
  webSearches: 0,
  images: 0,
})
const silence = (): Heard => ({ begun: false, usage: nothing(), finished: false, text: 0, reasoning: 0 })
/** A word is this many characters and one token; a request's input, where it is counted, is so many tokens. */
export const [WORD, COUNTED_INPUT] = [' word', 37]

const HOUR = 3_600_000
const LENGTH = { '5_hour': 5 * HOUR, '7_day': 168 * HOUR }
const NAMES: WindowName[] = ['5_hour', '7_day', 'monthly']
const ITEMS: [keyof Usage, ...(keyof Rates)[]][] = [
  ['inputTokens', 'prompt'],
  ['cacheReadTokens', 'input_cache_read', 'prompt'],
  ['cacheWrite5mTokens', 'input_cache_write_5_min', 'prompt'],
  ['cacheWrite1hTokens', 'input_cache_write_1_h', 'input_cache_write_5_min', 'prompt'],
  ['inputAudioTokens', 'input_audio', 'prompt'],
  ['outputTokens', 'completion'],
  ['reasoningTokens', 'reasoning', 'completion'],
  ['outputAudioTokens', 'output_audio', 'completion'],
  ['outputImageTokens', 'output_image', 'completion'],
  ['webSearches', 'web_search'],
  ['images', 'image'],
]

const sum = (amounts: bigint[]): bigint => amounts.reduce((all, amount) => all + amount, 0n)
const least = (a: bigint, b: bigint): bigint => (a < b ? a : b)
/** Of numbers that are not negative. */
const rounded = (n: bigint, d: bigint): bigint =>
  2n * (n % d) < d || (2n * (n % d) === d && (n / d) % 2n === 0n) ? n / d : n / d + 1n
const prompt = (u: Usage): number =>
  u.inputTokens + u.cacheReadTokens + u.cacheWrite5mTokens + u.cacheWrite1hTokens + u.inputAudioTokens

/** List price, and the bill after the discount; every line is rounded once. */
export function priced(
  usage: Usage,
  rates: Rates | undefined,
  discount: number,
): { list: bigint; bill: bigint; lines: number } {
  if (rates === undefined) return { list: 0n, bill: 0n, lines: 0 }
  const quantities = new Map<string, number>(rates.request === undefined ? [] : [['request', 1]])
  for (const [bucket, ...items] of ITEMS) {
    const item = items.find((name) => rates[name] !== undefined) ?? items.at(-1)!
    if (usage[bucket] > 0) quantities.set(item, (quantities.get(item) ?? 0) + usage[bucket])
  }
  const lines = [...quantities].map(([item, quantity]) => {
    const { base = 0n, tiers = [] } = rates[item as keyof Rates] ?? {}
    const exact = BigInt(quantity) * (tiers.filter(({ over }) => prompt(usage) > over).pop()?.rate ?? base)
    const unit = ['web_search', 'image', 'request'].includes(item) ? 1n : 1_000_000n
    return { list: rounded(exact, unit), off: rounded(exact * BigInt(discount), unit * 10_000n) }
  })
  const list = sum(lines.map((line) => line.list))
  return { list, bill: list - sum(lines.map((line) => line.off)), lines: lines.length }
}

/** Of whatever kind the output will be. */
function worstPriced(worst: Usage, rates: Rates | undefined, discount: number): { list: bigint; bill: bigint } {
  const kinds = (['outputTokens', 'reasoningTokens', 'outputAudioTokens', 'outputImageTokens'] as const).map((kind) =>
    priced({ ...worst, outputTokens: 0, [kind]: worst.outputTokens }, rates, discount),
  )
  return kinds.reduce((most, one) => (one.list > most.list ? one : most))
}

/** What Sluice counts itself where this ending is charged. */
export function counted(
  { begun, usage, finished, text, reasoning }: Heard,
  ending: string,
): { input: boolean; output: boolean } | undefined {
  if (ending !== 'completed' && ending !== 'client-left' && !begun) return undefined
  return {
    input: prompt(usage) === 0,
    output: (!finished && ending !== 'completed') || (usage.outputTokens === 0 && text + reasoning > 0),
  }
}

/** What is charged when it ends so; undefined: nothing. `estimated`: not the provider's word alone. */
function charged(heard: Heard, ending: string, countedInput: number): { usage: Usage; estimated: boolean } | undefined {
  const { usage, text, reasoning } = heard
  const counts = counted(heard, ending)
  if (counts === undefined) return undefined
  const crashed = ending === 'crashed'
  const tokens = (words: number): number => (crashed ? Math.ceil((words * WORD.length) / 4) : words)
  const inputTokens = counts.input ? countedInput : usage.inputTokens
  const output =
    counts.output || crashed
      ? {
          outputTokens: Math.max(usage.outputTokens, tokens(text)),
          reasoningTokens: Math.max(usage.reasoningTokens, tokens(reasoning)),
        }
      : {}
  return { usage: { ...usage, inputTokens, ...output }, estimated: crashed || counts.input || counts.output }
}

const monthAfter = (anchor: number, months: number): number => {
  const from = new Date(anchor)
  const last = new Date(Date.UTC(from.getUTCFullYear(), from.getUTCMonth() + months + 1, 0)).getUTCDate()
  return new Date(anchor).setUTCFullYear(
    from.getUTCFullYear(),
    from.getUTCMonth() + months,
    Math.min(from.getUTCDate(), last),
  )
}

function calendarStart(now: number, period: Limit['period']): number {
  const at = new Date(now)
  if (period === null) return 0
  if (period === 'month') return Date.UTC(at.getUTCFullYear(), at.getUTCMonth(), 1)
  return Date.UTC(
    at.getUTCFullYear(),
    at.getUTCMonth(),
    at.getUTCDate() - (period === 'week' ? (at.getUTCDay() + 6) % 7 : 0),
  )
}

export type Subscribed = {
  anchor: number
  tier: string
  nextTier: string | null
  renews: boolean
  months: number
  seen: number
}

export class Model {
  log: Entry[] = []
  /** Bought and granted so far; `unseen`: by another process, and not told to the server yet. */
  readonly posted = new Map<string, Record<'credit' | 'bonus', { all: bigint; unseen: bigint }>>()
  readonly subscriptions = new Map<string, Subscribed>()
  readonly overdraft: bigint
  readonly usdPerFlow: bigint
  readonly tiers: Record<string, Tier>

  constructor(overdraft: bigint, usdPerFlow: bigint, tiers: Record<string, Tier>) {
    this.overdraft = overdraft
    this.usdPerFlow = usdPerFlow
    this.tiers = tiers
  }

  /** What the server believes, or what stands in the book. */
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

  /** Nothing is begun on the overdraft: it is for what an answer costs above its hold. */
  available(account: string): bigint {
    return this.balance(account, 'credit', 'server') + this.balance(account, 'bonus', 'server') - this.held(account)
  }

  /** The subscription in the period of now, as whatever asks for it finds it. */
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

  /** What counts in the window of now; undefined where it has not begun or is over. */
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
    const since = Math.max(calendarStart(now, limit.period), ...mine.map((entry) => entry.since))
    const within = mine.filter((entry) => entry.since === since)
    return {
      since,
      spent: sum(within.map(({ closed }) => closed?.bill ?? 0n)),
      held: sum(within.map(({ closed, held }) => (closed === undefined ? held : 0n))),
    }
  }

  get unwritten(): Entry[] {
    return this.log.filter((entry) => entry.closed !== undefined && !entry.durable)
  }

  flowsOf(list: bigint, penaltyTenths: number): bigint {
    return rounded(list * BigInt(penaltyTenths) * 1_000_000n, 10n * this.usdPerFlow)
  }

  /** `owed`: something else than a closing could not be written. */
  admit(
    ask: Ask,
    now: number,
    owed: boolean,
  ): 'admitted' | 'insufficient_credit' | 'quota_exceeded' | 'store_unavailable' {
    if (owed || this.unwritten.length > 0) return 'store_unavailable'
    const discount = Math.max(ask.discount, this.tiers[this.renew(ask.account, now).tier]!.discount)
    const { list, bill } = worstPriced(ask.worst, ask.rates, discount)
    const held = ask.subscribed ? list : bill
    const flows = ask.subscribed ? this.flowsOf(list, ask.penaltyTenths) : 0n
    const spending = ask.limit === undefined ? undefined : this.spending(ask.key, ask.limit, now)
    if (held > 0n && spending !== undefined && spending.spent + spending.held + held > ask.limit!.amount)
      return 'insufficient_credit'
    const windows: Entry['windows'] = {}
    if (ask.subscribed) {
      const { at, start, end, tier } = this.renew(ask.account, now)
      for (const name of NAMES) {
        const current = this.window(ask.account, name, now)
        if (flows > 0n && (current?.used ?? 0n) + (current?.held ?? 0n) + flows > this.tiers[tier]!.flows[name])
          return 'quota_exceeded'
        windows[name] =
          current === undefined
            ? name === 'monthly'
              ? { start, end }
              : { start: at, end: at + LENGTH[name] }
            : { start: current.start, end: current.end }
      }
    } else if (held > 0n && held > this.available(ask.account)) return 'insufficient_credit'
    this.log.push({
      ...ask,
      discount,
      held,
      flows,
      windows,
      since: spending?.since ?? 0,
      durable: false,
      heard: silence(),
      countedInput: COUNTED_INPUT,
      deferred: false,
    })
    return 'admitted'
  }

  close(entry: Entry, ending: string, now: number, heard = entry.heard): void {
    if (entry.subscribed) this.renew(entry.account, now)
    const what = charged(heard, ending, entry.countedInput)
    const usage = what?.usage ?? nothing()
    const { list, bill } = what === undefined ? { list: 0n, bill: 0n } : priced(usage, entry.rates, entry.discount)
    const left = this.available(entry.account) + this.overdraft + (entry.subscribed ? 0n : entry.held)
    const paid = entry.subscribed ? 0n : least(bill, left < 0n ? 0n : left)
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
      ending,
      begun: heard.begun,
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

  /**
   * What only memory had is gone; what was kept as open is closed from what was kept, or stays open where it was
   * deferred.
   */
  crash(now: number): void {
    this.log = this.log.filter((entry) => entry.durable || entry.kept !== undefined)
    for (const { credit, bonus } of this.posted.values()) credit.unseen = bonus.unseen = 0n
    const left = this.log.filter((entry) => !entry.durable)
    for (const entry of left) {
      delete entry.closed
      // The request is not there any more to be counted.
      entry.countedInput = Math.ceil(entry.worst.inputTokens / 2)
      entry.heard = silence()
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
      this.close(entry, 'crashed', now, entry.kept)
      entry.durable = true
    }
  }
}
