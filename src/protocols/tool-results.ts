import { isDeepStrictEqual } from 'node:util'
import type { Part, ToolResultPart, Turn } from '../generation/request.ts'

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
 * their calls are answered together.
 */
export function orderToolResults(turns: readonly Turn[]): Turn[] {
  const ordered: Turn[] = []
  let calls = new OpenCalls()
  let results: Part[] = []
  for (const turn of turns) {
    const previous = ordered.at(-1)?.role
    if (turn.role === 'assistant') {
      if (previous !== 'assistant') calls = new OpenCalls()
      const first = calls.isEmpty ? undefined : ordered.pop()
      ordered.push(first === undefined ? turn : { ...first, parts: [...first.parts, ...turn.parts] })
      for (const part of turn.parts) if (part.type === 'tool-call') calls.begin(part.id)
      continue
    }
    if (previous === 'assistant') {
      results = []
      ordered.push({ role: 'tool', parts: results })
    }
    if (turn.role !== 'tool') {
      ordered.push(turn)
      continue
    }
    const strays: Part[] = []
    for (const part of turn.parts) {
      const answer = part.type === 'tool-result' ? calls.answer(part) : 'stray'
      if (answer === 'stray') strays.push(part)
      else if (answer === 'answered') results.push(part)
    }
    if (strays.length > 0) ordered.push({ ...turn, parts: strays })
  }
  return ordered.filter(({ role, parts }) => role !== 'tool' || parts.length > 0)
}
