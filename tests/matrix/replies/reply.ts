/** A provider's reply, independent of its protocol. */

export type ReplyCitation = { passage: string; url: string; title: string }

export type ReplyPart =
  | { type: 'text'; text: string; cite?: ReplyCitation }
  | { type: 'reasoning'; text: string; signature: string }
  /**
   * `args`: JSON text, or the start of it in a truncated response; free text if `free`. `name`: TOOL if absent.
   */
  | { type: 'call'; id: string; args: string; name?: string; namespace?: string; free?: true }
  | { type: 'refusal'; text: string }

export type ReplyFinish = 'stop' | 'stop-sequence' | 'length' | 'tool-calls' | 'refusal'

export type Reply = { parts: ReplyPart[]; finish: ReplyFinish; stopSequence?: string; usage: TokenCounts }

export type TokenCounts = { prompt: number; cached: number; written: number; completion: number; reasoning: number }

export const TOOL = 'find_place'

export type Json = Record<string, unknown>

/** A whole response, and the data of the frames of a streamed one. */
export type ProviderResponse = { whole: object; frames: (object | string)[] }

/** Two pieces of a text, as a stream may send it; empty pieces are left out. */
export const piecesOf = (text: string): string[] => {
  const middle = Math.ceil(text.length / 3)
  return [text.slice(0, middle), text.slice(middle)].filter((piece) => piece !== '')
}

export const textOf = (reply: Reply): string =>
  reply.parts.map((part) => (part.type === 'text' ? part.text : '')).join('')

/** The citations with their ranges in the whole text, in UTF-16 code units. */
export function citationsOf(reply: Reply): (ReplyCitation & { start: number; end: number })[] {
  let at = 0
  return reply.parts.flatMap((part) => {
    if (part.type !== 'text') return []
    const start = at
    at += part.text.length
    return part.cite === undefined ? [] : [{ ...part.cite, start, end: at }]
  })
}

/** OpenAI's offsets count code points. */
export const range = (text: string, { start, end }: { start: number; end: number }): object => ({
  start_index: [...text.slice(0, start)].length,
  end_index: [...text.slice(0, end)].length,
})
