import type { GenerationEvent } from '../../generation/event.ts'
import type { Usage } from '../../generation/usage.ts'
import type { Plan } from './plan-finish.ts'
import type { PlannedPart } from './plan-parts.ts'

/** Words in one delta, unless `[[chunk]]` says otherwise. */
const WORDS_PER_DELTA = 3
/** Characters in one delta of tool arguments and of base64 images, which are not split into words. */
const ARGUMENT_CHARACTERS_PER_DELTA = 12
const IMAGE_CHARACTERS_PER_DELTA = 16_384

/** The plan as events. `usage` is sent twice, as providers do: input counts at the start, all counts at the end. */
export function* eventsOf(
  plan: Plan,
  id: string,
  model: string,
  usage: Partial<Usage> | undefined,
  wordsPerDelta = WORDS_PER_DELTA,
): Generator<GenerationEvent> {
  yield { type: 'start', id, model }
  if (usage !== undefined) {
    const { outputTokens: _, reasoningTokens: __, outputImageTokens: ___, ...inputUsage } = usage
    yield { type: 'usage', usage: inputUsage }
  }
  for (const [part, { head, text, signature }] of plan.parts.entries()) {
    yield { type: 'part-start', part, head }
    for (const delta of deltasOf(head, text, wordsPerDelta)) yield { type: 'part-delta', part, text: delta }
    yield { type: 'part-end', part, ...(signature === undefined ? {} : { signature }) }
  }
  if (usage !== undefined) yield { type: 'usage', usage }
  const { reason, stopSequence } = plan.finish
  yield { type: 'finish', reason, raw: reason, ...(stopSequence === undefined ? {} : { stopSequence }) }
}

/** One at a time: those of a long text would take several times its memory. */
function* deltasOf(head: PlannedPart['head'], text: string, wordsPerDelta: number): Generator<string> {
  if (head.type === 'image') yield* matches(text, new RegExp(`.{1,${IMAGE_CHARACTERS_PER_DELTA}}`, 'g'))
  else if (head.type === 'tool-call' && head.form === 'function')
    yield* matches(text, new RegExp(`[\\s\\S]{1,${ARGUMENT_CHARACTERS_PER_DELTA}}`, 'gu'))
  else
    yield* matches(text, new RegExp(`^\\s+(?:\\S+\\s*){0,${wordsPerDelta - 1}}|(?:\\S+\\s*){1,${wordsPerDelta}}`, 'g'))
}

function* matches(text: string, pattern: RegExp): Generator<string> {
  for (const [match] of text.matchAll(pattern)) yield match
}
