import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { withoutPaths, written } from '../../translating.ts'
import type { Part, Turn } from '../../../src/generation/request.ts'
import { responses } from '../../../src/protocols/responses/index.ts'
import { rawRequestOf, target } from './fixtures.ts'
import { request, text } from './requests.ts'

/** Requests that are written for a provider of the Responses API and read again. */

test('a request that is written and read again is the same', () => {
  const word = fc.string({ minLength: 1, maxLength: 8 })
  const texts = word.map((text): Part => ({ type: 'text', text }))
  const image = fc
    .base64String({ minLength: 4 })
    .map((data): Part => ({ type: 'image', source: { type: 'data', mediaType: 'image/png', data } }))
  const round = fc.tuple(
    fc.array(fc.oneof(texts, image), { minLength: 1, maxLength: 3 }),
    fc.array(texts, { maxLength: 2 }),
    fc.array(
      fc.tuple(
        fc.uuid(),
        fc.stringMatching(/^[\w-]{1,8}$/),
        fc.constantFrom('function', 'custom') as fc.Arbitrary<'function' | 'custom'>,
        texts,
      ),
      { maxLength: 2 },
    ),
  )
  const turns = fc
    .array(round, { maxLength: 4 })
    .map((rounds): Turn[] =>
      rounds.flatMap(([asked, said, calls]): Turn[] => [
        { role: 'user', parts: asked },
        ...(said.length + calls.length === 0
          ? []
          : [
              {
                role: 'assistant' as const,
                parts: [
                  ...said,
                  ...calls.map(
                    ([id, name, form]): Part => ({ type: 'tool-call', id, name, form, arguments: '{"a":1}' }),
                  ),
                ],
              },
            ]),
        ...(calls.length === 0
          ? []
          : [
              {
                role: 'tool' as const,
                parts: calls.map(
                  ([callId, name, form, content]): Part => ({
                    type: 'tool-result',
                    callId,
                    name,
                    form,
                    content: [content as never],
                  }),
                ),
              },
            ]),
      ]),
    )
    .map((rounds) =>
      rounds.at(-1)?.role === 'assistant' ? [...rounds, { role: 'user' as const, parts: [text('go on')] }] : rounds,
    )
  const toolName = fc.stringMatching(/^[\w-]{1,64}$/)
  const made = fc.record({
    system: fc.array(texts, { maxLength: 2 }),
    turns,
    tools: fc.array(
      fc.oneof(
        toolName.map((name) => ({
          type: 'function' as const,
          name,
          parameters: { type: 'object', properties: {} },
          strict: false,
        })),
        toolName.map((name) => ({ type: 'custom' as const, name })),
      ),
      { maxLength: 3 },
    ),
    sampling: fc.record(
      { temperature: fc.double({ min: 0, max: 2, noNaN: true }).map((n) => n + 0), topP: fc.constant(0.5) },
      { requiredKeys: [] },
    ),
    maxOutputTokens: fc.integer({ min: 16, max: 1e6 }),
    verbosity: fc.constantFrom('low' as const, 'high' as const),
    stream: fc.boolean(),
    user: word,
    metadata: fc
      .dictionary(
        word.filter((name) => name !== '__proto__'),
        word,
      )
      .map((map) => ({ ...map })),
    reasoning: fc.record({ effort: fc.constantFrom('none' as const, 'low' as const, 'max' as const) }),
  })
  fc.assert(
    fc.property(made, (parts) => {
      const before = request({ ...parts, protocol: 'responses', model: 'upstream' })
      const { body, losses } = written('responses', before, target)
      expect(losses).toEqual([])
      expect(JSON.parse(JSON.stringify(withoutPaths(responses.serve.readRequest(rawRequestOf(body)))))).toEqual(
        JSON.parse(JSON.stringify(before)),
      )
    }),
    { numRuns: 300 },
  )
}, 60_000)
