import { describe, expect, test } from 'bun:test'
import { chunkText, eventStream, JsonArray } from '../../src/pipeline/framing.ts'

/** The text in which the frames of one network chunk are sent to the client. */

const frame = { data: '{"a":1}' }
const error = { data: '{"error":{"code":500}}', unprefixed: true }

describe('server-sent events', () => {
  test('all frames of a network chunk leave in one write', () => {
    expect(eventStream.write([frame, { event: 'x', data: '{}' }], false)).toBe(
      'data: {"a":1}\n\nevent: x\ndata: {}\n\n',
    )
  })

  test('no frames are no text', () => expect(eventStream.write([], true)).toBe(''))

  test('an error without a data field leaves in a write of its own, after a pause', () => {
    expect(eventStream.write([frame, { data: error.data }, error], true)).toEqual([
      { text: 'data: {"a":1}\n\ndata: {"error":{"code":500}}\n\n', pauseBefore: 0 },
      { text: '{"error":{"code":500}}\n\n', pauseBefore: 100 },
    ])
    expect(eventStream.write([error], true)).toEqual([{ text: '{"error":{"code":500}}\n\n', pauseBefore: 100 }])
  })

  test('chunkText joins the writes of a chunk', () => {
    expect(chunkText(eventStream.write([frame, error], true))).toBe('data: {"a":1}\n\n{"error":{"code":500}}\n\n')
    expect(chunkText('one')).toBe('one')
  })
})

describe('a JSON array', () => {
  test('is sent element by element, and closed with the last', () => {
    const array = new JsonArray()
    expect([array.write([frame], false), array.write([], false), array.write([frame, frame], true)]).toEqual([
      '[{"a":1}',
      '',
      ',\r\n{"a":1},\r\n{"a":1}]',
    ])
  })

  test('contains an error once', () => {
    expect(new JsonArray().write([{ data: error.data }, error], true)).toBe('[{"error":{"code":500}}]')
  })

  test('without elements is empty', () => expect(new JsonArray().write([], true)).toBe('[]'))
})
