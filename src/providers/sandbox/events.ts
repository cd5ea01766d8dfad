import type { GenerationEvent } from '../../generation/event.ts'
import type { Usage } from '../../generation/usage.ts'
import type { Plan, PlannedPart } from './plan.ts'

/** Words in one delta, unless the prompt says otherwise. */
const WORDS_PER_DELTA = 3
/** Characters in one delta of what has no words: arguments, and pictures in base64. */
const CHARACTERS_PER_DELTA = 12
const IMAGE_CHARACTERS_PER_DELTA = 16_384

/** The plan as events. `usage` is told twice, as providers do: the prompt's side at the start, all of it at the end. */
export function* eventsOf(
  plan: Plan,
  id: string,
  model: string,
  usage: Partial<Usage> | undefined,
  chunk = WORDS_PER_DELTA,
): Generator<GenerationEvent> {
  yield { type: 'start', id, model }
  if (usage !== undefined) {
    const { outputTokens: _, reasoningTokens: __, outputImageTokens: ___, ...prompt } = usage
    yield { type: 'usage', usage: prompt }
  }
  for (const [part, { head, text, signature }] of plan.parts.entries()) {
    yield { type: 'part-start', part, head }
    for (const delta of deltas(head, text, chunk)) yield { type: 'part-delta', part, text: delta }
    yield { type: 'part-end', part, ...(signature === undefined ? {} : { signature }) }
  }
  if (usage !== undefined) yield { type: 'usage', usage }
  const { reason, stopSequence } = plan.finish
  yield { type: 'finish', reason, raw: reason, ...(stopSequence === undefined ? {} : { stopSequence }) }
}

function deltas(head: PlannedPart['head'], text: string, chunk: number): string[] {
  if (head.type === 'tool-call' && head.form === 'function')
    return text.match(new RegExp(`[\\s\\S]{1,${CHARACTERS_PER_DELTA}}`, 'gu')) ?? []
  if (head.type === 'image') return text.match(new RegExp(`.{1,${IMAGE_CHARACTERS_PER_DELTA}}`, 'g')) ?? []
  const words = text.match(/^\s+|\S+\s*/g) ?? []
  const joined: string[] = []
  for (let i = 0; i < words.length; i += chunk) joined.push(words.slice(i, i + chunk).join(''))
  return joined
}
