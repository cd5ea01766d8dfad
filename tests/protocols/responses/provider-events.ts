import { fold, type GenerationEvent } from '../../../src/generation/event.ts'
import { responses } from '../../../src/protocols/responses/index.ts'
import { checkGrammar } from '../../grammar.ts'

/** Events of a provider of the Responses API, as it streams them. */

export const eventsOf = (...events: object[]): GenerationEvent[] => {
  const reader = responses.call.reader({})
  const read = [...events.flatMap((event) => reader.read({ data: JSON.stringify(event) })), ...reader.end()]
  checkGrammar(read)
  return read
}
export const created = {
  type: 'response.created',
  response: { id: 'up', model: 'um', status: 'in_progress', output: [] },
}
export const completed = (more: object = {}) => ({
  type: 'response.completed',
  response: { id: 'up', model: 'um', status: 'completed', output: [], ...more },
})
export const added = (output_index: number, item: object) => ({
  type: 'response.output_item.added',
  output_index,
  item,
})
export const done = (output_index: number, item: object) => ({ type: 'response.output_item.done', output_index, item })
export const message = (text: string, more: object = {}) => ({
  type: 'message',
  id: 'm',
  role: 'assistant',
  content: [{ type: 'output_text', text, annotations: [], ...more }],
})
export const call = (args: string, more: object = {}) => ({
  type: 'function_call',
  id: 'fc',
  call_id: 'c1',
  name: 'f',
  arguments: args,
  ...more,
})
export const partsOf = (...events: object[]) => fold(eventsOf(...events)).parts
