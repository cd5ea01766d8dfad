import type { FinishReason, GenerationEvent, PartHead } from '../generation/event.ts'
import { completionTokens, noUsage, OUTPUT_BUCKETS, promptTokens, type Usage } from '../generation/usage.ts'
import type { ServiceClass } from '../generation/service-class.ts'
import type { Loss } from '../protocols/translation.ts'
import type { AttemptRecord } from '../providers/attempt-record.ts'
import { OUTCOMES, type ChargePolicy, type Outcome } from './outcomes.ts'
import { GrowingText } from './counted-text.ts'
import { countTokens } from './estimate.ts'
import type { OpenGeneration } from './open-generation.ts'

/**
 * The way in which unreported usage was counted: from the text received (`counted`), and from the time for what was
 * not received (`timed`), or from the lengths last written before a crash (`checkpoint`).
 */
export type Estimation = 'counted' | 'timed' | 'checkpoint'

/**
 * Tokens generated of which nothing was received. `kind`: the bucket in which they count; `limit`: the most output
 * tokens of the response.
 */
export type Unseen = { tokens: number; kind: 'outputTokens' | 'reasoningTokens'; limit: number }

/** Narrow characters for which a token is held: English has more of them in a token, and program text about as many. */
const NARROW_PER_TOKEN = 3
/** Wide characters (Greek, Cyrillic, Chinese ...), from this one on, have a token each at most. */
const FIRST_WIDE = 0x370

/**
 * A response for which no more can be held than `tokens`. It has so many `candidates`, and has generated `unseen`
 * tokens besides those received. `cause`: what was used up.
 */
type Exhaustion = { tokens: number; candidates: number; unseen: number; cause: string }

/** Called where a hold has to grow. `isInMidst`: its response certainly goes on. */
type Grow = (open: OpenGeneration, isInMidst: boolean) => void

/** The meter of one open generation: it records every event before the client receives it, and is closed once. */
export class Meter {
  readonly usage: Usage = noUsage()
  /** The provider that responds, and its own name of the model. */
  served: { provider: string; model: string; credential?: string } | undefined
  /** The model as it is named in the response; '' where it is not. */
  namedModel = ''
  /** The class of service in which it responds, where it says. */
  service: ServiceClass | undefined
  /** The model of its provider's image tool, where it says. */
  imageModel: string | undefined
  /** Losses of the translation between client and provider; more come while the response is written. */
  losses: readonly Loss[] = []
  /** Attempts at providers, the latest last. */
  readonly attempts: AttemptRecord[] = []
  /** Why no endpoint was asked: all are over their limits, for example. */
  unasked: Pick<AttemptRecord, 'error' | 'message'> | undefined
  finish: { reason: FinishReason; raw: string } | undefined
  outcome: Outcome | undefined
  /** Set where any of the usage was counted here because the provider did not report it. */
  estimation: Estimation | undefined
  readonly #countInput: () => Promise<number>
  readonly #choices: number
  #startedAt = performance.now()
  #firstEventAt: number | undefined
  /** The first text or tool call: reasoning comes before it. */
  #firstOutputAt: number | undefined
  #endedAt: number | undefined
  #leftAt: number | undefined
  #outputReported = false
  readonly #text = new GrowingText()
  readonly #reasoning = new GrowingText()
  #part: PartHead['type'] = 'text'
  /** The response has a part of reasoning, with or without a text. */
  showsReasoning = false
  #refusesInWords = false
  #chargeWaived = false
  /** Received more since it was last written as open, and since its progress was. */
  #changed = false
  #moved = false
  /** Received tokens at which the hold has to grow. */
  growAt = Infinity
  #open: OpenGeneration | undefined
  #grow: Grow | undefined
  /** Set where no more can be held for the response: it ends, unless it has. */
  exhausted: Exhaustion | undefined
  /** Called then. */
  onExhausted: (() => void) | undefined
  /** Characters received, each wide one as a token. */
  #narrow = 0
  /** Called when the first events come since its progress was written. */
  onMoved: (() => void) | undefined
  #counting: Promise<Usage> | undefined

  /** `ageMs`: milliseconds since its request arrived; `choices`: responses, of which only the first is read. */
  constructor(countInput: () => Promise<number>, ageMs = 0, choices = 1) {
    this.#countInput = countInput
    this.#choices = choices
    this.#startedAt -= Math.max(0, ageMs)
  }

  /** The meter of a generation that another process began, as it was last written. */
  static restored({ usage, served, tries, losses, service, imageModel, ageMs, inputTokens }: StoredMeter): Meter {
    const meter = new Meter(() => Promise.resolve(inputTokens))
    Object.assign(meter.usage, usage)
    meter.served = served
    meter.losses = losses ?? []
    meter.service = service
    meter.imageModel = imageModel
    meter.attempts.push(...tries)
    meter.#startedAt -= ageMs
    return meter
  }

  /** The meter of a generation whose process died before it was closed. */
  static crashed(stored: StoredMeter & { received: ReceivedText; times: Meter['times'] }): Meter {
    const meter = Meter.restored(stored)
    const { received, times } = stored
    meter.outcome = 'crashed'
    meter.#firstEventAt = received.begun ? meter.#startedAt + times.latency : undefined
    meter.#endedAt = meter.#startedAt + times.latency + times.duration
    return meter
  }

  record(events: readonly GenerationEvent[]): void {
    if (this.outcome !== undefined) return
    if (!this.#moved) {
      this.#moved = this.#changed = true
      this.onMoved?.()
    }
    for (const event of events) {
      if (event.type === 'error') continue
      this.#firstEventAt ??= performance.now()
      switch (event.type) {
        // A background response is read again from its beginning.
        case 'start':
          this.namedModel = event.model
          this.#text.clear()
          this.#reasoning.clear()
          this.#narrow = this.usage.images = 0
          this.#refusesInWords = false
          break
        case 'part-start':
          this.#part = event.head.type
          if (this.#part === 'image') this.usage.images++
          if (this.#part === 'reasoning') this.showsReasoning = true
          else this.#firstOutputAt ??= performance.now()
          if (this.#part === 'refusal') this.#refusesInWords = true
          break
        case 'part-delta':
          this.#appendText(event.text)
          break
        case 'usage':
          this.#recordUsage(event.usage, event.interim)
          if (event.service !== undefined) this.service = { ...this.service, ...event.service }
          this.imageModel = event.imageModel ?? this.imageModel
          break
        case 'finish':
          this.finish = { reason: event.reason, raw: event.raw }
          break
      }
    }
    if (this.receivedTokens >= this.growAt)
      this.#grow!(
        this.#open!,
        events.some(({ type }) => type === 'part-delta'),
      )
  }

  /** From `growAt` on, `grow` is called in the turn in which it is recorded. */
  follow(open: OpenGeneration, grow: Grow): void {
    this.#open = open
    this.#grow = grow
  }

  /** Tokens received so far, as reported or estimated: seldom too few. */
  get receivedTokens(): number {
    return Math.max(this.#narrow / NARROW_PER_TOKEN, completionTokens(this.usage))
  }

  exhaust(exhaustion: Exhaustion): void {
    this.exhausted = exhaustion
    this.onExhausted?.()
  }

  /** The finish reason for the record: the protocols end a refusal in words and one without in different ways. */
  get recordedFinish(): FinishReason | 'refusal-in-words' | undefined {
    const reason = this.finish?.reason
    return reason === 'refusal' && this.#refusesInWords ? 'refusal-in-words' : reason
  }

  /** True where it may have changed since the last call. Before the first event its attempts change unnoticed. */
  takeChanged(): boolean {
    const changed = this.#changed || this.#firstEventAt === undefined
    this.#changed = false
    return changed
  }

  /** True where it received more since the last call. */
  takeMoved(): boolean {
    const moved = this.#moved
    this.#moved = false
    return moved
  }

  /** Milliseconds since the first event; undefined before that. */
  get begunMs(): number | undefined {
    return this.#firstEventAt === undefined ? undefined : performance.now() - this.#firstEventAt
  }

  #recordUsage(usage: Partial<Usage>, interim = false): void {
    // Images are counted from their parts: no provider reports them.
    Object.assign(this.usage, usage, { images: this.usage.images })
    this.#outputReported ||= usage.outputTokens !== undefined && !interim
  }

  /** Media are not text: only the provider knows their tokens. */
  #appendText(text: string): void {
    if (this.#part === 'image' || this.#part === 'audio') return
    this.#narrow += text.charCodeAt(0) >= FIRST_WIDE ? text.length * NARROW_PER_TOKEN : text.length
    const kind = this.#part === 'reasoning' ? this.#reasoning : this.#text
    kind.append(text)
  }

  /** The first outcome counts; for a later one this gives false and changes nothing. */
  close(outcome: Outcome): boolean {
    if (this.outcome !== undefined) return false
    this.outcome = outcome
    this.#endedAt = performance.now()
    return true
  }

  /** Voids the charge of a response that was lost by us: it failed, and nothing is charged. */
  voidCharge(): void {
    this.outcome = 'failed'
    this.finish = undefined
    this.waiveCharge()
  }

  /** Nothing is charged, whatever the outcome and whatever was received. */
  waiveCharge(): void {
    this.#chargeWaived = true
  }

  /**
   * `latency`: milliseconds from the request to the first event, or to the end without one; `duration`: the rest. One
   * that broke off lasted at least 1: by that its record shows that it began.
   */
  get times(): { latency: number; duration: number } {
    const end = this.#endedAt ?? performance.now()
    const first = this.#firstEventAt ?? end
    const least = this.#firstEventAt === undefined || this.outcome === 'completed' ? 0 : 1
    return { latency: Math.round(first - this.#startedAt), duration: Math.max(least, Math.round(end - first)) }
  }

  get ageMs(): number {
    return performance.now() - this.#startedAt
  }

  /** Milliseconds that the latest attempt took, until now or its end. */
  get generatingMs(): number {
    return (this.#endedAt ?? performance.now()) - this.#attemptedAt
  }

  /** The client left: what it has to pay for was generated until now. */
  markLeft(): void {
    this.#leftAt ??= performance.now()
  }

  /** Milliseconds of the latest attempt until the client left, or its first output if that was before. */
  get unseenMs(): number {
    const left = (this.#leftAt ?? this.#endedAt ?? performance.now()) - this.#attemptedAt
    return Math.max(0, Math.min(left, this.firstOutputMs ?? left))
  }

  /** Milliseconds of the latest attempt until its first output that is not reasoning; undefined before that. */
  get firstOutputMs(): number | undefined {
    return this.#firstOutputAt === undefined ? undefined : this.#firstOutputAt - this.#attemptedAt
  }

  get #attemptedAt(): number {
    const { startedMs } = this.attempts.at(-1) ?? {}
    return startedMs === undefined
      ? this.attempts.slice(0, -1).reduce((at, { milliseconds }) => at + milliseconds, this.#startedAt)
      : this.#startedAt + startedMs
  }

  /**
   * The parts that have to be counted here: input or output that the provider did not report for a complete response,
   * and the output of one that was cut off.
   */
  get #unreported(): { input: boolean; output: boolean } | undefined {
    if (this.estimation !== undefined || (this.outcome !== undefined && this.charge === 'nothing')) return undefined
    const isComplete = this.finish !== undefined || (this.outcome !== undefined && this.charge === 'reported')
    // No prompt has zero tokens: a provider that says so reported nothing.
    const input = promptTokens(this.usage) === 0
    const output = !isComplete || (!this.#outputReported && this.#text.length + this.#reasoning.length > 0)
    return input || output ? { input, output } : undefined
  }

  /** True for a finished response without its usage. */
  get lacksUsage(): boolean {
    return this.finish !== undefined && this.#unreported !== undefined
  }

  /**
   * Counts what the provider did not report, for a response that is ending or has ended, and gives the usage; undefined
   * where the report suffices. Concurrent calls share one count: a client that leaves meanwhile has its response.
   * `unseen`: generated by a response that was cut off.
   */
  count(unseen?: Unseen): Promise<Usage> | undefined {
    const unreported = this.#unreported
    if (unreported !== undefined) this.#counting = this.#count(unreported, unseen)
    return this.#counting
  }

  async #count({ input, output }: { input: boolean; output: boolean }, unseen: Unseen | undefined): Promise<Usage> {
    this.estimation = 'counted'
    if (input) this.usage.inputTokens = await this.#countInput()
    if (output) {
      const candidates = Math.max(this.#choices, this.exhausted?.candidates ?? 1)
      const counted = (await countText(this.#text)) * candidates
      const reasoning = (await countText(this.#reasoning)) * this.#choices
      // An interim report of the provider may exceed what was received.
      this.usage.outputTokens = Math.max(this.usage.outputTokens, counted)
      this.usage.reasoningTokens = Math.max(this.usage.reasoningTokens, reasoning)
      if (this.finish === undefined) this.#addUnseen(unseen)
    }
    return this.usage
  }

  /** A response that is exhausted is not charged more than is held for it. */
  #addUnseen(unseen: Unseen | undefined): void {
    const { exhausted, usage } = this
    const { tokens, kind, limit } = unseen ?? {
      tokens: exhausted?.unseen ?? 0,
      kind: 'reasoningTokens',
      limit: Infinity,
    }
    const most = Math.min(limit, exhausted?.tokens ?? Infinity)
    const added = Math.min(tokens, most - completionTokens(usage))
    if (added > 0) {
      usage[kind] += added
      this.estimation = 'timed'
    }
    if (exhausted === undefined) return
    for (const bucket of OUTPUT_BUCKETS)
      usage[bucket] -= Math.min(usage[bucket], Math.max(0, completionTokens(usage) - exhausted.tokens))
  }

  /** The charge policy of this generation, which is closed. */
  get charge(): ChargePolicy {
    if (this.#chargeWaived) return 'nothing'
    const phase = this.#firstEventAt === undefined ? 'before' : 'after'
    const wasSent = phase === 'after' || this.attempts.some(({ sent }) => sent === true)
    const charge = OUTCOMES[this.outcome!][phase]
    return charge === 'generated' && !wasSent ? 'nothing' : charge
  }

  /** The state kept for the case of a crash: lengths, because counting open responses again and again is too slow. */
  get received(): ReceivedText {
    return {
      begun: this.#firstEventAt !== undefined,
      text: this.#text.length,
      reasoning: this.#reasoning.length,
    }
  }
}

const countText = (text: GrowingText): Promise<number> => countTokens([text.beginning], text.length)

/** `inputTokens`: an estimate for a provider that reports none, as the request itself is not kept. */
type StoredMeter = {
  usage: Usage
  served?: Meter['served']
  tries: AttemptRecord[]
  losses?: readonly Loss[]
  service?: ServiceClass | undefined
  imageModel?: string | undefined
  ageMs: number
  inputTokens: number
}

/** Characters of text and reasoning received so far; `begun`: any event was. */
export type ReceivedText = { begun: boolean; text: number; reasoning: number }
