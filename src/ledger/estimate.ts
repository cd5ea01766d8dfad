import type { GenerationRequest, Part } from '../generation/request.ts'

/** Tokens of media whose size in tokens only the provider knows: about what an image of a megapixel costs. */
const MEDIA_TOKENS = 1_000

/** Tokens a turn costs besides its text. */
const TURN_TOKENS = 4

/** A run of one character is the worst case of the tokeniser: text beyond this many characters is counted at four a token. */
const EXACT_CHARACTERS = 200_000

/** Input tokens of a request, estimated: for providers that count none themselves. The tokeniser is loaded at the first use, as it is large. */
export async function estimateInputTokens(request: GenerationRequest): Promise<number> {
  const { countTokens } = await import('gpt-tokenizer/encoding/o200k_base')
  const countText = (text: string): number =>
    countTokens(text.slice(0, EXACT_CHARACTERS), { disallowedSpecial: new Set() }) + Math.ceil(Math.max(0, text.length - EXACT_CHARACTERS) / 4)
  const countPart = (part: Part): number => {
    switch (part.type) {
      case 'text':
      case 'reasoning':
      case 'refusal': return countText(part.text)
      case 'tool-call': return countText(part.name) + countText(part.arguments)
      case 'tool-result': return part.content.reduce((sum, inner) => sum + countPart(inner), 0)
      case 'foreign': return countText(JSON.stringify(part.value) ?? '')
      default: return part.source.type === 'text' ? countText(part.source.text) : MEDIA_TOKENS
    }
  }
  const parts = [...request.system, ...request.turns.flatMap((turn) => turn.parts)]
  const tools = request.tools.length === 0 ? 0 : countText(JSON.stringify(request.tools))
  return parts.reduce((sum, part) => sum + countPart(part), 0) + request.turns.length * TURN_TOKENS + tools
}
