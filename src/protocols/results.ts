import { isDeepStrictEqual } from 'node:util'
import type { Part, Turn } from '../generation/request.ts'

/**
 * The turns with tool results right behind the calls that they answer, as providers demand it: else a call looks unanswered whose result stands behind
 * a word of the user. A result that came only after the model had gone on stays where it is, as does one without a call. What says the same a second time
 * is left out: clients that take up a session again do that, and providers refuse it.
 */
export function resultsBehindCalls(turns: readonly Turn[]): Turn[] {
  const ordered: Turn[] = []
  let calls = new Set<string>()
  let results: Part[] = []
  for (const turn of turns) {
    if (turn.role === 'assistant') {
      if (ordered.at(-1)?.role !== 'assistant') calls = new Set()
      for (const part of turn.parts) if (part.type === 'tool-call') calls.add(part.id)
      ordered.push(turn)
      continue
    }
    if (ordered.at(-1)?.role === 'assistant') ordered.push({ role: 'tool', parts: results = [] })
    if (turn.role !== 'tool') {
      ordered.push(turn)
      continue
    }
    const strays: Part[] = []
    for (const part of turn.parts) {
      const mine = part.type === 'tool-result' && calls.has(part.callId)
      if (!mine || !results.some((one) => isDeepStrictEqual(one, part))) (mine ? results : strays).push(part)
    }
    if (strays.length > 0) ordered.push({ ...turn, parts: strays })
  }
  return ordered.filter(({ role, parts }) => role !== 'tool' || parts.length > 0)
}
