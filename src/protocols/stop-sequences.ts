import type { GenerationEvent } from '../generation/event.ts'
import type { GenerationRequest, TokenLogprob } from '../generation/request.ts'
import type { Transform } from './transforms.ts'
import type { Translation } from './translation.ts'

/** Ends a response at the stop sequences of its client, also at those that the provider was not sent. */
export function endAtStopSequences(sequences: readonly string[]): Transform {
  const filter = new StopFilter(sequences)
  return (events) => filter.apply(events)
}

/** The request without empty stop sequences: they end no response, and Google refuses them. */
export function withoutEmptyStops(request: GenerationRequest, report: () => void): GenerationRequest {
  const { stop } = request.sampling
  if (stop?.includes('') !== true) return request
  report()
  return { ...request, sampling: { ...request.sampling, stop: stop.filter((sequence) => sequence !== '') } }
}

/** Reports stop sequences that the provider does not accept. `reason`: its limit. */
export const loseStopSequences = (translation: Translation, reason: string): void =>
  translation.lose(
    'stop_applied_here',
    translation.setting('stop'),
    `${reason}; Sluice ends the response there, and tokens after it are billed`,
  )

type PartDelta = GenerationEvent & { type: 'part-delta' }

/**
 * Passes events up to the first stop sequence, without the sequence itself, as providers do. Of the events after it
 * only usage and finish are passed.
 */
class StopFilter {
  readonly #sequences: readonly string[]
  /** Text of the open part that may be the beginning of a stop sequence. */
  #held = ''
  /** Log probabilities of tokens that were not passed, and where in the held text the first of them begins. */
  #tokens: TokenLogprob[] = []
  #tokensAt = 0
  #inText = false
  /** Length of the passed text of the open part. */
  #passedLength = 0
  /** The stop sequence that was found. */
  #found: string | undefined
  /** Number of the next passed part. */
  #next = 0
  /** The open part is dropped. */
  #skips = false

  constructor(sequences: readonly string[]) {
    this.#sequences = sequences
  }

  apply(events: readonly GenerationEvent[]): GenerationEvent[] {
    return events.flatMap((event) => this.#applyOne(event))
  }

  #applyOne(event: GenerationEvent): GenerationEvent[] {
    switch (event.type) {
      case 'part-start':
        return this.#begin(event)
      case 'part-delta':
        return this.#skips ? [] : this.#inText ? this.#append(event) : [{ ...event, part: this.#next - 1 }]
      case 'part-end':
        return this.#end(event)
      case 'finish':
        return this.#found === undefined
          ? [event]
          : [{ type: 'finish', reason: 'stop-sequence', raw: event.raw, stopSequence: this.#found }]
      default:
        return [event]
    }
  }

  #begin(event: GenerationEvent & { type: 'part-start' }): GenerationEvent[] {
    const { head } = event
    // After the stop sequence only citations of the text before it are passed.
    this.#skips =
      this.#found !== undefined && !(head.type === 'citation' && (head.citation.end ?? 0) <= this.#passedLength)
    if (this.#skips) return []
    this.#inText = head.type === 'text'
    if (this.#inText) this.#passedLength = 0
    return [{ ...event, part: this.#next++ }]
  }

  #append({ text: added, logprobs = [] }: PartDelta): GenerationEvent[] {
    const text = this.#held + added
    if (this.#tokens.length === 0) this.#tokensAt = this.#held.length
    for (const logprob of logprobs) this.#tokens.push(logprob)
    const matches = this.#sequences
      .map((sequence) => ({ sequence, at: text.indexOf(sequence) }))
      .filter(({ at }) => at >= 0)
    // The match that ends first, so that the result does not depend on how the text is split into deltas.
    const first = matches.toSorted((a, b) => a.at + a.sequence.length - b.at - b.sequence.length || a.at - b.at)[0]
    if (first === undefined) {
      const passed = text.length - this.#possibleBeginning(text)
      this.#held = text.slice(passed)
      return this.#pass(text.slice(0, passed))
    }
    this.#held = ''
    const passed = first.at === 0 ? [] : this.#passTokens(text.slice(0, first.at), this.#tokensBefore(first.at))
    this.#found = first.sequence
    this.#skips = true
    return [...passed, { type: 'part-end', part: this.#next - 1 }]
  }

  /** Passes text with its tokens; where nothing is held, with all tokens. */
  #pass(text: string): GenerationEvent[] {
    return this.#passTokens(text, this.#held === '' ? this.#tokens.splice(0) : this.#tokensBefore(text.length))
  }

  /** Takes the tokens that begin before this position. */
  #tokensBefore(end: number): TokenLogprob[] {
    let at = this.#tokensAt
    let count = 0
    while (count < this.#tokens.length && at < end) at += this.#tokens[count++]!.token.length
    this.#tokensAt = at - end
    return this.#tokens.splice(0, count)
  }

  #passTokens(text: string, logprobs: TokenLogprob[]): GenerationEvent[] {
    this.#passedLength += text.length
    return text === '' && logprobs.length === 0
      ? []
      : [{ type: 'part-delta', part: this.#next - 1, text, ...(logprobs.length === 0 ? {} : { logprobs }) }]
  }

  /** Number of characters at the end of the text that may be the beginning of a stop sequence. */
  #possibleBeginning(text: string): number {
    const longest = this.#sequences.reduce((max, { length }) => Math.max(max, length), 0) - 1
    for (let length = Math.min(longest, text.length); length > 0; length--) {
      const end = text.slice(text.length - length)
      if (this.#sequences.some((sequence) => sequence.startsWith(end))) return length
    }
    return 0
  }

  #end(event: GenerationEvent & { type: 'part-end' }): GenerationEvent[] {
    if (this.#skips) return []
    const text = this.#held
    this.#held = ''
    const held = this.#inText ? this.#pass(text) : []
    this.#inText = false
    return [...held, { ...event, part: this.#next - 1 }]
  }
}
