import type { Usage } from '../../generation/usage.ts'
import type { GenerationRequest, Part } from '../../generation/request.ts'
import type { Plan } from './plan.ts'

/** A token of the sandbox: a word, or one other sign. */
const TOKEN = /[\p{L}\p{N}_]+|[^\p{L}\p{N}_\s]/gu
/** What any picture, sound or file counts. */
const MEDIA_TOKENS = 100

export function countTokens(text: string): number {
  let count = 0
  for (const _ of text.matchAll(TOKEN)) count++
  return count
}

/** The text up to its `limit`th token. */
export function cutTokens(text: string, limit: number): string {
  if (limit === Infinity) return text
  let count = 0
  for (const match of text.matchAll(TOKEN)) if (++count > limit) return text.slice(0, match.index).trimEnd()
  return text
}

/** Everything the model has to read. */
export const promptTokens = ({ system, turns, tools }: GenerationRequest): number =>
  partsTokens(system) +
  turns.reduce((sum, turn) => sum + partsTokens(turn.parts), 0) +
  (tools.length === 0 ? 0 : countTokens(JSON.stringify(tools)))

const partsTokens = (parts: readonly Part[]): number => parts.reduce((sum, part) => sum + partTokens(part), 0)

function partTokens(part: Part): number {
  switch (part.type) {
    case 'text':
    case 'reasoning':
    case 'refusal':
      return countTokens(part.text)
    case 'tool-call':
      return countTokens(part.name) + countTokens(part.arguments)
    case 'tool-result':
      return partsTokens(part.content)
    case 'native':
      return countTokens(JSON.stringify(part.value) ?? '')
    default:
      return MEDIA_TOKENS
  }
}

/** Usage by counting, unless the prompt says what it is to be. */
export function usageOf(request: GenerationRequest, plan: Plan, said: Partial<Usage> = {}): Partial<Usage> {
  const counted = { text: 0, reasoning: 0, image: 0 }
  for (const {
    head: { type },
    text,
    tokens,
  } of plan.parts)
    counted[type === 'reasoning' || type === 'image' ? type : 'text'] += tokens ?? countTokens(text)
  return {
    inputTokens: promptTokens(request),
    outputTokens: counted.text,
    reasoningTokens: counted.reasoning,
    outputImageTokens: counted.image,
    ...said,
  }
}
