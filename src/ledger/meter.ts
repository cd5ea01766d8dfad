import type { FinishReason, GenerationEvent, PartHead } from '../generation/event.ts'
import { noUsage, promptTokens, type Usage } from '../generation/usage.ts'
import type { Loss } from '../protocols/translation.ts'
import type { AttemptRecord } from '../providers/attempt.ts'
import { OUTCOMES, type ChargePolicy, type Outcome } from './outcomes.ts'
import { CHARACTERS_PER_TOKEN, countTokens } from './estimate.ts'

/** Text beyond this is only counted in characters: a tokeniser's worst case must not stop the server. */
const TEXT_KEPT = 200_000

/** One open generation. It hears every event before the client does, and is closed exactly once, whatever ends it. */
export class Meter {
  readonly usage: Usage = noUsage()
  /** Who answers, under the provider's own name of the model. */
  served: { provider: string; model: string } | undefined
  /** What was lost between the protocols of client and provider; grows as the answer is written. */
  losses: readonly Loss[] = []
  /** Tries at providers, the last one last. */
  readonly tries: AttemptRecord[] = []
  finish: { reason: FinishReason; raw: string } | undefined
  ending: Outcome | undefined
  /** Whether any of the usage was counted here, because the provider did not say it. */
  estimated = false
  readonly #countInput: () => Promise<number>
  #startedAt = performance.now()
  #firstEventAt: number | undefined
  #endedAt: number | undefined
  /** Whether the provider told how much it put out. */
  #outputTold = false
  #text = ''
  #reasoning = ''
  #part: PartHead['type'] = 'text'
  #beyond = 0
  #forgiven = false
  #counting: Promise<Usage | undefined> = Promise.resolve(undefined)

  /** `ageMs`: how long ago its request came. */
  constructor(countInput: () => Promise<number>, ageMs = 0) {
    this.#countInput = countInput
    this.#startedAt -= Math.max(0, ageMs)
  }

  /** One that another process began, as it was last written. */
  static restored({ usage, served, tries, losses, ageMs, inputTokens }: Written): Meter {
    const meter = new Meter(() => Promise.resolve(inputTokens))
    Object.assign(meter.usage, usage)
    meter.served = served
    meter.losses = losses ?? []
    meter.tries.push(...tries)
    meter.#startedAt -= ageMs
    return meter
  }

  /** One that its process did not live to close. */
  static crashed(written: Written & { heard: Heard; times: Meter['times'] }): Meter {
    const meter = Meter.restored(written)
    const { heard, times } = written
    meter.ending = 'crashed'
    meter.#firstEventAt = heard.begun ? meter.#startedAt + times.latency : undefined
    meter.#endedAt = meter.#startedAt + times.latency + times.duration
    return meter
  }

  record(events: readonly GenerationEvent[]): void {
    if (this.ending !== undefined) return
    for (const event of events) {
      if (event.type === 'error') continue
      this.#firstEventAt ??= performance.now()
      switch (event.type) {
        // An answer that went on in the background is heard again, whole.
        case 'start':
          this.#text = this.#reasoning = ''
          this.#beyond = this.usage.images = 0
          break
        case 'part-start':
          this.#part = event.head.type
          if (this.#part === 'image') this.usage.images++
          break
        case 'part-delta':
          this.#keep(event.text)
          break
        case 'usage':
          this.#recordUsage(event.usage)
          break
        case 'finish':
          this.finish = { reason: event.reason, raw: event.raw }
          break
      }
    }
  }

  #recordUsage(usage: Partial<Usage>): void {
    // Images are counted as they are heard, which no usage tells.
    Object.assign(this.usage, usage, { images: this.usage.images })
    this.#outputTold ||= usage.outputTokens !== undefined
  }

  /** Media are not written in tokens of text: their size in tokens is the provider's to say. */
  #keep(text: string): void {
    if (this.#part === 'image' || this.#part === 'audio') return
    if (this.#text.length + this.#reasoning.length > TEXT_KEPT) this.#beyond += text.length
    else if (this.#part === 'reasoning') this.#reasoning += text
    else this.#text += text
  }

  /** The first ending counts; a later one is a no-op. */
  close(ending: Outcome): boolean {
    if (this.ending !== undefined) return false
    this.ending = ending
    this.#endedAt = performance.now()
    return true
  }

  /** Its client got nothing of it, through a failure of ours: it counts as failed before its first word. */
  voidCharge(): void {
    this.ending = 'failed'
    this.finish = undefined
    this.release()
  }

  /** However it ends and whatever was heard, it is charged nothing: a job that failed has no answer. */
  release(): void {
    this.#forgiven = true
  }

  /** Milliseconds from the request to the first event (to the end where none came), and from there to the end. */
  get times(): { latency: number; duration: number } {
    const end = this.#endedAt ?? performance.now()
    const first = this.#firstEventAt ?? end
    return { latency: Math.round(first - this.#startedAt), duration: Math.round(end - first) }
  }

  get ageMs(): number {
    return performance.now() - this.#startedAt
  }

  /**
   * What Sluice has to count: a side of which the provider said nothing in an answer that ended, and the output of one
   * that broke off.
   */
  get #uncounted(): { input: boolean; output: boolean } | undefined {
    if (this.estimated || (this.ending !== undefined && this.charge === 'nothing')) return undefined
    const final = this.finish !== undefined || (this.ending !== undefined && this.charge === 'reported')
    // No prompt has zero tokens: a provider that says so has nothing to say.
    const input = promptTokens(this.usage) === 0
    const output = !final || (!this.#outputTold && (this.#text !== '' || this.#reasoning !== ''))
    return input || output ? { input, output } : undefined
  }

  /** Whether a finished answer came without its usage. */
  get lacksUsage(): boolean {
    return this.finish !== undefined && this.#uncounted !== undefined
  }

  /**
   * Counts what the provider did not, for the answer that is ending or has ended; gives the usage then, and undefined
   * where its own word is enough.
   * Whoever asks while it counts waits for it too: a client that leaves meanwhile has had its answer.
   */
  count(): Promise<Usage | undefined> {
    const uncounted = this.#uncounted
    if (uncounted !== undefined) this.#counting = this.#count(uncounted)
    return this.#counting
  }

  async #count({ input, output }: { input: boolean; output: boolean }): Promise<Usage> {
    this.estimated = true
    if (input) this.usage.inputTokens = await this.#countInput()
    if (output) {
      // What the provider said in between may be more than what it let us hear.
      this.usage.outputTokens = Math.max(
        this.usage.outputTokens,
        (await countTokens([this.#text])) + Math.ceil(this.#beyond / CHARACTERS_PER_TOKEN),
      )
      this.usage.reasoningTokens = Math.max(this.usage.reasoningTokens, await countTokens([this.#reasoning]))
    }
    return this.usage
  }

  /** What the ending policy says of this generation, which is closed. */
  get charge(): ChargePolicy {
    if (this.#forgiven) return 'nothing'
    const charge = OUTCOMES[this.ending!][this.#firstEventAt === undefined ? 'before' : 'after']
    return charge === 'input' && !this.tries.some(({ sent }) => sent === true) ? 'nothing' : charge
  }

  /**
   * What a crash would leave behind: lengths, because counting the tokens of every open answer again and again would
   * cost more than it is worth.
   */
  get heard(): Heard {
    return {
      begun: this.#firstEventAt !== undefined,
      text: this.#text.length + this.#beyond,
      reasoning: this.#reasoning.length,
    }
  }
}

/**
 * `inputTokens`: what the input amounts to where the provider does not say it, as the request is not there any more.
 */
type Written = {
  usage: Usage
  served?: Meter['served']
  tries: AttemptRecord[]
  losses?: readonly Loss[]
  ageMs: number
  inputTokens: number
}

/** Characters heard so far. */
export type Heard = { begun: boolean; text: number; reasoning: number }
