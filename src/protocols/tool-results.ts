import { isDeepStrictEqual } from 'node:util'
import type { Part, ToolResultPart, Turn } from '../generation/request.ts'
import type { Translation } from './translation.ts'

/** The tool calls of the current assistant turn that results may follow. */
class OpenCalls {
  readonly #calls = new Map<string, { unanswered: number; last?: Part }>()

  get isEmpty(): boolean {
    return this.#calls.size === 0
  }

  begin(id: string): void {
    this.#calls.set(id, { unanswered: (this.#calls.get(id)?.unanswered ?? 0) + 1 })
  }

  /** `stray`: no such call is open, or it has another result; `repeated`: the same result came before. */
  answer(result: ToolResultPart): 'answered' | 'stray' | 'repeated' {
    const call = this.#calls.get(result.callId)
    if (call === undefined) return 'stray'
    const isFirst = call.unanswered > 0
    call.unanswered--
    if (!isFirst && isDeepStrictEqual(withoutPath(call.last), withoutPath(result))) return 'repeated'
    call.last = result
    return isFirst ? 'answered' : 'stray'
  }
}

const withoutPath = (part: Part | undefined): unknown =>
  part === undefined
    ? undefined
    : JSON.parse(JSON.stringify(part, (name, value: unknown) => (name === 'path' ? undefined : value)))

/**
 * The turns with tool results right after the calls that they answer, as providers require: else a call looks
 * unanswered whose result follows a user message. A result that came only after the model had continued stays where it
 * is, as does one without a call. A repeated result is left out: clients that resume a session send results twice, and
 * providers refuse that. Two assistant turns without results between them, of which the first has calls, become one:
 * their calls are answered together, and the name of the second is lost.
 */
export function orderToolResults(turns: readonly Turn[], translation: Translation): Turn[] {
  const order = new ResultOrder(translation)
  for (const turn of turns) order.add(turn)
  return order.turns()
}

class ResultOrder {
  readonly #translation: Translation
  readonly #ordered: Turn[] = []
  /** The calls of the last assistant turn. */
  #calls = new OpenCalls()
  /** Their results, in a turn right after it. */
  #results: Part[] = []

  constructor(translation: Translation) {
    this.#translation = translation
  }

  add(turn: Turn): void {
    const last = this.#ordered.at(-1)
    if (turn.role === 'assistant') return last?.role === 'assistant' ? this.#continue(last, turn) : this.#begin(turn)
    if (last?.role === 'assistant') {
      this.#results = []
      this.#ordered.push({ role: 'tool', parts: this.#results })
    }
    if (turn.role === 'tool') this.#addResults(turn)
    else this.#ordered.push(turn)
  }

  /** The turns; a place for results that got none is left out. */
  turns(): Turn[] {
    return this.#ordered.filter(({ role, parts }) => role !== 'tool' || parts.length > 0)
  }

  #begin(turn: Turn): void {
    this.#calls = new OpenCalls()
    this.#ordered.push(turn)
    this.#open(turn)
  }

  #continue(last: Turn, turn: Turn): void {
    if (this.#calls.isEmpty) this.#ordered.push(turn)
    else {
      if (turn.name !== undefined)
        this.#translation.lose('unsupported_field', this.#translation.at(turn, 'name'), 'it is one turn with another')
      this.#ordered[this.#ordered.length - 1] = { ...last, parts: [...last.parts, ...turn.parts] }
    }
    this.#open(turn)
  }

  #open({ parts }: Turn): void {
    for (const part of parts) if (part.type === 'tool-call') this.#calls.begin(part.id)
  }

  #addResults(turn: Turn): void {
    const strays: Part[] = []
    const isAway = this.#ordered.at(-1)?.parts !== this.#results
    for (const part of turn.parts) {
      const answer = part.type === 'tool-result' ? this.#calls.answer(part) : 'stray'
      if (answer === 'stray') strays.push(part)
      if (answer !== 'answered') continue
      this.#results.push(part)
      if (isAway)
        this.#translation.lose('turn_reordered', this.#translation.at(part), 'a result is sent right after its call')
    }
    if (strays.length > 0) this.#ordered.push({ ...turn, parts: strays })
  }
}
