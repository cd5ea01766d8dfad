import type { GenerationRequest, Part } from '../../generation/request.ts'
import type { Usage } from '../../generation/usage.ts'
import type { Plan } from './plan-finish.ts'

/** A token of the sandbox: a word, or one other character. */
const TOKEN = /[\p{L}\p{N}_]+|[^\p{L}\p{N}_\s]/gu
/** Input tokens of any image, audio, video or file. */
const MEDIA_TOKENS = 100

export function countTokens(text: string): number {
  let count = 0
  for (const _ of text.matchAll(TOKEN)) count++
  return count
}

/** The first `limit` tokens of a text. */
export function cutTokens(text: string, limit: number): string {
  if (limit === Infinity) return text
  let count = 0
  for (const match of text.matchAll(TOKEN)) {
    count += 1
    if (count > limit) return text.slice(0, match.index).trimEnd()
  }
  return text
}

/** Input tokens of the whole request. */
export const promptTokens = ({ system, turns, tools }: GenerationRequest): number =>
  tokensOfParts(system) +
  turns.reduce((sum, turn) => sum + tokensOfParts(turn.parts), 0) +
  (tools.length === 0 ? 0 : countTokens(JSON.stringify(tools)))

const tokensOfParts = (parts: readonly Part[]): number => parts.reduce((sum, part) => sum + tokensOfPart(part), 0)

function tokensOfPart(part: Part): number {
  switch (part.type) {
    case 'text':
    case 'reasoning':
    case 'refusal':
      return countTokens(part.text)
    case 'tool-call':
      return countTokens(part.name) + countTokens(part.arguments)
    case 'tool-result':
      return tokensOfParts(part.content)
    case 'native':
      return countTokens(JSON.stringify(part.value) ?? '')
    default:
      return MEDIA_TOKENS
  }
}

/** Counted usage, with the buckets of `[[usage]]` in place of the counted ones. */
export function usageOf(request: GenerationRequest, plan: Plan, scripted: Partial<Usage> = {}): Partial<Usage> {
  const counted = { text: 0, reasoning: 0, image: 0 }
  for (const { head, text, tokens } of plan.parts)
    counted[head.type === 'reasoning' || head.type === 'image' ? head.type : 'text'] += tokens ?? countTokens(text)
  return {
    inputTokens: promptTokens(request),
    outputTokens: counted.text,
    reasoningTokens: counted.reasoning,
    outputImageTokens: counted.image,
    ...scripted,
  }
}
