import { describe, expect, test } from 'bun:test'
import { GatewayError } from '../../../src/error.ts'
import type { ReplayState } from '../../../src/generation/replay.ts'
import { wrapSignature } from '../../../src/generation/signature.ts'
import { noUsage } from '../../../src/generation/usage.ts'
import { forward, GeminiPassthrough } from '../../../src/protocols/gemini/passthrough.ts'
import type { Target } from '../../../src/protocols/protocol.ts'
import { type Loss, LossReport } from '../../../src/protocols/translation.ts'
import { contextOf, hello, rawRequestOf, targetOf, type Json } from './building.ts'

/** Requests and responses between a client and a provider of generateContent. */

const PLACEHOLDER = 'skip_thought_signature_validator'
const ownSignature = (data: string) => wrapSignature(data, { provider: 'p', model: 'm' })
const otherSignature = (data: string) => wrapSignature(data, { provider: 'x', model: 'y' })

/** The body that is sent to the provider, and the losses. */
function forwarded(
  body: Json,
  capabilities: Target['capabilities'] = {},
  { text = JSON.stringify(body), restoredReasoning = [] }: { text?: string; restoredReasoning?: ReplayState[] } = {},
): { text: string; body: Json; losses: Loss[] } {
  const report = new LossReport()
  const context = { ...contextOf(), rawRequest: { ...rawRequestOf(body), text }, restoredReasoning }
  const sent = forward(context, targetOf(capabilities), report)
  return { text: sent, body: JSON.parse(sent) as Json, losses: report.losses }
}

describe('a request', () => {
  test('is sent as the client wrote it', () => {
    const text = '{ "contents": [{"parts":[{"text":"a"}]}], "x": 12345678901234567890 }'
    expect(forwarded(JSON.parse(text), {}, { text }).text).toBe(text)
  })

  test("names the provider's model where it names a model", () => {
    expect(forwarded(hello({ model: 'acme/model', z: 1 })).body).toEqual(hello({ model: 'm', z: 1 }))
  })

  test('has only signatures of the target model', () => {
    const sent = (thoughtSignature: string, capabilities = {}): unknown =>
      forwarded(
        { contents: [{ role: 'model', parts: [{ functionCall: { name: 'f' }, thoughtSignature }] }] },
        capabilities,
      ).body.contents[0].parts[0].thoughtSignature
    expect(sent('cGxhaW4=')).toBe('cGxhaW4=')
    expect(sent(ownSignature('sig'))).toBe('sig')
    expect(sent(otherSignature('sig'))).toBe('')
    expect(sent(otherSignature('sig'), { reasoning: 'level' })).toBe(PLACEHOLDER)
  })

  test('has text and calls of other models without their signatures, and none of their reasoning', () => {
    const contents = [
      { role: 'user', parts: [{ text: 'q' }] },
      { role: 'model', parts: [{ text: 'hm', thought: true, thoughtSignature: otherSignature('a') }] },
      {
        role: 'model',
        parts: [
          { text: 'so', thought: true, thought_signature: otherSignature('b') },
          { text: 'x', thoughtSignature: otherSignature('c') },
          { functionCall: { name: 'f', id: 'c1' }, thoughtSignature: otherSignature('d') },
          { functionCall: { name: 'f', id: 'c2' }, thoughtSignature: otherSignature('e') },
        ],
      },
      { role: 'user', parts: [{ functionResponse: { id: 'c1', name: 'f', response: { n: 1 } } }] },
      {
        role: 'model',
        parts: [
          { text: 'own', thought: true, thoughtSignature: ownSignature('f') },
          { functionCall: { name: 'f', id: 'c3' }, thoughtSignature: ownSignature('g') },
          { functionCall: { name: 'f', id: 'c4' }, thoughtSignature: otherSignature('h') },
        ],
      },
      { role: 'user', parts: [{ text: 'n' }] },
    ]
    const text = JSON.stringify({ contents, x: 1 }).replace('"n":1', '"n": 12345678901234567890')
    const sent = forwarded({ contents }, { reasoning: 'level' }, { text })
    expect(sent.text).toContain('"n": 12345678901234567890')
    expect(sent.body.contents).toEqual([
      contents[0],
      {
        role: 'model',
        parts: [
          { text: 'x', thoughtSignature: '' },
          { functionCall: { name: 'f', id: 'c1' }, thoughtSignature: PLACEHOLDER },
          { functionCall: { name: 'f', id: 'c2' }, thoughtSignature: '' },
        ],
      },
      { role: 'user', parts: [{ functionResponse: { id: 'c1', name: 'f', response: { n: 12345678901234567890 } } }] },
      {
        role: 'model',
        parts: [
          { text: 'own', thought: true, thoughtSignature: 'f' },
          { functionCall: { name: 'f', id: 'c3' }, thoughtSignature: 'g' },
          { functionCall: { name: 'f', id: 'c4' }, thoughtSignature: '' },
        ],
      },
      contents[5],
    ])
    expect(sent.losses.map(({ code, path }) => ({ code, path }))).toEqual([
      { code: 'signature_replaced', path: 'contents[2].parts[2].thoughtSignature' },
      { code: 'reasoning_dropped', path: 'contents[1].parts[0]' },
      { code: 'reasoning_dropped', path: 'contents[2].parts[0]' },
      { code: 'signature_dropped', path: 'contents[2].parts[1].thoughtSignature' },
      { code: 'signature_dropped', path: 'contents[2].parts[3].thoughtSignature' },
      { code: 'signature_dropped', path: 'contents[4].parts[2].thoughtSignature' },
    ])
  })

  test('has a placeholder under the path of the call where the client sent no signature', () => {
    const sent = forwarded(
      { model: 'a/b', contents: [{ role: 'model', parts: [{ text: 'a' }, { function_call: { name: 'f' } }] }] },
      { reasoning: 'level' },
    )
    expect(sent.body).toEqual({
      model: 'm',
      contents: [
        { role: 'model', parts: [{ text: 'a' }, { function_call: { name: 'f' }, thoughtSignature: PLACEHOLDER }] },
      ],
    })
    expect(sent.losses).toMatchObject([{ code: 'signature_replaced', path: 'contents[0].parts[1]' }])
  })

  test('has the signatures of the target model that the client left out', () => {
    const restoredReasoning: ReplayState[] = [
      {
        issuer: { provider: 'p', model: 'm' },
        call: { id: 'c1', digest: '' },
        parts: [{ type: 'tool-call', id: 'c1', signature: 'kept' }],
      },
    ]
    const contents = [{ role: 'model', parts: [{ functionCall: { name: 'f', id: 'c1' } }] }]
    const sent = forwarded({ contents }, { reasoning: 'level' }, { restoredReasoning })
    expect(sent.body.contents[0].parts[0].thoughtSignature).toBe('kept')
    expect(sent.losses).toEqual([])
  })
})

describe('a response', () => {
  test("gets the gateway's id and model name and keeps everything else", () => {
    const passthrough = new GeminiPassthrough(contextOf())
    const data =
      '{"candidates":[{"content":{"parts":[{"functionCall":{"args":' +
      '{"responseId":"up-1","n":12345678901234567890}}}]}}],' +
      '"responseId": "up-1","modelVersion":"up","new":1.0}'
    const expected = data.replace('"responseId": "up-1"', '"responseId": "gen-1"').replace('"up"', '"acme/model"')
    expect(passthrough.frame({ data })).toEqual({ data: expected })
    expect(passthrough.answer(data)).toBe(expected)
    expect(JSON.parse(passthrough.frame({ data: '{"candidates":[]}' })!.data)).toEqual({
      candidates: [],
      responseId: 'gen-1',
      modelVersion: 'acme/model',
    })
  })

  test('that is the chunks of a stream gets the identity in each, and counted usage in the last', () => {
    const text = JSON.stringify(['a', 'b'].map((part) => ({ candidates: [{ content: { parts: [{ text: part }] } }] })))
    const counted = { ...noUsage(), inputTokens: 3 }
    const chunks = JSON.parse(new GeminiPassthrough(contextOf()).answer(text, counted)) as Json[]
    expect(chunks.map(({ responseId, usageMetadata }) => [responseId, usageMetadata?.promptTokenCount])).toEqual([
      ['gen-1', undefined],
      ['gen-1', 3],
    ])
  })

  test('does not have frames that are not JSON objects', () => {
    expect(new GeminiPassthrough(contextOf()).frame({ data: '[DONE]' })).toBeUndefined()
  })

  test('has an error without credentials, in a frame and as raw JSON', () => {
    const passthrough = new GeminiPassthrough(contextOf())
    const frame = passthrough.frame({
      unprefixed: true,
      data: '{\n "error": {"code": 503, "message": "Busy, AIzaSyA1234567890.", "status": "UNAVAILABLE"}}',
    })!
    expect(frame.unprefixed).toBeUndefined()
    expect(JSON.parse(frame.data)).toMatchObject({ error: { code: 503, status: 'UNAVAILABLE' } })
    expect(frame.data).not.toMatch(/AIza|\n/)
    expect(passthrough.again(frame)).toEqual([{ data: frame.data, unprefixed: true }])
    const [own, raw] = passthrough.fail(new GatewayError('upstream_timeout', 'Late.'))
    expect(JSON.parse(own!.data)).toMatchObject({ error: { code: 504, message: 'Late.' } })
    expect(raw).toEqual({ ...own!, unprefixed: true })
  })

  test('ends early at its limit, in each candidate that was requested, with its usage', () => {
    const endOf = (body: Json): Json[] =>
      new GeminiPassthrough(contextOf(hello(body)))
        .endEarly({ usage: { ...noUsage(), inputTokens: 3, outputTokens: 2 }, report: { sluice: 1 } })
        .map(({ data }) => JSON.parse(data) as Json)
    const end = (index: number): Json => ({
      content: { parts: [{ text: '' }], role: 'model' },
      finishReason: 'MAX_TOKENS',
      index,
    })
    const usageMetadata = { promptTokenCount: 3, candidatesTokenCount: 2, totalTokenCount: 5 }
    const more = { usageMetadata, sluice: 1, responseId: 'gen-1', modelVersion: 'acme/model' }
    expect(endOf({})).toMatchObject([{ candidates: [end(0)], ...more }])
    expect(endOf({ generationConfig: { candidateCount: 2 } })).toMatchObject([
      { candidates: [end(0), end(1)], ...more },
    ])
  })
})
