import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { LossReport } from '../../../src/protocols/translation.ts'
import { wrapSignature } from '../../../src/generation/signature.ts'
import type { Capabilities } from '../../../src/protocols/protocol.ts'
import { responses } from '../../../src/protocols/responses/index.ts'
import { contextOf, rawRequestOf, target } from './fixtures.ts'
/** Bodies of clients of the Responses API as they are forwarded to a provider of it. */

describe('a forwarded body', () => {
  const forward = (body: object, capabilities: Capabilities = {}) =>
    JSON.parse(responses.call.forward(contextOf(body), { ...target, capabilities }, new LossReport()))

  test('differs in the members that have to change and in no other byte', () => {
    const text =
      '{ "model":"a/b" ,"input":"hi","metadata":{"n":"1"},\n "big": 12345678901234567890, "store":true, ' +
      '"previous_response_id":"resp_0","temperature":1.0}'
    const rawRequest = { text, body: JSON.parse(text), headers: new Headers() }
    expect(responses.call.forward({ ...contextOf(), rawRequest }, target, new LossReport())).toBe(
      '{ "model":"upstream" ,"input":"hi","metadata":{"n":"1"},\n "big": 12345678901234567890, "store":false,' +
        '"temperature":1.0}',
    )
  })

  test('keeps the bytes of a conversation whose reasoning is the own of the provider', () => {
    const input =
      '[{"type":"reasoning", "summary":[],"n":1.0,"encrypted_content":"gAAA"},{"role":"user","content":"hi"}]'
    const text = `{"model":"a/b","store":false,"input": ${input}}`
    const rawRequest = { text, body: JSON.parse(text), headers: new Headers() }
    expect(responses.call.forward({ ...contextOf(), rawRequest }, target, new LossReport())).toBe(
      `{"model":"upstream","store":false,"input": ${input}}`,
    )
  })

  test('lets the provider store a response in the background, which it requires', () => {
    expect(forward({ background: true }).store).toBeUndefined()
    expect(forward({}).store).toBe(false)
  })

  test('includes encrypted reasoning where a later turn may need it', () => {
    expect(forward({ reasoning: { effort: 'low' }, include: ['x'] }).include).toEqual([
      'x',
      'reasoning.encrypted_content',
    ])
    expect(forward({}, { reasoning: 'effort' }).include).toEqual(['reasoning.encrypted_content'])
    const asked = { include: ['reasoning.encrypted_content', 'x'] }
    expect(forward(asked, { reasoning: 'effort' }).include).toEqual(asked.include)
    expect(forward({ include: 'x' }, { reasoning: 'effort' }).include).toBe('x')
    for (const body of [{}, { reasoning: { effort: 'none' } }, { reasoning: { effort: 'low' }, store: false }])
      expect(forward(body).include).toBeUndefined()
  })

  test('leaves out reasoning that the provider would refuse', () => {
    const item = (more: object) => ({ type: 'reasoning', summary: [], ...more })
    const own = item({ encrypted_content: 'gAAA' }),
      raw = item({ content: [{ type: 'reasoning_text', text: 't' }] })
    const unusable = [
      item({ id: 'rs_1' }),
      item({ encrypted_content: wrapSignature('s', { provider: 'q', model: 'm' }) }),
      item({ encrypted_content: 'part\0c1\0s' }),
    ]
    expect(forward({ input: [own, ...unusable, raw] }).input).toEqual([own, raw])
    expect(
      forward({ input: [item({ encrypted_content: wrapSignature('s', { provider: 'p', model: 'upstream' }) })] }).input,
    ).toEqual([item({ encrypted_content: 's' })])
  })

  test('is the body of the client for any request', () => {
    fc.assert(
      fc.property(
        fc.dictionary(
          fc
            .oneof(fc.constantFrom('store', 'include', 'a'), fc.string())
            .filter((name) => !['model', 'input', '__proto__', 'background', 'previous_response_id'].includes(name)),
          fc.jsonValue(),
          { maxKeys: 5 },
        ),
        (body) => {
          const rawRequest = rawRequestOf({ ...body, model: 'a/b' })
          const { store, ...sent } = JSON.parse(
            responses.call.forward({ ...contextOf(), rawRequest }, target, new LossReport()),
          )
          const { store: _asked, ...rest } = rawRequest.body
          expect(store).toBe(false)
          if (!('reasoning' in body)) expect(sent).toEqual({ ...rest, model: 'upstream' })
        },
      ),
      { numRuns: 300 },
    )
  }, 60_000)
})
