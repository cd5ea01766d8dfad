import { expect } from 'bun:test'
import fc from 'fast-check'
import { fold, type GenerationEvent } from '../../src/generation/event.ts'
import type { ConversationName } from '../../src/generation/request.ts'
import type { Frame } from '../../src/http/frames.ts'
import { protocols } from '../../src/protocols/index.ts'
import type { Loss } from '../../src/protocols/translation.ts'
import { framed } from '../gateway/scripted.ts'
import { eventsFor, readerFor } from '../translating.ts'
import type { Reply } from './provider-replies.ts'
import { type Citation, readWireResponse } from './wire-reader.ts'
import { contextOf, type Json } from './routes.ts'

/** Responses that cite sources, and what clients read of them. */

/** A response of a provider: the whole body, and the data of its stream. */
export type Response = { whole: object; frames: (object | string)[] }

export const framesOf = (data: (object | string)[]): Frame[] =>
  framed(data)
    .split('\n\n')
    .filter((block) => block.startsWith('data: ') || block.includes('\ndata: '))
    .map((block) => ({ data: block.slice(block.indexOf('data: ') + 6) }))

/** The events of a provider's response. */
export function eventsOf(
  provider: ConversationName,
  { whole, frames }: Response,
  stream: boolean,
  client: ConversationName,
): GenerationEvent[] {
  const { request } = contextOf(client)
  if (!stream) return eventsFor(provider, JSON.parse(JSON.stringify(whole)), {}, request)
  const reader = readerFor(provider, {}, request)
  return [...framesOf(frames).flatMap((frame) => reader.read(frame)), ...reader.end()]
}

export type Written = { text: string; losses: Loss[] }

/** The response as the client receives it. */
export function writeTo(client: ConversationName, events: GenerationEvent[], stream: boolean): Written {
  const context = contextOf(client)
  const { losses } = context.losses
  if (!stream) return { text: JSON.stringify(protocols[client].serve.writeResponse(fold(events), context)), losses }
  const writer = protocols[client].serve.writer(context)
  const text = events
    .flatMap((event) => writer.write(event))
    .map(({ data }) => `data: ${data}\n\n`)
    .join('')
  return { text, losses }
}

/**
 * A text as a client of messages has it: a block of white space is put before the text that follows it, or left out
 * where none does.
 */
export const inBlocks = (text: string): string => text.replace(/\s+/g, '')

/** Citations of passages that a client of messages has. */
export const citedInBlocks = (citations: readonly Citation[]): Citation[] =>
  citations
    .map((citation) => ({ ...citation, passage: inBlocks(citation.passage) }))
    .filter(({ passage }) => passage !== '')

/**
 * The sources of a client of messages in a stream are those of the provider. A citation of white space is one of the
 * text beside it.
 */
export function expectSources(found: readonly Citation[], from: readonly Citation[]): void {
  const urls = new Set(urlsOf(citedInBlocks(found)))
  expect([...urls].toSorted()).toEqual([...new Set(urlsOf(from.filter(({ url }) => urls.has(url))))].toSorted())
  for (const { url } of citedInBlocks(from)) expect(urls).toContain(url)
}

/** A whole response as the client receives it. */
export function translate(
  provider: ConversationName,
  body: object,
  client: ConversationName,
): { response: Json; citations: Citation[]; losses: Loss[] } {
  const { text, losses } = writeTo(client, eventsOf(provider, { whole: body, frames: [] }, false, client), false)
  return { response: JSON.parse(text) as Json, citations: readWireResponse(client, text, false).citations, losses }
}

/** The blocks of a response of messages: the text of each, and the URLs of its citations. */
export const blocksOf = (content: Json[]): string[][] =>
  content.map(({ text, citations }) => [text, ...(citations ?? []).map(({ url }: Json) => url)])

export const urlCitation = (start_index: unknown, end_index: unknown, url = 'https://e.com'): Json => ({
  type: 'url_citation',
  url,
  title: 'E',
  start_index,
  end_index,
})

/** A response with one text and its annotations. */
export const annotated: Record<'chat.completions' | 'responses', (text: string, annotations: Json[]) => object> = {
  'chat.completions': (text, annotations) => ({
    id: 'c',
    choices: [
      {
        index: 0,
        finish_reason: 'stop',
        message: {
          role: 'assistant',
          content: text,
          annotations: annotations.map(({ type, ...citation }) => ({ type, url_citation: citation })),
        },
      },
    ],
  }),
  responses: (text, annotations) => ({
    id: 'r',
    status: 'completed',
    output: [{ type: 'message', id: 'm', content: [{ type: 'output_text', text, annotations }] }],
  }),
}

/** A response of generateContent with two sources. */
export const grounded = (parts: object[], grounding: object): object => ({
  candidates: [
    {
      content: { role: 'model', parts },
      finishReason: 'STOP',
      groundingMetadata: {
        groundingChunks: [{ web: { uri: 'https://e.com', title: 'E' } }, { web: { uri: 'https://f.com', title: 'F' } }],
        ...grounding,
      },
    },
  ],
})

export const supportOf = (segment: object, ...groundingChunkIndices: number[]): object => ({
  segment,
  groundingChunkIndices,
})

/** The end of a reply and its usage. */
export const END: Omit<Reply, 'parts'> = {
  finish: 'stop',
  usage: { prompt: 4, cached: 0, written: 0, completion: 2, reasoning: 0 },
}

const pieces = fc.oneof(
  fc.string({ unit: 'grapheme', minLength: 1, maxLength: 8 }),
  fc.constantFrom('😀', '👨‍👩‍👧 ', 'e\u0301', '東京。', 'a\n\n', '\u{10ffff}', ' '),
)

/** Replies of some pieces of text, any of which may be cited. */
export const replies: fc.Arbitrary<Reply> = fc
  .array(fc.tuple(pieces, fc.boolean()), { minLength: 1, maxLength: 8 })
  .map((texts) => ({
    parts: texts.map(([text, cited], index) => ({
      type: 'text' as const,
      text,
      ...(cited ? { cite: { passage: text, url: `https://example.com/${index}`, title: `Über ${index}` } } : {}),
    })),
    ...END,
  }))

export const urlsOf = (citations: Citation[]): string[] => citations.map(({ url }) => url).toSorted()
