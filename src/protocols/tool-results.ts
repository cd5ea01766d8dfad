import { isDeepStrictEqual } from 'node:util'
import type { Part, Turn } from '../generation/request.ts'

/**
 * The turns with tool results right behind the calls that they answer, as providers demand it: else a call looks
 * unanswered whose result stands behind
 * a word of the user. A result that came only after the model had gone on stays where it is, as does one without a
 * call. What says the same a second time
 * is left out: clients that take up a session again do that, and providers refuse it. Two assistant turns without
 * results between them, of which the first
 * calls, are one: their calls are answered together.
 */
export function resultsBehindCalls(turns: readonly Turn[]): Turn[] {
  const ordered: Turn[] = []
  /** Of each id, the calls that wait for a result, and the last one that came. */
  let calls = new Map<string, { waiting: number; last?: Part }>()
  let results: Part[] = []
  let said: Part[] = []
  for (const turn of turns) {
    if (turn.role === 'assistant') {
      if (ordered.at(-1)?.role !== 'assistant') calls = new Map()
      if (calls.size === 0) ordered.push({ ...turn, parts: (said = []) })
      for (const part of turn.parts) said.push(part)
      for (const part of turn.parts)
        if (part.type === 'tool-call') calls.set(part.id, { waiting: (calls.get(part.id)?.waiting ?? 0) + 1 })
      continue
    }
    if (ordered.at(-1)?.role === 'assistant') ordered.push({ role: 'tool', parts: (results = []) })
    if (turn.role !== 'tool') {
      ordered.push(turn)
      continue
    }
    const strays: Part[] = []
    for (const part of turn.parts) {
      const call = part.type === 'tool-result' ? calls.get(part.callId) : undefined
      if (call === undefined) strays.push(part)
      else if (call.waiting-- > 0 || !isDeepStrictEqual(call.last, part)) results.push((call.last = part))
    }
    if (strays.length > 0) ordered.push({ ...turn, parts: strays })
  }
  return ordered.filter(({ role, parts }) => role !== 'tool' || parts.length > 0)
}
