import { describe, expect, test } from 'bun:test'
import { GatewayError } from '../../../src/error.ts'
import { wrapSignature } from '../../../src/generation/signature.ts'
import { noUsage } from '../../../src/generation/usage.ts'
import { chat } from '../../../src/protocols/chat/index.ts'
import type { Quirks } from '../../../src/protocols/quirks.ts'
import { LossReport } from '../../../src/protocols/translation.ts'
import { contextOf, targetOf, type Json } from './building.ts'

/** Requests and responses where client and provider both speak chat completions. */

const SOURCE =
  '{ "model":"maker/model", "messages":[{"role":"user","content":"hi \\u00e9"}], "big":12345678901234567890, ' +
  '"stream":true, "provider":{"only":["x"]}, "models":["a"], "stream_options":{"include_obfuscation":false} }'

const forwarded = (source: string, quirks: Quirks = {}): string =>
  chat.call.forward(contextOf(source), targetOf(quirks), new LossReport())

describe('forwarded requests', () => {
  test('only the model, routing fields and stream_options are changed', () => {
    expect(forwarded(SOURCE)).toBe(
      '{ "model":"up-model", "messages":[{"role":"user","content":"hi \\u00e9"}], "big":12345678901234567890, ' +
        '"stream":true, "stream_options":{"include_usage":true,"include_obfuscation":false} }',
    )
    expect(JSON.parse(forwarded(SOURCE, { routesItself: true, refuses: ['stream_options'] }))).toMatchObject({
      model: 'up-model',
      provider: { only: ['x'] },
      models: ['a'],
    })
    expect(forwarded(SOURCE, { refuses: ['stream_options'] })).not.toContain('stream_options')
    expect(forwarded('{"model":"a/b","messages":[{"role":"user","content":"x"}],"stream":false}')).toBe(
      '{"model":"up-model","messages":[{"role":"user","content":"x"}],"stream":false}',
    )
    expect(
      JSON.parse(
        forwarded('{"model":"a/b","messages":[{"role":"user","content":"x"}],"stream":true,"stream_options":null}'),
      ).stream_options,
    ).toEqual({ include_usage: true })
  })

  test("OpenRouter's request for usage is for providers that route themselves", () => {
    const source = '{"model":"a/b","messages":[{"role":"user","content":"x"}],"usage":{"include":true},"stream":true}'
    expect(JSON.parse(forwarded(source))).toEqual({
      model: 'up-model',
      messages: [{ role: 'user', content: 'x' }],
      stream: true,
      stream_options: { include_usage: true },
    })
    expect(JSON.parse(forwarded(source, { routesItself: true }))).toMatchObject({ usage: { include: true } })
  })

  test('the output limit is sent under the name that the provider reads', () => {
    const body = '{"model":"a/b","messages":[{"role":"user","content":"x"}],"max_completion_tokens":7}'
    expect(JSON.parse(forwarded(body, { maxTokensField: 'max_tokens' }))).toMatchObject({
      max_tokens: 7,
    })
    expect(forwarded(body, { maxTokensField: 'max_tokens' })).not.toContain('max_completion_tokens')
    expect(JSON.parse(forwarded(body))).toMatchObject({ max_completion_tokens: 7 })
  })

  test.each([
    ['max_tokens', { max_completion_tokens: 7, max_tokens: 9 }, { max_tokens: 7 }],
    ['max_completion_tokens', { max_completion_tokens: 7, max_tokens: 9 }, { max_completion_tokens: 7 }],
    ['max_completion_tokens', { max_tokens: 9 }, { max_completion_tokens: 9 }],
    ['max_tokens', { max_completion_tokens: null, max_tokens: 9 }, { max_tokens: 9 }],
    ['max_tokens', { max_completion_tokens: null }, { max_completion_tokens: null }],
    ['max_tokens', { max_tokens: 9 }, { max_tokens: 9 }],
  ] as const)('a provider that reads %s gets %j as %j', (maxTokensField, limits, expected) => {
    const body = { model: 'up-model', messages: [{ role: 'user', content: 'x' }] }
    expect(JSON.parse(forwarded(JSON.stringify({ ...body, ...limits }), { maxTokensField }))).toEqual({
      ...body,
      ...expected,
    })
  })

  test('a signature of another issuer is removed, its own is unwrapped, a plain one stays', () => {
    const detail = (signature: string): Json => ({ type: 'reasoning.text', text: 'H', signature, index: 0 })
    const details = [
      detail(wrapSignature('theirs', { provider: 'q', model: 'm' })),
      detail(wrapSignature('ours', { provider: 'p', model: 'up-model' })),
      detail('plain'),
    ]
    const sent = forwarded(
      JSON.stringify({ model: 'a/b', messages: [{ role: 'assistant', content: 'x', reasoning_details: details }] }),
    )
    expect(JSON.parse(sent).messages[0].reasoning_details.map((one: Json) => one.signature)).toEqual(['ours', 'plain'])
  })

  test('encrypted reasoning is unwrapped for its issuer, and a message keeps no empty list of reasoning', () => {
    const sealed = (data: string, provider: string): Json => ({
      type: 'reasoning.encrypted',
      data: wrapSignature(data, { provider, model: 'up-model' }),
    })
    const messages = [
      { role: 'user', content: 'x' },
      { role: 'assistant', content: 'a', reasoning_details: [sealed('theirs', 'q')] },
      {
        role: 'assistant',
        content: 'b',
        reasoning_details: ['odd', { type: 'reasoning.summary', summary: 'S' }, sealed('ours', 'p')],
      },
      { role: 'assistant', content: 'c', reasoning_details: null },
    ]
    const report = new LossReport()
    const sent = chat.call.forward(contextOf(JSON.stringify({ model: 'a/b', messages })), targetOf(), report)
    expect(JSON.parse(sent).messages).toEqual([
      messages[0],
      { role: 'assistant', content: 'a' },
      {
        role: 'assistant',
        content: 'b',
        reasoning_details: [
          'odd',
          { type: 'reasoning.summary', summary: 'S' },
          { type: 'reasoning.encrypted', data: 'ours' },
        ],
      },
      messages[3],
    ])
    expect(report.losses).toMatchObject([{ code: 'reasoning_dropped', path: 'messages[1].reasoning_details[0]' }])
  })

  test('restored signatures are written into the message and into the calls that they sign', () => {
    const callOf = (id: string): Json => ({ id, type: 'function', function: { name: 'f', arguments: '{}' } })
    const called = { role: 'assistant', content: null, tool_calls: [callOf('c'), callOf('d')] }
    const results = ['c', 'd'].map((id) => ({ role: 'tool', tool_call_id: id, content: 'ok' }))
    const body = JSON.stringify({ model: 'a/b', messages: [{ role: 'user', content: 'x' }, called, ...results] })
    const restored = (id: string) => ({
      issuer: { provider: 'p', model: 'up-model' },
      call: { id, digest: '' },
      parts: [
        { type: 'reasoning' as const, text: 'R', signature: 'RS' },
        { type: 'tool-call' as const, id: 'c' },
        { type: 'tool-call' as const, id: 'd', signature: 'DS' },
      ],
    })
    const sent = (id: string): Json =>
      JSON.parse(
        chat.call.forward({ ...contextOf(body), restoredReasoning: [restored(id)] }, targetOf(), new LossReport()),
      )
    expect(sent('d').messages.slice(1)).toEqual([
      {
        ...called,
        tool_calls: [callOf('c'), { ...callOf('d'), extra_content: { google: { thought_signature: 'DS' } } }],
        reasoning_details: [{ type: 'reasoning.text', text: 'R', signature: 'RS', index: 0 }],
      },
      ...results,
    ])
    expect(sent('other').messages[1]).toEqual(called)
  })

  test('a removed signature of a text, an image or a call is reported as such, others as reasoning', () => {
    const data = wrapSignature('theirs', { provider: 'q', model: 'm' })
    const message = {
      role: 'assistant',
      content: 'x',
      images: [{ type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } }],
      tool_calls: [{ id: 'c', type: 'function', function: { name: 'f', arguments: '{}' } }],
      reasoning_details: ['text', 'image-0', 'c', 'rs'].map((id) => ({ type: 'reasoning.encrypted', data, id })),
    }
    const report = new LossReport()
    const body = JSON.stringify({ model: 'a/b', messages: [message] })
    chat.call.forward({ ...contextOf(body), restoredReasoning: [] }, targetOf(), report)
    expect(report.losses.map(({ code }) => code)).toEqual([
      'signature_dropped',
      'signature_dropped',
      'signature_dropped',
      'reasoning_dropped',
    ])
  })

  describe('quirks of reasoning', () => {
    const messages = [
      { role: 'user', content: 'x' },
      {
        role: 'assistant',
        content: null,
        tool_calls: [{ id: 'c', type: 'function', function: { name: 'f', arguments: '{}' } }],
      },
      { role: 'tool', tool_call_id: 'c', content: 'ok' },
      { role: 'assistant', content: 'y', reasoning_content: 'Hm' },
    ]
    const tools = [{ type: 'function', function: { name: 'f' } }]
    const sent = (quirks: Quirks, unsigned?: string): Json[] =>
      JSON.parse(
        chat.call.forward(
          {
            ...contextOf(JSON.stringify({ model: 'a/b', messages, tools })),
            restoredReasoning:
              unsigned === undefined
                ? []
                : [
                    {
                      issuer: { provider: 'p', model: 'up-model' },
                      call: { id: 'c', digest: '' },
                      parts: [
                        { type: 'reasoning', text: unsigned },
                        { type: 'tool-call', id: 'c' },
                      ],
                    },
                  ],
          },
          targetOf(quirks),
          new LossReport(),
        ),
      ).messages

    test('reasoningField set to its default changes nothing', () => {
      expect(sent({ reasoningField: 'reasoning_content' })).toEqual(messages)
    })

    test('requiresReasoning adds an empty field to assistant messages without reasoning', () => {
      expect(sent({ requiresReasoning: true }).map((message) => message.reasoning_content)).toEqual([
        undefined,
        '',
        undefined,
        'Hm',
      ])
    })

    test('restored unsigned reasoning is written into the reasoning field', () => {
      expect(sent({ requiresReasoning: true }, 'before')[1]!.reasoning_content).toBe('before')
      expect(sent({ reasoningField: 'reasoning' }, 'before')[1]!.reasoning).toBe('before')
      expect(sent({ reasoningField: 'reasoning_details' }, 'before')[1]).toEqual(messages[1])
    })
  })
})

describe('forwarded responses', () => {
  test('chunks get the id and model of the response, and other frames do not change', () => {
    const passthrough = chat.passthrough(contextOf(SOURCE))
    const chunk = (content: string) => ({
      data:
        '{"id":"up","object":"chat.completion.chunk","created":12,"model":"up-model",' +
        `"choices":[{"index":0,"delta":{"content":"${content}"}}],"n":1.0}`,
    })
    for (const content of ['a', 'b', '\\"usage\\"'])
      expect(passthrough.frame(chunk(content))).toEqual({
        data: chunk(content).data.replace('"up"', '"chatcmpl-ours"').replace('"up-model"', '"maker/model"'),
      })
    expect(
      passthrough.frame({ data: '{"id":"up","model":"up-model","choices":[ ],"usage":{"prompt_tokens":1}}' }),
    ).toBeUndefined()
    expect(passthrough.frame({ data: '{"id":"up","model":"up-model","choices":[],"usage":null}' })).toBeDefined()
    expect(JSON.parse(passthrough.frame({ data: '{"choices":[],"model":"x"}' })!.data)).toEqual({
      choices: [],
      model: 'maker/model',
      id: 'chatcmpl-ours',
    })
    const failure = { event: 'error', data: '{"error":{"message":"x"}}' }
    expect(passthrough.frame(failure)).toEqual(failure)
    // Chunks that begin like the last one may have an error, too.
    expect(
      passthrough.frame({ data: `${chunk('a').data.slice(0, -1)},"error":{"message":"sk-abcdefgh"}}` })!.data,
    ).toBe(
      `${chunk('a').data.replace('"up"', '"chatcmpl-ours"').replace('"up-model"', '"maker/model"').slice(0, -1)},` +
        '"error":{"message":"[hidden]"}}',
    )
    // So may usage, and a frame without choices is none of these.
    expect(passthrough.frame(chunk('a'))).toBeDefined()
    const usage = chunk('a').data.replace(/"choices".*/, '"choices":[],"usage":{"prompt_tokens":1}}')
    expect(passthrough.frame({ data: usage })).toBeUndefined()
    expect(passthrough.frame({ data: '{"type":"ping"}' })).toEqual({ data: '{"type":"ping"}' })
    expect(passthrough.frame({ data: '[DONE]' })).toBeUndefined()
    expect(passthrough.end!()).toEqual([{ data: '[DONE]' }])
    expect(JSON.parse(passthrough.fail(new GatewayError('upstream_timeout', 'Late.'))[0]!.data)).toMatchObject({
      id: 'chatcmpl-ours',
      error: { code: 'upstream_timeout' },
      choices: [{ finish_reason: 'error' }],
    })
  })
})

const passthroughOf = (more: Json = {}) =>
  chat.passthrough(contextOf(JSON.stringify({ model: 'a/b', messages: [], stream: true, ...more })))

test('chunks without an id or a model get both, whatever the chunk before had', () => {
  const passthrough = passthroughOf()
  for (const data of [
    '{"model":"up","choices":[{"index":0}]}',
    '{"model":"up","choices":[{"index":1}]}',
    '{"model":"up","choices":[{"index":2}],"id":"up"}',
    '{"model":"up","choices":[{"index":2}],"id":"up","error":null}',
    '{"id":"up","model":"up","choices":[{"index":3}]}',
    '{"id":"up","model":"up","choices":[{"index":4}],"usage":{"prompt_tokens":1}}',
    '{"id":"up","model":"up","choices":[],"more":{"usage":{}}}',
  ])
    expect(JSON.parse(passthrough.frame({ data })!.data)).toEqual({
      ...(JSON.parse(data) as Json),
      id: 'chatcmpl-ours',
      model: 'maker/model',
    })
})

test('a response that is ended early has an end for each choice that is still open', () => {
  const endOf = (passthrough: ReturnType<typeof passthroughOf>): Json[] =>
    JSON.parse(passthrough.endEarly!({ usage: noUsage(), report: {} })[0]!.data).choices
  const begin = { role: 'assistant', content: '' }
  expect(endOf(passthroughOf())).toEqual([{ index: 0, delta: begin, finish_reason: 'length' }])
  const several = passthroughOf({ n: 3 })
  const chunkOf = (index: number, reason: string | null) => ({
    data: JSON.stringify({ id: 'up', model: 'm', choices: [{ index, delta: {}, finish_reason: reason }] }),
  })
  several.frame(chunkOf(1, 'stop'))
  several.frame(chunkOf(0, null))
  expect(endOf(several)).toEqual([0, 2].map((index) => ({ index, delta: {}, finish_reason: 'length' })))
  const one = passthroughOf()
  one.frame(chunkOf(0, null))
  expect(endOf(one)).toEqual([{ index: 0, delta: {}, finish_reason: 'length' }])
})

test.each([
  ['the member of a chunk', { choices: [], error: { message: 'E' } }, { message: 'E' }],
  ['the member of a choice', { choices: [{}, { error: { message: 'E' } }] }, { message: 'E' }],
  ['a finish reason alone', { choices: [{ finish_reason: 'error' }] }, { message: 'x', code: 'upstream_error' }],
])('an error that is %s is repeated alone', (_what, chunk, expected) => {
  const repeated = passthroughOf().again!({ data: JSON.stringify(chunk) }, new GatewayError('upstream_error', 'x'))
  expect(repeated.map(({ data }) => JSON.parse(data))).toMatchObject([{ error: expected }])
})

test('an error that was alone is not repeated', () => {
  const passed = { data: '{"error":{"message":"E"}}' }
  expect(passthroughOf().again!(passed, new GatewayError('upstream_error', 'x'))).toEqual([])
})

test('a whole response gets id and model, and usage if the provider reported none', () => {
  const own = { id: 'chatcmpl-ours', model: 'maker/model', choices: [], n: 1 }
  const passthrough = passthroughOf()
  expect(JSON.parse(passthrough.answer('{"id":"up","choices":[],"n":1}'))).toEqual(own)
  expect(JSON.parse(passthrough.answer('{"choices":[],"n":1}', { ...noUsage(), inputTokens: 3 }))).toMatchObject({
    ...own,
    usage: { prompt_tokens: 3 },
  })
})

test('an error that is repeated alone has no credentials', () => {
  const message = 'bad key sk-abcdefghijklmnop'
  const passed = { data: JSON.stringify({ choices: [{ index: 0, delta: {}, error: { message } }] }) }
  const passthrough = chat.passthrough(contextOf('{"model":"a/b","messages":[]}'))
  const [alone] = passthrough.again!(passed, new GatewayError('upstream_error', 'x'))
  expect(alone!.data).toContain('bad key')
  expect(alone!.data).not.toContain('sk-abc')
})

test('usage that was counted is sent only to a client that requested it', () => {
  const ended = (more: Json) => passthroughOf(more).end!(noUsage())
  expect(ended({})).toEqual([{ data: '[DONE]' }])
  expect(ended({ stream_options: { include_usage: true } })).toHaveLength(2)
})
