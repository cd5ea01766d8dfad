import { countTokens } from 'gpt-tokenizer/encoding/o200k_base'

/**
 * A thread of its own for `countTokens` of estimate.ts: the tokeniser takes half a second to load and milliseconds for
 * a long text, in which the server must go on.
 */

export type CountRequest = { id: number; texts: readonly string[] }
export type CountResponse = { id: number; tokens: number }

/**
 * Of more text than this the rest is taken to have as many tokens a character as the beginning: random letters cost 4
 * µs each.
 */
const COUNTED_CHARACTERS = 64_000

/** What is counted in one piece. */
const CHUNK = 4_096

/**
 * The tokeniser's time grows with the square of a run of letters or spaces, so that 200,000 of one letter would take it
 * two minutes: runs are cut into such pieces.
 */
const LONG_RUN = /(\S{128}|\s{128})/

const OPTIONS = { disallowedSpecial: new Set<string>() }

function count(texts: readonly string[]): number {
  let [length, counted, tokens] = [0, 0, 0]
  for (const text of texts) {
    length += text.length
    for (let at = 0; at < text.length && counted < COUNTED_CHARACTERS; at += CHUNK) {
      const chunk = text.slice(at, at + CHUNK)
      counted += chunk.length
      for (const piece of chunk.split(LONG_RUN)) tokens += countTokens(piece, OPTIONS)
    }
  }
  return counted === 0 ? 0 : Math.ceil((tokens * length) / counted)
}

declare const self: { onmessage: (event: MessageEvent<CountRequest>) => void; postMessage(answer: CountResponse): void }

self.onmessage = ({ data: { id, texts } }) => self.postMessage({ id, tokens: count(texts) })
