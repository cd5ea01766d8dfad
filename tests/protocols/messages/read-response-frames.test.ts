import { test } from 'bun:test'
import fc from 'fast-check'
import { type Any, events } from './kit.ts'

test('a response of any frames has events of the grammar', () => {
  const types = [
    'message_start',
    'content_block_start',
    'content_block_delta',
    'content_block_stop',
    'message_delta',
    'message_stop',
    'ping',
    'error',
    'new_kind',
  ]
  const frame = fc.oneof(
    fc.string(),
    fc.record(
      {
        type: fc.constantFrom(...types),
        index: fc.constantFrom<unknown>(0, 1, 2, undefined, null, 'x'),
        message: fc.jsonValue({ maxDepth: 2 }),
        usage: fc.jsonValue({ maxDepth: 1 }),
        content_block: fc.oneof(
          fc.record({
            type: fc.constantFrom('text', 'thinking', 'tool_use', 'redacted_thinking', 'server_tool_use'),
            text: fc.jsonValue(),
            input: fc.jsonValue(),
          }),
          fc.jsonValue({ maxDepth: 1 }),
        ),
        delta: fc.oneof(
          fc.record({
            type: fc.constantFrom(
              'text_delta',
              'thinking_delta',
              'input_json_delta',
              'signature_delta',
              'citations_delta',
              'x_delta',
            ),
            text: fc.jsonValue(),
            partial_json: fc.string(),
            citation: fc.jsonValue(),
            stop_reason: fc.string(),
          }),
          fc.jsonValue({ maxDepth: 1 }),
        ),
      },
      { requiredKeys: ['type'] },
    ),
  )
  fc.assert(
    fc.property(fc.array(frame as fc.Arbitrary<Any | string>, { maxLength: 14 }), (list) => {
      events(list)
    }),
    { numRuns: 500 },
  )
})
