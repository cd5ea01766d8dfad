import { afterAll, describe, expect, test } from 'bun:test'
import Anthropic from '@anthropic-ai/sdk'
import fc from 'fast-check'
import { GatewayError } from '../../../src/error.ts'
import { type Answer, fold, type GenerationEvent, type PartHead, unfold } from '../../../src/generation/event.ts'
import type { Part } from '../../../src/generation/request.ts'
import { wrapSignature } from '../../../src/generation/signature.ts'
import type { ReplayState } from '../../../src/generation/replay.ts'
import { messages } from '../../../src/protocols/messages/index.ts'
import type { Target } from '../../../src/protocols/protocol.ts'
import { checkGrammar, sentences } from '../../grammar.ts'
import { datas, events, context, frames, read, request, whole, wireOf, type Any } from './kit.ts'

/** Streams of messages, written for clients and read from providers. */

const start: GenerationEvent = { type: 'start', id: 'up', model: 'up-model' }
const part = (number: number, head: PartHead, texts: string[] = [], signature?: string): GenerationEvent[] => [
  { type: 'part-start', part: number, head },
  ...texts.map((text): GenerationEvent => ({ type: 'part-delta', part: number, text })),
  { type: 'part-end', part: number, ...(signature === undefined ? {} : { signature }) },
]
const stop = (reason: Answer['finish']['reason'] = 'stop'): GenerationEvent => ({ type: 'finish', reason, raw: 'raw' })
/** The frames between message_start and message_delta, in short. */
const inside = (list: GenerationEvent[], issuer?: { provider: string; model: string }): string[] =>
  datas(frames([start, ...list, stop()], issuer))
    .slice(1, -2)
    .map(
      ({ type, index, content_block, delta }) =>
        `${index} ${type === 'content_block_stop' ? 'stop' : JSON.stringify(content_block ?? delta)}`,
    )

describe('the writer', () => {
  test('frames an answer, each frame under its event line', () => {
    const written = frames([
      start,
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

  test('holds nothing back', () => {
    const writer = messages.serve.writer(context())
    expect(writer.write(start)).toHaveLength(1)
    writer.write({ type: 'part-start', part: 0, head: { type: 'text' } })
    expect(writer.write({ type: 'part-delta', part: 0, text: 'a' })).toHaveLength(2)
    expect(writer.write({ type: 'part-delta', part: 0, text: 'b' })).toHaveLength(1)
  })

  test('leaves no empty blocks behind', () => {
    expect(
      inside([
        ...part(0, { type: 'text' }),
        ...part(1, { type: 'reasoning' }, ['']),
        ...part(2, { type: 'text' }, ['a']),
      ]),
    ).toEqual(['0 {"type":"text","text":""}', '0 {"type":"text_delta","text":"a"}', '0 stop'])
  })

  test('signs thinking, hidden and bare signatures, sealed with their maker', () => {
    const issuer = { provider: 'g', model: 'm' }
    expect(
      inside(
        [
          ...part(0, { type: 'reasoning' }, ['hm'], 's1'),
          ...part(1, { type: 'reasoning', redacted: true }, [], 's2'),
          ...part(2, { type: 'reasoning' }, [], 's3'),
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
    ])
  })

  test('writes a call without arguments, a cut one as it came, and free text as one field', () => {
    const head = (form: 'function' | 'custom'): PartHead => ({ type: 'tool-call', id: 'x', name: 'f', form })
    expect(inside(part(0, head('function')))).toEqual([
      '0 {"type":"tool_use","id":"x","name":"f","input":{}}',
      '0 stop',
    ])
    expect(inside(part(0, head('function'), ['{"a":', '"b']))).toContain(
      '0 {"type":"input_json_delta","partial_json":"\\"b"}',
    )
    const custom = datas(
      frames([start, ...part(0, head('custom'), ['say "hi"', '\n\ud83d', '\ude00']), stop('tool-calls')]),
    )
      .map(({ delta }) => delta?.partial_json ?? '')
      .join('')
    expect(JSON.parse(custom)).toEqual({ input: 'say "hi"\n😀' })
  })

  test('puts citations into the block of their text, which ends behind them', () => {
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

  test('shows a refusal as text that ended in one', () => {
    const written = datas(frames([start, ...part(0, { type: 'refusal' }, ['No.']), stop()]))
    expect(written[2]).toMatchObject({ delta: { type: 'text_delta', text: 'No.' } })
    expect(written.at(-2)).toMatchObject({ delta: { stop_reason: 'refusal' } })
  })

  test('breaks off with an error and nothing after it, even as the first frame', () => {
    const error: GenerationEvent = { type: 'error', error: new GatewayError('overloaded', 'full') }
    expect(frames([error, stop()])).toEqual([
      { event: 'error', data: '{"type":"error","error":{"type":"overloaded_error","message":"full"}}' },
    ])
    expect(frames([start, ...part(0, { type: 'text' }, ['a']).slice(0, 2), error]).map(({ event }) => event)).toEqual([
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
  ] as const)('says %s (%s) as %s', (reason, raw, expected) => {
    expect(datas(frames([start, { type: 'finish', reason, raw, stopSequence: 'END' }])).at(-2)!.delta).toEqual({
      stop_reason: expected,
      stop_sequence: 'END',
    })
    expect(
      messages.serve.writeAnswer(whole({ finish: { reason, raw, stopSequence: 'END' } }), context()),
    ).toMatchObject({ stop_reason: expected, stop_sequence: 'END' })
  })
})

describe('the reader', () => {
  const begin = {
    type: 'message_start',
    message: { id: 'm', model: 'up', usage: { input_tokens: 7, output_tokens: 1 } },
  }
  const end = [
    { type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 5 } },
    { type: 'message_stop' },
  ]
  const open = (index: number, block: Any): Any => ({ type: 'content_block_start', index, content_block: block })
  const append = (index: number, delta: Any): Any => ({ type: 'content_block_delta', index, delta })
  const shut = (index: number): Any => ({ type: 'content_block_stop', index })
  const json = (index: number, partial_json: string): Any => append(index, { type: 'input_json_delta', partial_json })
  const call = (id: string, input: Any = {}): Any => ({ type: 'tool_use', id, name: 'f', input })
  const parts = (list: (Any | string)[]): Part[] => {
    const heard = events([begin, ...list, ...end])
    checkGrammar(heard)
    return fold(heard).parts
  }
  const args = (list: (Any | string)[]): string[] =>
    parts(list).map((part) => (part.type === 'tool-call' ? `${part.id} ${part.arguments}` : part.type))

  test('takes the last word on usage, and keeps what is left out, null or nought', () => {
    const usage = (list: Any[]): Any => fold(events([begin, ...list, ...end])).usage
    expect(usage([])).toMatchObject({ inputTokens: 7, outputTokens: 5 })
    const delta = (value: Any): Any => ({ type: 'message_delta', delta: {}, usage: value })
    expect(
      usage([
        delta({
          input_tokens: 3,
          cache_read_input_tokens: 4,
          cache_creation_input_tokens: 10,
          cache_creation: { ephemeral_5m_input_tokens: 8, ephemeral_1h_input_tokens: 2 },
        }),
      ]),
    ).toMatchObject({ inputTokens: 3, cacheReadTokens: 4, cacheWrite5mTokens: 8, cacheWrite1hTokens: 2 })
    expect(usage([delta({ input_tokens: 0, cache_read_input_tokens: null })])).toMatchObject({ inputTokens: 7 })
    expect(usage([delta({ input_tokens: 0, cache_read_input_tokens: 7 })])).toMatchObject({
      inputTokens: 0,
      cacheReadTokens: 7,
    })
    expect(
      usage([
        delta({ input_tokens: 3, cache_read_input_tokens: 4 }),
        delta({ input_tokens: 3, cache_read_input_tokens: null, output_tokens: null }),
      ]),
    ).toMatchObject({ inputTokens: 3, cacheReadTokens: 4 })
    expect(
      usage([delta({ output_tokens_details: { thinking_tokens: 2 }, server_tool_use: { web_search_requests: 3 } })]),
    ).toMatchObject({ outputTokens: 3, reasoningTokens: 2, webSearches: 3 })
    expect(usage([delta({ input_tokens: -5, output_tokens: 'many' })])).toMatchObject({
      inputTokens: 7,
      outputTokens: 5,
    })
  })

  test('reads a call in one frame, in deltas, and without arguments', () => {
    expect(
      args([
        open(0, call('a', { z: 1 })),
        shut(0),
        open(1, call('b')),
        json(1, ''),
        json(1, '{"x"'),
        json(1, ':1}'),
        shut(1),
        open(2, call('c')),
        shut(2),
      ]),
    ).toEqual(['a {"z":1}', 'b {"x":1}', 'c {}'])
    expect(
      args([
        '{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"a","name":"f","input":{"n":12345678901234567890}}}',
        shut(0),
      ]),
    ).toEqual(['a {"n":12345678901234567890}'])
  })

  test('untangles calls whose deltas are interleaved', () => {
    expect(
      args([
        open(0, call('a')),
        open(1, call('b')),
        json(0, '{"p"'),
        json(1, '{"q"'),
        json(0, ':1}'),
        json(1, ':2}'),
        shut(1),
        shut(0),
      ]),
    ).toEqual(['a {"p":1}', 'b {"q":2}'])
    expect(args([open(0, call('a')), open(1, call('b')), json(1, '{}'), open(2, { type: 'text', text: 'x' })])).toEqual(
      ['a {}', 'b {}', 'text'],
    )
  })

  test('goes on where a server ends no blocks, and in a new part where text comes late', () => {
    const text = (list: Any[]): string[] => parts(list).map((part) => (part.type === 'text' ? part.text : part.type))
    expect(
      text([
        open(0, { type: 'thinking', thinking: '' }),
        append(0, { type: 'thinking_delta', thinking: 'h' }),
        open(1, { type: 'text', text: '' }),
        append(1, { type: 'text_delta', text: 'a' }),
      ]),
    ).toEqual(['reasoning', 'a'])
    expect(text([open(0, { type: 'text', text: 'a' }), shut(0), append(0, { type: 'text_delta', text: 'b' })])).toEqual(
      ['a', 'b'],
    )
    expect(text([append(0, { type: 'text_delta', text: 'lost start' })])).toEqual(['lost start'])
  })

  test('says text at once, though the block before it was never ended', () => {
    const reader = messages.call.reader({})
    const say = (data: Any): GenerationEvent[] => reader.read({ data: JSON.stringify(data) })
    say(open(0, { type: 'thinking', thinking: 'h' }))
    expect(say(open(1, { type: 'text', text: 'a' })).map(({ type }) => type)).toEqual([
      'part-end',
      'part-start',
      'part-delta',
    ])
    expect(say(append(1, { type: 'text_delta', text: 'b' }))).toEqual([{ type: 'part-delta', part: 1, text: 'b' }])
  })

  test('keeps blocks of kinds it does not know whole, their input too', () => {
    const server = { type: 'server_tool_use', id: 's', name: 'web_search', input: {} }
    expect(
      parts([
        open(0, server),
        json(0, '{"query":"x"}'),
        shut(0),
        open(1, { type: 'compaction', content: '' }),
        append(1, { type: 'compaction_delta', content: 'sum' }),
        shut(1),
      ]),
    ).toEqual([
      { type: 'native', protocol: 'messages', kind: 'server_tool_use', value: { ...server, input: { query: 'x' } } },
      { type: 'native', protocol: 'messages', kind: 'compaction', value: { type: 'compaction', content: 'sum' } },
    ])
  })

  test('hangs citations on the text they came in', () => {
    const citation = {
      type: 'web_search_result_location',
      url: 'https://x',
      title: 'X',
      cited_text: 'c',
      encrypted_index: 'e',
    }
    expect(
      parts([
        open(0, { type: 'text', text: '' }),
        append(0, { type: 'citations_delta', citation }),
        append(0, { type: 'text_delta', text: 'abc' }),
        shut(0),
      ]),
    ).toEqual([
      {
        type: 'text',
        text: 'abc',
        citations: [{ url: 'https://x', title: 'X', citedText: 'c', start: 0, end: 3, native: citation }],
      },
    ])
  })

  test('derives a tool turn from the call', () => {
    expect(events([begin, open(0, call('a')), shut(0), ...end]).at(-1)).toEqual({
      type: 'finish',
      reason: 'tool-calls',
      raw: 'end_turn',
    })
    expect(
      events([
        begin,
        open(0, call('a')),
        { type: 'message_delta', delta: { stop_reason: 'max_tokens' } },
        { type: 'message_stop' },
      ]).at(-1),
    ).toMatchObject({ reason: 'length' })
  })

  test.each([
    ['overloaded_error', 'overloaded', 503],
    ['rate_limit_error', 'upstream_rate_limited', 429],
    ['api_error', 'upstream_error', 502],
    ['authentication_error', 'upstream_error', 502],
    ['invalid_request_error', 'invalid_request', 400],
    ['timeout_error', 'upstream_timeout', 504],
  ])('reads %s in mid-stream as %s', (type, code, status) => {
    const heard = events([begin, open(0, call('a')), { type: 'error', error: { type, message: 'said' } }, ...end])
    checkGrammar(heard)
    expect(heard.at(-1)).toMatchObject({ type: 'error', error: { code, status } })
    // A call that was cut must not end like a whole one.
    expect(heard.filter(({ type: kind }) => kind === 'part-end')).toEqual([])
  })

  test('calls an end without message_stop an error, even behind a stop reason', () => {
    for (const list of [[], [begin], [begin, open(0, { type: 'text', text: 'a' })], [begin, end[0]!]]) {
      expect(events(list).at(-1)).toMatchObject({
        type: 'error',
        error: { code: 'upstream_error', message: expect.stringContaining('ended before') },
      })
    }
  })

  test('throws what an error object with status 200 says, and refuses what is no message', () => {
    expect(() =>
      messages.call.readAnswer({ type: 'error', error: { type: 'overloaded_error', message: 'x' } }, {}),
    ).toThrow(expect.objectContaining({ code: 'overloaded' }))
    for (const body of [null, 'x', [], {}, { content: 'x' }])
      expect(() => messages.call.readAnswer(body, {})).toThrow(expect.objectContaining({ code: 'upstream_error' }))
  })

  test('survives anything', () => {
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
      fc.property(fc.array(frame as fc.Arbitrary<Any | string>, { maxLength: 14 }), (list) =>
        checkGrammar(events(list)),
      ),
      { numRuns: 500 },
    )
  })
})

/**
 * Without citations that come after a call has begun: the block they belong to is closed on this protocol's wire by
 * then.
 */
const timely = (sentence: GenerationEvent[]): GenerationEvent[] => {
  const late = new Set<number>()
  let citable = false
  for (const event of sentence) {
    if (event.type !== 'part-start') continue
    if (event.head.type !== 'citation') citable = event.head.type === 'text'
    else if (!citable) late.add(event.part)
  }
  const shift = (number: number): number => number - [...late].filter((part) => part < number).length
  return sentence
    .filter((event) => !('part' in event && late.has(event.part)))
    .map((event) => ('part' in event ? { ...event, part: shift(event.part) } : event))
}

/** Equal answers but for what this protocol has no word for. */
const essence = (answer: Answer): Any => ({
  parts: answer.parts
    .filter(
      (part) =>
        !(part.type === 'text' && part.text === '' && part.signature === undefined) &&
        !(part.type === 'reasoning' && part.text === '' && part.signature === undefined),
    )
    .map((part) => {
      if (part.type === 'refusal') return part.text === '' ? undefined : { type: 'text', text: part.text }
      if (part.type === 'image' || part.type === 'audio')
        return {
          type: 'text',
          text: `[${part.type}: ${(part.source as { mediaType: string }).mediaType}, which an answer of the messages API cannot carry]`,
        }
      if (part.type !== 'text') return part
      const { signature: _signature, citations, ...rest } = part
      return part.text === ''
        ? undefined
        : { ...rest, ...(citations === undefined ? {} : { urls: citations.map(({ url }) => url) }) }
    })
    .filter((part) => part !== undefined)
    .map((part) => ('signature' in part && part.type === 'tool-call' ? { ...part, signature: undefined } : part)),
})

describe('what is written and read again', () => {
  /** Signature blocks are ours: a provider's reader knows them as hidden reasoning. */
  const ours = (part: Part): boolean =>
    part.type === 'reasoning' && part.redacted === true && (part.signature?.data.startsWith('of-') ?? false)
  const reading = (answer: Answer): Any => essence({ ...answer, parts: answer.parts.filter((part) => !ours(part)) })

  test('is the same answer, streamed and whole', () => {
    fc.assert(
      fc.property(sentences({ errors: false }).map(timely), (sentence) => {
        const before = fold(sentence)
        const streamed = fold(events(datas(frames(sentence))))
        const answered = fold(
          messages.call.readAnswer(JSON.parse(JSON.stringify(messages.serve.writeAnswer(before, context()))), {}),
        )
        expect(reading(streamed)).toEqual(essence(before))
        expect(reading(answered)).toEqual(essence(before))
        expect(streamed.usage.inputTokens).toBe(before.usage.inputTokens)
        expect(streamed.usage.outputTokens + streamed.usage.reasoningTokens).toBe(
          before.usage.outputTokens + before.usage.reasoningTokens,
        )
        expect(answered.usage).toEqual(streamed.usage)
      }),
      { numRuns: 300 },
    )
  })

  test('comes back in the next request with every signature where it was, but that of a text at the end', () => {
    const issuer = { provider: 'g', model: 'm' }
    fc.assert(
      fc.property(sentences({ errors: false, kinds: ['text', 'reasoning', 'tool-call'] }), (sentence) => {
        const whole = fold(sentence)
        const { content } = messages.serve.writeAnswer(whole, context(issuer)) as { content: unknown[] }
        fc.pre(content.length > 0)
        const before = {
          parts: whole.parts.map((part, i) =>
            part.type === 'text' && i === whole.parts.length - 1 ? { type: 'text' as const, text: part.text } : part,
          ),
        }
        const [turn] = read({ messages: [{ role: 'assistant', content: JSON.parse(JSON.stringify(content)) }] }).turns
        const sealed = before.parts
          .filter(
            (part) =>
              !(
                (part.type === 'text' || part.type === 'reasoning') &&
                part.text === '' &&
                part.signature === undefined
              ),
          )
          .map((part) =>
            'signature' in part && part.signature !== undefined
              ? { ...part, signature: { ...part.signature, issuer } }
              : part,
          )
        expect(turn!.parts).toEqual(sealed)
      }),
      { numRuns: 200 },
    )
  })

  test('unfolds to the same events', () => {
    const answer = whole({
      parts: [
        { type: 'text', text: 'a' },
        { type: 'tool-call', id: 'x', name: 'f', arguments: '{"a":1}', form: 'function' },
      ],
      finish: { reason: 'tool-calls', raw: 'tool_use' },
    })
    const [first, ...rest] = [...unfold({ ...answer, id: 'msg_1', model: 'p/m' })]
    // Before the end nobody knows how much was put out.
    const { outputTokens: _, ...early } = answer.usage
    const expected: GenerationEvent[] = [first!, { type: 'usage', usage: early }, ...rest]
    expect(events(datas(frames([...unfold(answer)])))).toEqual(expected)
  })
})

describe('the official SDK', () => {
  let body: { text: string; type: string } = { text: '', type: '' }
  const server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    fetch: () => new Response(body.text, { headers: { 'content-type': body.type } }),
  })
  const client = new Anthropic({ apiKey: 'key', baseURL: `http://127.0.0.1:${server.port}`, maxRetries: 0 })
  afterAll(() => server.stop(true))
  const ask = { model: 'p/m', max_tokens: 100, messages: [{ role: 'user' as const, content: 'Hi' }] }

  test('takes every sentence, and gathers the message that we would have written whole', async () => {
    await fc.assert(
      fc.asyncProperty(
        sentences({ kinds: ['text', 'reasoning', 'refusal', 'tool-call', 'citation', 'image'] }).map(timely),
        async (sentence) => {
          const last = sentence.at(-1)!
          body = {
            type: 'text/event-stream',
            text: frames(sentence)
              .map(({ event, data }) => `event: ${event}\ndata: ${data}\n\n`)
              .join(''),
          }
          const message = client.messages.stream(ask).finalMessage()
          if (last.type === 'error') return void (await expect(message).rejects.toThrow(last.error.message))
          const expected = JSON.parse(JSON.stringify(messages.serve.writeAnswer(fold(sentence), context()))) as Any
          const got = JSON.parse(JSON.stringify(await message)) as Any
          expect(got.content.map(tidy)).toEqual(expected.content.map(tidy))
          expect(got).toMatchObject({
            id: 'msg_1',
            model: 'p/m',
            stop_reason: expected.stop_reason,
            usage: { input_tokens: expected.usage.input_tokens, output_tokens: expected.usage.output_tokens },
          })
        },
      ),
      { numRuns: 60 },
    )
  }, 30_000)

  test('takes a whole message', async () => {
    const answer = whole({
      parts: [
        { type: 'reasoning', text: 'hm', signature: { data: 's' } },
        { type: 'text', text: 'a' },
        { type: 'tool-call', id: 'x', name: 'f', arguments: '{"cut', form: 'function' },
      ],
      finish: { reason: 'length', raw: 'length' },
    })
    body = { type: 'application/json', text: JSON.stringify(messages.serve.writeAnswer(answer, context())) }
    expect(await client.messages.create(ask)).toMatchObject({
      content: [
        { type: 'thinking', thinking: 'hm', signature: 's' },
        { type: 'text', text: 'a' },
        { type: 'tool_use', id: 'x', name: 'f', input: {} },
      ],
      stop_reason: 'max_tokens',
    })
  })
})

/** Members that the SDK's accumulator adds or leaves out. */
const tidy = ({ citations, ...block }: Any): Any => ({
  ...block,
  ...(citations == null || citations.length === 0 ? {} : { citations }),
})

describe('passing on', () => {
  const there = { provider: 'there', model: 'upstream', quirks: {}, capabilities: {} }
  const forward = (text: string): string => messages.call.forward({ ...context(), rawRequest: wireOf(text) }, there)

  test('changes the model and not a byte besides', () => {
    const text =
      '{ "max_tokens":1.0,"model" : "p/m", "messages":[{"role":"user","content":"signature"}],"big":12345678901234567890,"model2":"p/m"}'
    expect(forward(text)).toBe(text.replace('"p/m", "mess', '"upstream", "mess'))
  })

  test("takes out what other models signed, and gives the model's own back plain", () => {
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
            { type: 'thinking', thinking: 'd', signature: 'plain' },
            { type: 'redacted_thinking', data: wrapSignature('of-part:y', other) },
            { type: 'text', text: 't', citations: [{ encrypted_index: '' }] },
          ],
        },
        { role: 'assistant', content: [{ type: 'redacted_thinking', data: wrapSignature('x', other) }] },
      ],
    }).replace('"big":1', '"big":12345678901234567890')
    const forwarded = forward(text)
    expect(forwarded).toContain('"big":12345678901234567890')
    expect((JSON.parse(forwarded) as Any).messages).toEqual([
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

  test('lets thoughts that nobody signed go where they are wanted, and an empty block where there are none', () => {
    const other = wrapSignature('x', { provider: 'g', model: 'm' })
    const use = (id: string): Any => ({ type: 'tool_use', id, name: 'f', input: {} })
    const content = [
      [{ type: 'thinking', thinking: 'a', signature: '' }, use('a')],
      [{ type: 'thinking', thinking: 'b' }, use('b')],
      [{ type: 'text', text: 't' }, use('c')],
      [{ type: 'thinking', thinking: 'd', signature: other }, use('d')],
      [use('e')],
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
      const rawRequest = wireOf(
        JSON.stringify({
          model: 'p/m',
          ...more,
          messages: content.map((blocks) => ({ role: 'assistant', content: blocks })),
        }),
      )
      return (
        JSON.parse(
          messages.call.forward({ ...context(), rawRequest, restoredReasoning: replayStates }, { ...there, quirks }),
        ) as Any
      ).messages.map((message: Any) =>
        message.content.map((block: Any) =>
          block.type === 'thinking' ? `${block.thinking}|${block.signature ?? ''}` : block.type,
        ),
      )
    }
    expect(sent({ reasoningField: 'reasoning_content' })).toEqual([
      ['a|', 'tool_use'],
      ['b|', 'tool_use'],
      ['|', 'text', 'tool_use'],
      ['|', 'tool_use'],
      ['kept|', 'tool_use'],
    ])
    const bare = [['tool_use'], ['b|', 'tool_use'], ['text', 'tool_use'], ['tool_use'], ['tool_use']]
    expect(sent({})).toEqual(bare)
    expect(sent({ reasoningField: 'reasoning_content' }, { thinking: { type: 'disabled' } })[2]).toEqual([
      'text',
      'tool_use',
    ])
  })

  test('relabels the first frame and returns all others as they are', () => {
    const passthrough = messages.passthrough(context())
    const begin = {
      event: 'message_start',
      data: '{"type": "message_start", "message":{"usage":{"big":12345678901234567890},"model":"up","id":"m"}  }',
    }
    expect(passthrough.frame(begin)).toEqual({
      event: 'message_start',
      data: '{"type": "message_start", "message":{"usage":{"big":12345678901234567890},"model":"p/m","id":"msg_1"}  }',
    })
    const delta = {
      event: 'content_block_delta',
      data: '{"type":"content_block_delta","delta":{"text":"message_start"}}',
    }
    expect(passthrough.frame(delta)).toBe(delta)
  })

  test('gives frames their event line where a server forgets it, and drops a foreign end mark', () => {
    const passthrough = messages.passthrough(context())
    expect(passthrough.frame({ data: '{"type":"ping"}' })).toEqual({ event: 'ping', data: '{"type":"ping"}' })
    expect(passthrough.frame({ data: '[DONE]' })).toBeUndefined()
  })

  test('breaks off with an error', () => {
    expect(messages.passthrough(context()).fail(new GatewayError('upstream_timeout', 'late'))).toEqual([
      { event: 'error', data: '{"type":"error","error":{"type":"timeout_error","message":"late"}}' },
    ])
  })
})

test('a reader without a request knows no rewritten names', () => {
  expect(
    events(
      [
        { type: 'content_block_start', index: 0, content_block: { type: 'tool_use', id: 'x', name: 'f', input: {} } },
        { type: 'message_stop' },
      ],
      request(),
    ),
  ).toMatchObject([
    { type: 'start' },
    { type: 'part-start', head: { name: 'f', form: 'function' } },
    { type: 'part-delta', text: '{}' },
    { type: 'part-end' },
    { type: 'finish', reason: 'tool-calls' },
  ])
})
