import { fold, type GenerationEvent } from '../../../src/generation/event.ts'
import type { Part } from '../../../src/generation/request.ts'
import type { Undo } from '../../../src/protocols/transforms.ts'
import { checkGrammar } from '../../grammar.ts'
import { streamedEventsOf } from '../../translating.ts'

/** Chunks of chat completions, and their events. */

export type Json = Record<string, unknown>
export const chunkOf = (delta: Json, more: Json = {}): Json => ({
  id: 'up',
  model: 'm',
  choices: [{ index: 0, delta, finish_reason: null, ...more }],
})
export const stop = (reason = 'stop'): Json => chunkOf({}, { finish_reason: reason })
/** The events of a stream, which keep the grammar. */
export const read = (chunks: (Json | string)[], transforms: readonly Undo[] = []): GenerationEvent[] => {
  const frames = chunks.map((chunk) => ({ data: typeof chunk === 'string' ? chunk : JSON.stringify(chunk) }))
  const events = streamedEventsOf('chat.completions', frames, { transforms })
  checkGrammar(events)
  return events
}
export const partsOf = (...chunks: (Json | string)[]): Part[] => fold(read(chunks)).parts
