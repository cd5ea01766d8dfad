import { countTokens } from 'gpt-tokenizer/encoding/o200k_base'
import { CHUNK, COUNTED_CHARACTERS } from './counted-text.ts'

/**
 * The worker behind `countTokens` of estimate.ts: the tokeniser takes half a second to load and milliseconds for a long
 * text, during which the event loop must not stop.
 */

/** `texts`: as far as they are counted. `length`: that of the whole texts. */
export type CountRequest = { id: number; texts: readonly string[]; length: number }
export type CountResponse = { id: number; tokens: number }

/**
 * Splits long runs of letters or spaces, because the tokeniser's time is quadratic in their length: 200,000 times one
 * letter would take two minutes.
 */
const LONG_RUN = /(\S{128}|\s{128})/

const OPTIONS = { disallowedSpecial: new Set<string>() }

function count({ texts, length }: CountRequest): number {
  let [counted, tokens] = [0, 0]
  for (const text of texts) {
    for (let start = 0; start < text.length && counted < COUNTED_CHARACTERS; start += CHUNK) {
      const chunk = text.slice(start, start + CHUNK)
      counted += chunk.length
      for (const piece of chunk.split(LONG_RUN)) tokens += countTokens(piece, OPTIONS)
    }
  }
  return counted === 0 ? 0 : Math.ceil((tokens * length) / counted)
}

declare const self: { onmessage: (event: MessageEvent<CountRequest>) => void; postMessage(answer: CountResponse): void }

self.onmessage = ({ data }) => self.postMessage({ id: data.id, tokens: count(data) })
