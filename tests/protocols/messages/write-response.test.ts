import { describe, expect, test } from 'bun:test'
import { GatewayError } from '../../../src/error.ts'
import { fold, type GenerationResponse, type GenerationEvent, type PartHead } from '../../../src/generation/event.ts'
import { wrapSignature } from '../../../src/generation/signature.ts'
import { messages } from '../../../src/protocols/messages/index.ts'
import { writeResponse } from '../../../src/protocols/messages/write-response.ts'
import { LossReport } from '../../../src/protocols/translation.ts'
import { withoutPaths } from '../../translating.ts'
import { type Any, context, datas, frames, part, read, START, whole } from './kit.ts'

/** Responses to clients of the Messages API. */

const stop = (reason: GenerationResponse['finish']['reason'] = 'stop'): GenerationEvent => ({
  type: 'finish',
  reason,
  raw: 'raw',
})
/** The frames between message_start and message_delta in a short form. */
const inside = (list: GenerationEvent[], issuer?: { provider: string; model: string }): string[] =>
  datas(frames([START, ...list, stop()], issuer))
    .slice(1, -2)
    .map(
      ({ type, index, content_block, delta }) =>
        `${index} ${type === 'content_block_stop' ? 'stop' : JSON.stringify(content_block ?? delta)}`,
    )

describe('a response stream', () => {
  test('has frames with an event line each', () => {
    const written = frames([
      START,
      { type: 'usage', usage: { inputTokens: 9, cacheReadTokens: 4 } },
      ...part(0, { type: 'text' }, ['Hi', '!']),
      { type: 'usage', usage: { outputTokens: 5, reasoningTokens: 2, cacheWrite1hTokens: 3 } },
      stop(),
    ])
    for (const frame of written) expect(frame.event).toBe((JSON.parse(frame.data) as Any).type)
    expect(datas(written)).toEqual([
      {
        type: 'message_start',
        message: {
          id: 'msg_1',
          type: 'message',
          role: 'assistant',
          model: 'p/m',
          content: [],
          stop_reason: null,
          stop_sequence: null,
          usage: { input_tokens: 0, cache_creation_input_tokens: 0, cache_read_input_tokens: 0, output_tokens: 0 },
        },
      },
      { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
      { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'Hi' } },
      { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: '!' } },
      { type: 'content_block_stop', index: 0 },
      {
        type: 'message_delta',
        delta: { stop_reason: 'end_turn', stop_sequence: null },
        usage: {
          input_tokens: 9,
          cache_creation_input_tokens: 3,
          cache_creation: { ephemeral_5m_input_tokens: 0, ephemeral_1h_input_tokens: 3 },
          cache_read_input_tokens: 4,
          output_tokens: 7,
          output_tokens_details: { thinking_tokens: 2 },
        },
      },
      { type: 'message_stop' },
    ])
  })

  test('has a frame for each piece at once', () => {
    const writer = messages.serve.writer(context())
    expect(writer.write(START)).toHaveLength(1)
    writer.write({ type: 'part-start', part: 0, head: { type: 'text' } })
    expect(writer.write({ type: 'part-delta', part: 0, text: 'a' })).toHaveLength(2)
    expect(writer.write({ type: 'part-delta', part: 0, text: 'b' })).toHaveLength(1)
  })

  test('has no empty blocks', () => {
    expect(
      inside([
        ...part(0, { type: 'text' }),
        ...part(1, { type: 'reasoning' }, ['']),
        ...part(2, { type: 'text' }, ['a']),
      ]),
    ).toEqual(['0 {"type":"text","text":""}', '0 {"type":"text_delta","text":"a"}', '0 stop'])
  })

  test('ends with its text, however its last parts are signed or lost, streamed or not', () => {
    const issuer = { provider: 'g', model: 'm' }
    const lost: PartHead = { type: 'native', protocol: 'generateContent', kind: 'searchEntryPoint', value: {} }
    const ends: GenerationEvent[][] = [
      part(1, lost),
      part(1, { type: 'text' }, ['\n']),
      part(1, { type: 'text' }, [], 's2'),
      [...part(1, { type: 'text' }, [' '], 's2'), ...part(2, lost)],
      part(1, { type: 'refusal' }, [' ']),
    ]
    for (const end of ends) {
      const events: GenerationEvent[] = [START, ...part(0, { type: 'text' }, ['One.'], 's1'), ...end, stop()]
      const [once, streamed] = [context(issuer), context(issuer)].map((one) => ({ ...one, losses: new LossReport() }))
      const { content } = writeResponse(fold(events), once!) as { content: Any[] }
      expect(content).toEqual([{ type: 'text', text: 'One.' }])
      const writer = messages.serve.writer(streamed!)
      const written = events.flatMap((event) => writer.write(event)).map(({ data }) => JSON.parse(data) as Any)
      expect(written.filter(({ type }) => type === 'content_block_start')).toHaveLength(1)
      const [first, second] = [once!, streamed!].map(({ losses }) => losses.losses.map(({ path }) => path).toSorted())
      expect(first).toContain('response.signature')
      expect(second).toEqual(first)
    }
  })

  test('reports white space that no text follows, streamed or not', () => {
    const call: PartHead = { type: 'tool-call', id: 'c', name: 'f', form: 'function' }
    for (const [events, paths] of [
      [part(0, { type: 'text' }, ['\n\n']), ['response.text']],
      [[...part(0, { type: 'text' }, ['\n\n']), ...part(1, call, ['{}'])], ['response.text']],
      [[...part(0, { type: 'text' }, ['\n\n']), ...part(1, { type: 'text' }, ['a'])], []],
      [[...part(0, { type: 'text' }, ['a']), ...part(1, { type: 'text' }, ['\n'])], ['response.text']],
      [part(0, { type: 'text' }, ['a', '\n']), []],
    ] as [GenerationEvent[], string[]][]) {
      const [once, streamed] = [context(), context()].map((one) => ({ ...one, losses: new LossReport() }))
      writeResponse(fold([START, ...events, stop()]), once!)
      const writer = messages.serve.writer(streamed!)
      for (const event of [START, ...events, stop()]) writer.write(event)
      expect(once!.losses.losses.map(({ path }) => path)).toEqual(paths)
      expect(streamed!.losses.losses).toEqual(once!.losses.losses)
    }
  })

  test('has no blocks of white space, which stays before a text that follows it', () => {
    const call: PartHead = { type: 'tool-call', id: 'c', name: 'f', form: 'function' }
    const events: GenerationEvent[] = [
      START,
      ...part(0, { type: 'text' }, ['\n', '\n']),
      ...part(1, { type: 'text' }, [' ', 'One.']),
      ...part(2, { type: 'text' }, [' ']),
      ...part(3, { type: 'text' }, ['Two.', '\n']),
      ...part(4, { type: 'text' }, ['\n\n']),
      ...part(5, call, ['{}']),
      ...part(6, { type: 'refusal' }, [' ']),
      stop(),
    ]
    const { content } = writeResponse(fold(events), context()) as { content: Any[] }
    expect(content.map(({ type, text }) => text ?? type)).toEqual(['\n\n One.', ' Two.\n', 'tool_use'])
    expect(inside(events.slice(1, -1)).filter((line) => !line.includes('json'))).toEqual([
      '0 {"type":"text","text":""}',
      '0 {"type":"text_delta","text":"\\n\\n One."}',
      '0 stop',
      '1 {"type":"text","text":""}',
      '1 {"type":"text_delta","text":" Two."}',
      '1 {"type":"text_delta","text":"\\n"}',
      '1 stop',
      expect.stringContaining('2 {"type":"tool_use"'),
      '2 stop',
    ])
  })

  test('has signatures of thinking, redacted or without text, wrapped with their issuer', () => {
    const issuer = { provider: 'g', model: 'm' }
    expect(
      inside(
        [
          ...part(0, { type: 'reasoning' }, ['hm'], 's1'),
          ...part(1, { type: 'reasoning', redacted: true }, [], 's2'),
          ...part(2, { type: 'reasoning' }, [], 's3'),
          ...part(3, { type: 'reasoning' }, ['unsigned']),
        ],
        issuer,
      ),
    ).toEqual([
      '0 {"type":"thinking","thinking":"","signature":""}',
      '0 {"type":"thinking_delta","thinking":"hm"}',
      `0 {"type":"signature_delta","signature":"${wrapSignature('s1', issuer)}"}`,
      '0 stop',
      `1 {"type":"redacted_thinking","data":"${wrapSignature('s2', issuer)}"}`,
      '1 stop',
      '2 {"type":"thinking","thinking":"","signature":""}',
      `2 {"type":"signature_delta","signature":"${wrapSignature('s3', issuer)}"}`,
      '2 stop',
      '3 {"type":"thinking","thinking":"","signature":""}',
      '3 {"type":"thinking_delta","thinking":"unsigned"}',
      `3 {"type":"signature_delta","signature":"${wrapSignature('', issuer)}"}`,
      '3 stop',
    ])
    const events = [START, ...part(0, { type: 'reasoning' }, ['unsigned']), stop()]
    expect(writeResponse(fold(events), context(issuer))).toMatchObject({
      content: [{ type: 'thinking', thinking: 'unsigned', signature: wrapSignature('', issuer) }],
    })
  })

  test('has signatures alone where the client asked for reasoning without its text', () => {
    const asked = context()
    const hidden = { ...asked, request: { ...asked.request, reasoning: { visible: false } } }
    const events: GenerationEvent[] = [
      START,
      ...part(0, { type: 'reasoning' }, ['hm'], 's'),
      ...part(1, { type: 'reasoning' }, ['unsigned']),
      ...part(2, { type: 'text' }, ['Hi']),
      stop(),
    ]
    const content = [
      { type: 'thinking', thinking: '', signature: 's' },
      { type: 'text', text: 'Hi' },
    ]
    expect(writeResponse(fold(events), hidden)).toMatchObject({ content })
    const writer = messages.serve.writer(hidden)
    const deltas = datas(events.flatMap((event) => writer.write(event))).flatMap(({ delta }) => delta ?? [])
    expect(deltas.map(({ thinking, signature, text }) => thinking ?? signature ?? text)).toEqual(['s', 'Hi', undefined])
  })

  test('has the omitted text of reasoning in the envelope of its signature, from which it is read again', () => {
    const asked = context({ provider: 'g', model: 'x' })
    const hidden = { ...asked, request: { ...asked.request, reasoning: { visible: false } } }
    const events = [START, ...part(0, { type: 'reasoning' }, ['hm\0', ' ok'], 's'), stop()]
    const writer = messages.serve.writer(hidden)
    const streamed = datas(events.flatMap((event) => writer.write(event))).find(({ delta }) => delta?.signature)
    const [block] = (writeResponse(fold(events), hidden) as Any).content
    expect([block.thinking, streamed!.delta.signature]).toEqual(['', block.signature])
    expect(JSON.stringify(block)).not.toContain('ok')
    const { turns } = read({ messages: [{ role: 'assistant', content: [block] }] })
    const signature = { data: 's', issuer: { provider: 'g', model: 'x' } }
    expect(withoutPaths(turns[0]!.parts)).toEqual([{ type: 'reasoning', text: 'hm\0 ok', signature }])
    const unsigned = [START, ...part(0, { type: 'reasoning' }, ['hm']), stop()]
    const { content } = writeResponse(fold(unsigned), hidden) as Any
    const again = read({ messages: [{ role: 'assistant', content }] })
    expect([content[0].thinking, withoutPaths(again.turns[0]!.parts)]).toEqual([
      '',
      [{ type: 'reasoning', text: 'hm' }],
    ])
    const unsignedWriter = messages.serve.writer(hidden)
    const deltas = datas(unsigned.flatMap((event) => unsignedWriter.write(event))).map(({ delta }) => delta?.signature)
    expect(deltas).toContain(content[0].signature)
  })

  test('has calls without arguments, incomplete ones as they came, and free text as one field', () => {
    const head = (form: 'function' | 'custom'): PartHead => ({ type: 'tool-call', id: 'x', name: 'f', form })
    expect(inside(part(0, head('function')))).toEqual([
      '0 {"type":"tool_use","id":"x","name":"f","input":{}}',
      '0 stop',
    ])
    expect(inside(part(0, head('function'), ['{"a":', '"b']))).toContain(
      '0 {"type":"input_json_delta","partial_json":"\\"b"}',
    )
    const custom = datas(
      frames([START, ...part(0, head('custom'), ['say "hi"', '\n\ud83d', '\ude00']), stop('tool-calls')]),
    )
      .filter(({ delta }) => delta?.type === 'input_json_delta')
      .map(({ delta }) => delta.partial_json)
      .join('')
    expect(JSON.parse(custom)).toEqual({ input: 'say "hi"\n😀' })
  })

  test('has citations in the block of their text, which ends after them', () => {
    const citation: PartHead = { type: 'citation', citation: { url: 'https://x', title: 'X' } }
    expect(
      inside([
        ...part(0, { type: 'text' }, ['a']),
        ...part(1, citation),
        ...part(2, citation),
        ...part(3, { type: 'text' }, ['b']),
      ]).map((line) => line.slice(0, 27)),
    ).toEqual([
      '0 {"type":"text","text":""}',
      '0 {"type":"text_delta","tex',
      '0 {"type":"citations_delta"',
      '0 {"type":"citations_delta"',
      '0 stop',
      '1 {"type":"text","text":""}',
      '1 {"type":"text_delta","tex',
      '1 stop',
    ])
    const native = { type: 'char_location', cited_text: 'c', document_index: 0 }
    expect(
      inside([...part(0, { type: 'text' }, ['a']), ...part(1, { type: 'citation', citation: { native } })])[2],
    ).toBe(`0 ${JSON.stringify({ type: 'citations_delta', citation: native })}`)
  })

  test('has a refusal as text with the stop reason refusal', () => {
    const written = datas(frames([START, ...part(0, { type: 'refusal' }, ['No.']), stop()]))
    expect(written[2]).toMatchObject({ delta: { type: 'text_delta', text: 'No.' } })
    expect(written.at(-2)).toMatchObject({ delta: { stop_reason: 'refusal' } })
  })

  test('ends with an error, even as the first frame', () => {
    const error: GenerationEvent = { type: 'error', error: new GatewayError('overloaded', 'full') }
    expect(frames([error, stop()])).toEqual([
      { event: 'error', data: '{"type":"error","error":{"type":"overloaded_error","message":"full"}}' },
    ])
    expect(frames([START, ...part(0, { type: 'text' }, ['a']).slice(0, 2), error]).map(({ event }) => event)).toEqual([
      'message_start',
      'content_block_start',
      'content_block_delta',
      'error',
    ])
  })

  test.each([
    ['stop', 'STOP', 'end_turn'],
    ['length', 'length', 'max_tokens'],
    ['length', 'model_context_window_exceeded', 'model_context_window_exceeded'],
    ['stop-sequence', 'x', 'stop_sequence'],
    ['tool-calls', 'x', 'tool_use'],
    ['content-filter', 'SAFETY', 'refusal'],
    ['refusal', 'refusal', 'refusal'],
    ['pause', 'pause_turn', 'pause_turn'],
    ['other', 'LANGUAGE', 'end_turn'],
  ] as const)('has the finish reason %s (%s) as %s', (reason, raw, expected) => {
    expect(datas(frames([START, { type: 'finish', reason, raw, stopSequence: 'END' }])).at(-2)!.delta).toEqual({
      stop_reason: expected,
      stop_sequence: 'END',
    })
    expect(writeResponse(whole({ finish: { reason, raw, stopSequence: 'END' } }), context())).toMatchObject({
      stop_reason: expected,
      stop_sequence: 'END',
    })
  })
})
