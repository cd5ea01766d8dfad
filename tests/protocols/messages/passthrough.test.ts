import { describe, expect, test } from 'bun:test'
import { GatewayError } from '../../../src/error.ts'
import type { ReplayState } from '../../../src/generation/replay.ts'
import { wrapSignature } from '../../../src/generation/signature.ts'
import { noUsage } from '../../../src/generation/usage.ts'
import type { Frame } from '../../../src/http/frames.ts'
import { forward, passthrough } from '../../../src/protocols/messages/passthrough.ts'
import type { Passthrough, Target } from '../../../src/protocols/protocol.ts'
import { LossReport } from '../../../src/protocols/translation.ts'
import { type Any, context, rawRequestOf } from './kit.ts'

/** Requests and responses whose client and provider both speak the Messages API. */

describe('request passthrough', () => {
  const there = { provider: 'there', model: 'upstream', quirks: {}, capabilities: {} }
  const forwarded = (text: string): string =>
    forward({ ...context(), rawRequest: rawRequestOf(text) }, there, new LossReport())

  test('changes only the model', () => {
    const text =
      '{ "max_tokens":1.0,"model" : "p/m", "messages":[{"role":"user","content":"signature"}],' +
      '"big":12345678901234567890,"model2":"p/m"}'
    expect(forwarded(text)).toBe(text.replace('"p/m", "mess', '"upstream", "mess'))
  })

  test('removes signatures of other models, and unwraps those of the model', () => {
    const own = { provider: 'there', model: 'upstream' },
      other = { provider: 'g', model: 'm' }
    const text = JSON.stringify({
      model: 'p/m',
      big: 1,
      messages: [
        {
          role: 'assistant',
          content: [
            { type: 'thinking', thinking: 'a', signature: wrapSignature('mine', own) },
            { type: 'thinking', thinking: 'b', signature: wrapSignature('x', other) },
            { type: 'thinking', thinking: 'c', signature: '' },
            { type: 'thinking', thinking: 'c', signature: wrapSignature('', own) },
            { type: 'thinking', thinking: 'd', signature: 'plain' },
            { type: 'redacted_thinking', data: wrapSignature('of-part:y', other) },
            { type: 'text', text: 't', citations: [{ encrypted_index: '' }] },
          ],
        },
        { role: 'assistant', content: [{ type: 'redacted_thinking', data: wrapSignature('x', other) }] },
      ],
    }).replace('"big":1', '"big":12345678901234567890')
    const sent = forwarded(text)
    expect(sent).toContain('"big":12345678901234567890')
    expect((JSON.parse(sent) as Any).messages).toEqual([
      {
        role: 'assistant',
        content: [
          { type: 'thinking', thinking: 'a', signature: 'mine' },
          { type: 'thinking', thinking: 'd', signature: 'plain' },
          { type: 'text', text: 't' },
        ],
      },
    ])
  })

  test('keeps unsigned reasoning if it is required, and adds an empty block where there is none', () => {
    const other = wrapSignature('x', { provider: 'g', model: 'm' })
    const use = (id: string): Any => ({ type: 'tool_use', id, name: 'f', input: {} })
    const content = [
      [{ type: 'thinking', thinking: 'a', signature: '' }, use('a')],
      [{ type: 'thinking', thinking: 'b' }, use('b')],
      [{ type: 'text', text: 't' }, use('c')],
      [{ type: 'thinking', thinking: 'd', signature: other }, use('d')],
      [use('e')],
      [{ type: 'thinking', thinking: 'f', signature: wrapSignature('', { provider: 'g', model: 'm' }) }, use('f')],
    ]
    const replayStates: ReplayState[] = [
      {
        issuer: { provider: 'there', model: 'upstream' },
        call: { id: 'e', digest: '' },
        parts: [
          { type: 'reasoning', text: 'kept' },
          { type: 'tool-call', id: 'e' },
        ],
      },
    ]
    const sent = (quirks: Target['quirks'], more: object = {}): Any[] => {
      const rawRequest = rawRequestOf(
        JSON.stringify({
          model: 'p/m',
          ...more,
          messages: content.map((blocks) => ({ role: 'assistant', content: blocks })),
        }),
      )
      return (
        JSON.parse(
          forward(
            { ...context(), rawRequest, restoredReasoning: replayStates },
            { ...there, quirks },
            new LossReport(),
          ),
        ) as Any
      ).messages.map((message: Any) =>
        message.content.map((block: Any) =>
          block.type === 'thinking' ? `${block.thinking}|${block.signature ?? ''}` : block.type,
        ),
      )
    }
    expect(sent({ requiresReasoning: true })).toEqual([
      ['a|', 'tool_use'],
      ['b|', 'tool_use'],
      ['|', 'text', 'tool_use'],
      ['|', 'tool_use'],
      ['kept|', 'tool_use'],
      ['f|', 'tool_use'],
    ])
    const unsigned = [['tool_use'], ['b|', 'tool_use'], ['text', 'tool_use'], ['tool_use'], ['tool_use'], ['tool_use']]
    expect(sent({})).toEqual(unsigned)
    expect(sent({ requiresReasoning: true }, { thinking: { type: 'disabled' } })[2]).toEqual(['text', 'tool_use'])
  })

  test('gets an empty block for its only call without reasoning where that is required', () => {
    const content = [{ type: 'tool_use', id: 'a', name: 'f', input: {} }]
    const rawRequest = rawRequestOf({ model: 'p/m', messages: [{ role: 'assistant', content }] })
    const sent = forward(
      { ...context(), rawRequest },
      { ...there, quirks: { requiresReasoning: true } },
      new LossReport(),
    )
    expect((JSON.parse(sent) as Any).messages[0].content).toEqual([
      { type: 'thinking', thinking: '', signature: '' },
      ...content,
    ])
  })

  test('puts restored reasoning in the place of unsigned reasoning', () => {
    const issuer = { provider: 'there', model: 'upstream' }
    const restoredReasoning: ReplayState[] = [
      {
        issuer,
        call: { id: 'a', digest: '' },
        parts: [
          { type: 'reasoning', text: 'first', signature: 's1' },
          { type: 'text' },
          { type: 'reasoning', text: '', redacted: true, signature: 's2' },
          { type: 'tool-call', id: 'a' },
        ],
      },
    ]
    const content =
      '[ {"type":"thinking","thinking":"unsigned"}, {"type":"text","text":"t"} , ' +
      '{"type":"tool_use","id":"a","name":"f","input":{"n":1.0}} ]'
    const body = (model: string, blocks: string): string =>
      `{"model":"${model}","thinking":{"type":"adaptive"},"messages":[{"role":"assistant","content":${blocks}}]}`
    const rawRequest = rawRequestOf(body('p/m', content))
    expect(forward({ ...context(), rawRequest, restoredReasoning }, there, new LossReport())).toBe(
      body(
        'upstream',
        '[ {"type":"thinking","thinking":"first","signature":"s1"},{"type":"text","text":"t"} , ' +
          '{"type":"redacted_thinking","data":"s2"},{"type":"tool_use","id":"a","name":"f","input":{"n":1.0}} ]',
      ),
    )
  })
})

describe('response passthrough', () => {
  test('changes id and model of the first frame and returns the others as they are', () => {
    const passing = passthrough(context())
    const begin = {
      event: 'message_start',
      data: '{"type": "message_start", "message":{"usage":{"big":12345678901234567890},"model":"up","id":"m"}  }',
    }
    expect(passing.frame(begin)).toEqual({
      event: 'message_start',
      data: '{"type": "message_start", "message":{"usage":{"big":12345678901234567890},"model":"p/m","id":"msg_1"}  }',
    })
    const delta = {
      event: 'content_block_delta',
      data: '{"type":"content_block_delta","delta":{"text":"message_start"}}',
    }
    expect(passing.frame(delta)).toBe(delta)
  })

  test.each(['', ',"usage":null', ',"other":{}'])('adds a usage to a first frame with %j, as SDKs read it', (more) => {
    const frame = { event: 'message_start', data: `{"type":"message_start","message":{"id":"m","model":"up"${more}}}` }
    const { message } = JSON.parse(passthrough(context()).frame(frame)!.data) as Any
    expect(message).toMatchObject({ id: 'msg_1', model: 'p/m', usage: { input_tokens: 0, output_tokens: 0 } })
  })

  test('adds event lines that a server omits, and removes the end of an OpenAI stream', () => {
    const passing = passthrough(context())
    expect(passing.frame({ data: '{"type":"ping"}' })).toEqual({ event: 'ping', data: '{"type":"ping"}' })
    expect(passing.frame({ data: '[DONE]' })).toBeUndefined()
  })

  test('has the identity, and the counted usage where the provider reported none', () => {
    const text = '{"id":"m","model":"up","usage":{"input_tokens":1},"big":12345678901234567890}'
    const passing = passthrough(context())
    expect(passing.answer(text)).toBe(text.replace('"m"', '"msg_1"').replace('"up"', '"p/m"'))
    const counted = JSON.parse(passing.answer(text, { ...noUsage(), inputTokens: 3, outputTokens: 2 })) as Any
    expect(counted).toMatchObject({ id: 'msg_1', model: 'p/m', usage: { input_tokens: 3, output_tokens: 2 } })
    const delta = { event: 'message_delta', data: '{"type":"message_delta","delta":{"stop_reason":"end_turn"}}' }
    expect(JSON.parse(passing.counted!(delta, { ...noUsage(), outputTokens: 2 }).data)).toMatchObject({
      delta: { stop_reason: 'end_turn' },
      usage: { output_tokens: 2 },
    })
    const other = { event: 'message_stop', data: '{"type":"message_stop"}' }
    expect(passing.counted!(other, noUsage())).toBe(other)
  })

  test('ends early at its limit, with the blocks closed that are open', () => {
    const block = (type: string, index: number): Frame => ({ event: type, data: JSON.stringify({ type, index }) })
    const begin = { event: 'message_start', data: '{"type":"message_start","message":{"id":"m","model":"up"}}' }
    const endOf = (passing: Passthrough): Any[] =>
      passing.endEarly!({ usage: { ...noUsage(), inputTokens: 3, outputTokens: 2 }, report: { sluice: 1 } }).map(
        ({ data }) => JSON.parse(data) as Any,
      )
    const passing = passthrough(context())
    for (const frame of [
      begin,
      block('content_block_start', 0),
      block('content_block_stop', 0),
      block('content_block_start', 1),
    ])
      passing.frame(frame)
    const end = [
      {
        type: 'message_delta',
        delta: { stop_reason: 'max_tokens', stop_sequence: null },
        usage: { input_tokens: 3, output_tokens: 2 },
        sluice: 1,
      },
      { type: 'message_stop' },
    ]
    expect(endOf(passing)).toMatchObject([{ type: 'content_block_stop', index: 1 }, ...end])
    expect(endOf(passthrough(context()))).toMatchObject([{ type: 'message_start', message: { id: 'msg_1' } }, ...end])
  })

  test('ends with an error', () => {
    expect(passthrough(context()).fail(new GatewayError('upstream_timeout', 'late'))).toEqual([
      { event: 'error', data: '{"type":"error","error":{"type":"timeout_error","message":"late"}}' },
    ])
  })
})
