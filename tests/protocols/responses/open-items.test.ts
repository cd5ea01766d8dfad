import { expect, test } from 'bun:test'
import { OpenItems } from '../../../src/protocols/responses/open-items.ts'
import type { Any } from './fixtures.ts'

/** Items of a provider's stream that is ended early. */

const ended = (record: (items: OpenItems) => void): { frames: [string, Any][]; items: [number, Any][] } => {
  const items = new OpenItems()
  record(items)
  const frames: [string, Any][] = []
  return { items: items.end((type, fields) => frames.push([type.replace('response.', ''), fields])), frames }
}
const add = (items: OpenItems, index: number, item: object): void =>
  items.record('response.output_item.added', index, JSON.stringify({ status: 'in_progress', ...item }))

test('a call of a custom tool ends with the input so far, and an item of the provider as it began', () => {
  const { frames, items } = ended((open) => {
    add(open, 2, { id: 'ws', type: 'web_search_call', action: null })
    open.append('of no item')
    add(open, 3, { id: 'ct', type: 'custom_tool_call', name: 'f', input: '' })
    for (const piece of ['a', 'b']) open.append(piece)
    open.record('response.custom_tool_call_input.delta', 3, undefined)
    open.record('response.output_text.done', 3, '{}')
  })
  const search = { id: 'ws', type: 'web_search_call', action: null, status: 'incomplete' }
  const call = { id: 'ct', type: 'custom_tool_call', name: 'f', input: 'ab', status: 'incomplete' }
  expect(frames).toEqual([
    ['output_item.done', { output_index: 2, item: search }],
    ['custom_tool_call_input.done', { item_id: 'ct', output_index: 3, input: 'ab' }],
    ['output_item.done', { output_index: 3, item: call }],
  ])
  expect(items).toEqual([
    [2, search],
    [3, call],
  ])
})

test('an item that has ended is not ended again, and a part of it is none', () => {
  const { frames, items } = ended((open) => {
    add(open, 0, { id: 'm', type: 'message', content: [] })
    open.record('response.output_item.done', 0, '{}')
    open.record('response.content_part.added', 0, '{"type":"output_text"}')
    open.record('response.content_part.done', 0, '{"type":"output_text"}')
  })
  expect([frames, items]).toEqual([[], []])
})

test('a refusal ends with its text so far, and a reasoning without a part as it began', () => {
  const { frames, items } = ended((open) => {
    open.record('response.output_item.added', 0, '{"id":"rs","type":"reasoning","summary":[]}')
    add(open, 1, { id: 'm', type: 'message', content: [] })
    open.record('response.content_part.added', 1, '{"type":"refusal","refusal":""}')
    open.append('no')
  })
  const part = { type: 'refusal', refusal: 'no' }
  expect(frames).toMatchObject([
    ['output_item.done', { item: { id: 'rs' } }],
    ['refusal.done', { item_id: 'm', output_index: 1, content_index: 0, refusal: 'no' }],
    ['content_part.done', { content_index: 0, part }],
    ['output_item.done', { item: { id: 'm', status: 'incomplete', content: [part] } }],
  ])
  expect(items[0]).toEqual([0, { id: 'rs', type: 'reasoning', summary: [] }])
})
