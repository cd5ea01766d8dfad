import type { GenerationEvent } from '../../../src/generation/event.ts'
import type { Frame } from '../../../src/http/frames.ts'
import type { TranslationContext, RawRequest } from '../../../src/protocols/protocol.ts'
import { readToTranslate, withoutPaths } from '../../translating.ts'
import { responses } from '../../../src/protocols/responses/index.ts'

/** Requests, contexts, frames and events for the tests of this folder. */

export type Any = Record<string, any>

export const rawRequestOf = (body: object): RawRequest => {
  const text = JSON.stringify(body)
  return { body: JSON.parse(text), text, headers: new Headers() }
}

/** The request as it was read, with the paths of its elements. */
export const readWithPaths = (body: object, inserted?: number) =>
  readToTranslate('responses', {
    ...rawRequestOf({ model: 'a/b', ...body }),
    ...(inserted === undefined ? {} : { inserted }),
  })

export const read = (body: object) => withoutPaths(readWithPaths(body))

export const contextOf = (body: object = {}, more: Partial<TranslationContext> = {}): TranslationContext => {
  const rawRequest = rawRequestOf({ model: 'a/b', input: 'hi', ...body })
  return {
    rawRequest,
    request: responses.serve.readRequest(rawRequest),
    responseIdentity: {
      id: 'resp_1',
      model: 'a/b',
      createdAt: 1_700_000_000,
      issuer: { provider: 'issuer', model: 'm1' },
    },
    ...more,
  }
}

export const target = { provider: 'p', model: 'upstream', quirks: {}, capabilities: {} }

export const framesOf = (events: readonly GenerationEvent[], context = contextOf()): Frame[] => {
  const writer = responses.serve.writer(context)
  return events.flatMap((event) => writer.write(event))
}

export const parsed = (frames: readonly Frame[]): Any[] => frames.map(({ data }) => JSON.parse(data))

/** The types of events, without their prefix. */
export const types = (frames: Any[]): string[] => frames.map(({ type }) => type.replace('response.', ''))

/** The response in the last event. */
export const last = (frames: Any[]): Any => frames.at(-1)!.response

export const eventsOf = (frames: readonly Frame[]): GenerationEvent[] => {
  const reader = responses.call.reader({})
  return [...frames.flatMap((frame) => reader.read(frame)), ...reader.end()]
}

/** The events of parts, each given as head, deltas and signature. */
export const sentence = (
  ...pieces: (readonly [object, string[], string?] | Partial<{ usage: object }>)[]
): GenerationEvent[] => {
  const events: GenerationEvent[] = [{ type: 'start', id: 'up', model: 'um' }]
  let part = 0
  for (const piece of pieces) {
    if (!Array.isArray(piece)) {
      events.push({ type: 'usage', ...piece } as GenerationEvent)
      continue
    }
    const [head, deltas, signature] = piece as readonly [object, string[], string?]
    events.push(
      { type: 'part-start', part, head } as GenerationEvent,
      ...deltas.map((text): GenerationEvent => ({ type: 'part-delta', part, text })),
      { type: 'part-end', part, ...(signature === undefined ? {} : { signature }) },
    )
    part++
  }
  return events
}

export const text = { type: 'text' }
export const call = (id: string, name = 'f', form: 'function' | 'custom' = 'function') => ({
  type: 'tool-call',
  id,
  name,
  form,
})
export const stop: GenerationEvent = { type: 'finish', reason: 'stop', raw: 'stop' }
export const length: GenerationEvent = { type: 'finish', reason: 'length', raw: 'max' }
