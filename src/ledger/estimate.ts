import type { GenerationRequest, Part } from '../generation/request.ts'
import { MOST_TOKENS, noUsage, type Usage } from '../generation/usage.ts'

/** Tokens of media whose size in tokens only the provider knows: about what an image of a megapixel costs. */
const MEDIA_TOKENS = 1_000

/** Tokens a turn costs besides its text. */
const TURN_TOKENS = 4

/** Of more text than this the rest is taken to have as many tokens a character as the beginning: random letters cost 4 µs each. */
const COUNTED_CHARACTERS = 64_000

/** What is counted in one piece. */
const CHUNK = 4_096

/** The tokeniser's time grows with the square of a run of letters or spaces, so that 200,000 of one letter would take it two minutes: runs are cut into such pieces. */
const LONG_RUN = /(\S{128}|\s{128})/

/** Milliseconds of counting after which others have their turn. */
const TURN_MS = 10

/** Characters a token is taken to have where they are not counted. */
export const CHARACTERS_PER_TOKEN = 4

/** Texts -> their tokens together. The tokeniser is loaded at the first use, as it is large. */
export async function countTokens(texts: readonly string[]): Promise<number> {
  const { countTokens: count } = await import('gpt-tokenizer/encoding/o200k_base')
  const options = { disallowedSpecial: new Set<string>() }
  let [length, counted, tokens, since] = [0, 0, 0, performance.now()]
  for (const text of texts) {
    length += text.length
    for (let at = 0; at < text.length && counted < COUNTED_CHARACTERS; at += CHUNK) {
      const chunk = text.slice(at, at + CHUNK)
      counted += chunk.length
      for (const piece of chunk.split(LONG_RUN)) tokens += count(piece, options)
      if (performance.now() - since < TURN_MS) continue
      await new Promise((resolve) => setImmediate(resolve))
      since = performance.now()
    }
  }
  return counted === 0 ? 0 : Math.ceil((tokens * length) / counted)
}

/** Input tokens of a request, estimated: for providers that count none themselves. */
export async function estimateInputTokens(request: GenerationRequest): Promise<number> {
  const texts: string[] = request.tools.length === 0 ? [] : [JSON.stringify(request.tools)]
  let media = 0
  const weigh = (part: Part): void => {
    switch (part.type) {
      case 'text':
      case 'reasoning':
      case 'refusal': texts.push(part.text); break
      case 'tool-call': texts.push(part.name, part.arguments); break
      case 'tool-result': part.content.forEach(weigh); break
      case 'foreign': texts.push(JSON.stringify(part.value) ?? ''); break
      default:
        if (part.source.type === 'text') texts.push(part.source.text)
        else media++
    }
  }
  request.system.forEach(weigh)
  for (const turn of request.turns) turn.parts.forEach(weigh)
  return (await countTokens(texts)) + media * MEDIA_TOKENS + request.turns.length * TURN_TOKENS
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
    // More than that would not be believed of any answer.
    outputTokens: Math.min(MOST_TOKENS, (request.maxOutputTokens ?? modelLimit ?? ASSUMED_OUTPUT_TOKENS) * (request.candidates ?? 1)),
  }
}
