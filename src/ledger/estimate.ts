import type { GenerationRequest, Part } from '../generation/request.ts'
import { noUsage, type Usage } from '../generation/usage.ts'

/** Tokens of media whose size in tokens only the provider knows: about what an image of a megapixel costs. */
const MEDIA_TOKENS = 1_000

/** Tokens a turn costs besides its text. */
const TURN_TOKENS = 4

/** A run of one character is the worst case of the tokeniser: text beyond this many characters is counted at four a token. */
const EXACT_CHARACTERS = 200_000

/** Characters a token is taken to have where they are not counted exactly. */
export const CHARACTERS_PER_TOKEN = 4

/** Text -> tokens. The tokeniser is loaded at the first use, as it is large. */
export async function tokenCounter(): Promise<(text: string) => number> {
  const { countTokens } = await import('gpt-tokenizer/encoding/o200k_base')
  return (text) => countTokens(text.slice(0, EXACT_CHARACTERS), { disallowedSpecial: new Set() }) + Math.ceil(Math.max(0, text.length - EXACT_CHARACTERS) / CHARACTERS_PER_TOKEN)
}

/** Input tokens of a request, estimated: for providers that count none themselves. */
export async function estimateInputTokens(request: GenerationRequest): Promise<number> {
  const countText = await tokenCounter()
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

/** Bytes of JSON a token is taken to have at the least: English has about 4.5 a token, Chinese 3, digits and base64 2. */
const FEWEST_BYTES_PER_TOKEN = 2

/** Output of a model whose limit nobody said. */
const ASSUMED_OUTPUT_TOKENS = 32_768

/**
 * The most that a request may use, for its hold, in a time that does not grow with its text: `bodyBytes` without its media, every medium at
 * four times its usual size, and the output limit of the request, else the model's. Providers add prompts of their own and count media
 * in their own way, so a bill may still pass it; what is then missing is paid from what the account has, or written off.
 */
export function worstCase(request: GenerationRequest, bodyBytes: number, modelLimit: number | undefined): Usage {
  let [media, mediaBytes, audio] = [0, 0, 0]
  const weigh = (part: Part): void => {
    if (part.type === 'tool-result') part.content.forEach(weigh)
    if (!('source' in part)) return
    media++
    if (part.type === 'audio') audio++
    if (part.source.type === 'data') mediaBytes += part.source.data.length
  }
  for (const turn of request.turns) turn.parts.forEach(weigh)
  const text = Math.ceil(Math.max(0, bodyBytes - mediaBytes) / FEWEST_BYTES_PER_TOKEN)
  return {
    ...noUsage(),
    inputTokens: text + (media - audio) * 4 * MEDIA_TOKENS,
    inputAudioTokens: audio * 4 * MEDIA_TOKENS,
    outputTokens: (request.maxOutputTokens ?? modelLimit ?? ASSUMED_OUTPUT_TOKENS) * (request.candidates ?? 1),
  }
}
