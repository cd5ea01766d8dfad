import type { GenerationEvent } from '../generation/event.ts'
import type { TransformFactory } from './transforms.ts'
import type { Translation } from './translation.ts'

/** Ends a response at the stop sequences of its client, also at those that the provider was not sent. */
export const endAtStopSequences =
  (sequences: readonly string[]): TransformFactory =>
  () => {
    const cut = new StopCut(sequences)
    return (events) => cut.pass(events)
  }

/** Reports stop sequences that the provider is not sent. `reason`: what it accepts. */
export const loseStopSequences = (translation: Translation, reason: string): void =>
  translation.lose(
    'stop_applied_here',
    translation.setting('stop'),
    `${reason}; Sluice ends the response there, and tokens after it are billed`,
  )

/**
 * Events up to the first stop sequence of a provider that writes on. The sequence is left out as other providers do; of
 * what follows only the usage and the end are told.
 */
class StopCut {
  readonly #sequences: readonly string[]
  /** Text of the open part that may be the beginning of a sequence. */
  #held = ''
  #inText = false
  /** Length of the open text as far as it was told. */
  #told = 0
  #hit: string | undefined
  /** The part after the last one that was told. */
  #next = 0
  /** Whether the open part is one of those that are not told any more. */
  #skips = false

  constructor(sequences: readonly string[]) {
    this.#sequences = sequences.filter((sequence) => sequence !== '')
  }

  pass(events: readonly GenerationEvent[]): GenerationEvent[] {
    return events.flatMap((event) => this.#one(event))
  }

  #one(event: GenerationEvent): GenerationEvent[] {
    switch (event.type) {
      case 'part-start':
        return this.#begin(event)
      case 'part-delta':
        return this.#skips ? [] : this.#inText ? this.#append(event) : [{ ...event, part: this.#next - 1 }]
      case 'part-end':
        return this.#end(event)
      case 'finish':
        return this.#hit === undefined
          ? [event]
          : [{ type: 'finish', reason: 'stop-sequence', raw: event.raw, stopSequence: this.#hit }]
      default:
        return [event]
    }
  }

  #begin(event: GenerationEvent & { type: 'part-start' }): GenerationEvent[] {
    const { head } = event
    // Behind the cut there is room only for what the text before it rests on.
    this.#skips = this.#hit !== undefined && !(head.type === 'citation' && (head.citation.end ?? 0) <= this.#told)
    if (this.#skips) return []
    this.#inText = head.type === 'text'
    if (this.#inText) this.#told = 0
    return [{ ...event, part: this.#next++ }]
  }

  #append(event: GenerationEvent & { type: 'part-delta' }): GenerationEvent[] {
    const text = this.#held + event.text
    const hits = this.#sequences
      .map((sequence) => ({ sequence, at: text.indexOf(sequence) }))
      .filter(({ at }) => at >= 0)
    // The one that is whole first, so that it does not matter in which pieces the text comes.
    const first = hits.toSorted((a, b) => a.at + a.sequence.length - b.at - b.sequence.length || a.at - b.at)[0]
    if (first === undefined) {
      const kept = this.#beginningAtEnd(text)
      this.#held = text.slice(text.length - kept)
      const { type, logprobs } = event
      return this.#tell(type, text.slice(0, text.length - kept), logprobs)
    }
    this.#held = ''
    const told = this.#tell(event.type, text.slice(0, first.at))
    this.#hit = first.sequence
    this.#inText = false
    this.#skips = true
    return [...told, { type: 'part-end', part: this.#next - 1 }]
  }

  #tell(
    type: 'part-delta',
    text: string,
    logprobs?: (GenerationEvent & { type: 'part-delta' })['logprobs'],
  ): GenerationEvent[] {
    this.#told += text.length
    return text === '' && logprobs === undefined
      ? []
      : [{ type, part: this.#next - 1, text, ...(logprobs === undefined ? {} : { logprobs }) }]
  }

  /** How many characters at the end of the text may be the beginning of a sequence. */
  #beginningAtEnd(text: string): number {
    const longest = this.#sequences.reduce((most, { length }) => Math.max(most, length), 0) - 1
    for (let length = Math.min(longest, text.length); length > 0; length--) {
      const end = text.slice(text.length - length)
      if (this.#sequences.some((sequence) => sequence.startsWith(end))) return length
    }
    return 0
  }

  #end(event: GenerationEvent & { type: 'part-end' }): GenerationEvent[] {
    if (this.#skips) return []
    const held = this.#inText ? this.#tell('part-delta', this.#held) : []
    this.#held = ''
    this.#inText = false
    return [...held, { ...event, part: this.#next - 1 }]
  }
}
