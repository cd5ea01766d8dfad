import { describe, expect, test } from 'bun:test'
import { GatewayError } from '../../../src/error.ts'
import type { ContentFilter, GenerationEvent } from '../../../src/generation/event.ts'
import { wrapSignature } from '../../../src/generation/signature.ts'
import { responses } from '../../../src/protocols/responses/index.ts'
import { LossReport } from '../../../src/protocols/translation.ts'
import { call, contextOf, framesOf, last, length, parsed, sentence, stop, text, types, type Any } from './fixtures.ts'

/** Streams and whole responses to clients of the Responses API. */

const issuer = { provider: 'issuer', model: 'm1' }

describe('the stream of a text', () => {
  const frames = parsed(
    framesOf([
      ...sentence([text, ['Hel', 'lo']], {
        usage: { inputTokens: 7, cacheReadTokens: 3, outputTokens: 2, reasoningTokens: 1, webSearches: 2 },
      }),
      stop,
    ]),
  )

  test("has OpenAI's events in their order", () => {
    expect(types(frames)).toEqual([
      'created',
      'in_progress',
      'output_item.added',
      'content_part.added',
      'output_text.delta',
      'output_text.delta',
      'output_text.done',
      'content_part.done',
      'output_item.done',
      'completed',
    ])
  })

  test('is numbered from 0 without gaps, and has the event name on each frame', () => {
    expect(frames.map(({ sequence_number }) => sequence_number)).toEqual(frames.map((_, index) => index))
    for (const frame of framesOf([...sentence([text, ['x']]), stop]))
      expect(frame.event).toBe(JSON.parse(frame.data).type)
  })

  test('has one item id, and an empty item at first', () => {
    const [added] = frames.filter(({ type }) => type === 'response.output_item.added')
    expect(added!.item).toEqual({
      id: added!.item.id,
      type: 'message',
      status: 'in_progress',
      role: 'assistant',
      content: [],
    })
    expect(added!.item.id).toMatch(/^msg_[0-9a-f]{32}$/)
    expect(new Set(frames.map(({ item_id }) => item_id).filter(Boolean))).toEqual(new Set([added!.item.id]))
    expect(last(frames).output).toEqual([
      {
        ...added!.item,
        status: 'completed',
        content: [{ type: 'output_text', text: 'Hello', annotations: [], logprobs: [] }],
      },
    ])
  })

  test('ends with the whole response object', () => {
    expect(last(frames)).toMatchObject({
      id: 'resp_1',
      object: 'response',
      created_at: 1_700_000_000,
      status: 'completed',
      background: false,
      content_filters: [],
      error: null,
      incomplete_details: null,
      instructions: null,
      max_output_tokens: null,
      max_tool_calls: null,
      model: 'a/b',
      parallel_tool_calls: true,
      previous_response_id: null,
      prompt_cache_key: null,
      prompt_cache_retention: null,
      safety_identifier: null,
      user: null,
      reasoning: { effort: 'medium', summary: null },
      service_tier: 'default',
      store: true,
      temperature: 1,
      top_p: 1,
      text: { format: { type: 'text' }, verbosity: 'medium' },
      tool_choice: 'auto',
      tools: [],
      top_logprobs: 0,
      truncation: 'disabled',
      metadata: {},
      usage: {
        input_tokens: 10,
        input_tokens_details: { cached_tokens: 3, cache_write_tokens: 0, web_search: 2 },
        output_tokens: 3,
        output_tokens_details: { reasoning_tokens: 1 },
        total_tokens: 13,
      },
    })
  })

  test('echoes the settings of the request', () => {
    const asked = {
      instructions: 'be',
      tools: [{ type: 'function', name: 'f', strict: null }],
      tool_choice: { type: 'function', name: 'f' },
      temperature: 0,
      top_p: 0,
      store: false,
      metadata: { a: 'b' },
      reasoning: { effort: 'low' },
      previous_response_id: 'resp_0',
      parallel_tool_calls: false,
    }
    expect(last(parsed(framesOf([...sentence(), stop], contextOf(asked))))).toMatchObject({
      ...asked,
      tools: [{ type: 'function', name: 'f', parameters: null, strict: false }],
      reasoning: { effort: 'low', summary: null },
    })
  })

  test('claims neither a background nor a tier that the provider did not report', () => {
    const context = contextOf({ background: true, service_tier: 'flex' })
    context.responseIdentity.issuer = { provider: 'p', model: 'm' }
    const unreported = last(parsed(framesOf([...sentence(), stop], context)))
    expect([unreported.background, unreported.service_tier]).toEqual([false, 'default'])
    const reported = { type: 'usage', usage: {}, service: { service_tier: 'priority' } } as const
    expect(last(parsed(framesOf([...sentence(), reported, stop], context))).service_tier).toBe('priority')
  })

  test('has the ratings of the provider as content filters', () => {
    const results = { harassment: { filtered: true, severity: 'high' } }
    const raw = [{ category: 'HARM_CATEGORY_HARASSMENT' }]
    const filters: ContentFilter[] = [{ source: 'completion', blocked: true, results, raw }]
    const end: GenerationEvent = { type: 'finish', reason: 'content-filter', raw: 'SAFETY', filters }
    const filtered = last(parsed(framesOf([...sentence([text, ['Hello']]), end])))
    expect(filtered).toMatchObject({ status: 'incomplete', incomplete_details: { reason: 'content_filter' } })
    expect(filtered.content_filters).toEqual([
      {
        blocked: true,
        source_type: 'completion',
        content_filter_raw: raw,
        content_filter_results: results,
        content_filter_offsets: { start_offset: 0, end_offset: 5, check_offset: 5 },
      },
    ])
  })
})

test('a response without usage has null instead of incomplete details', () => {
  expect(last(parsed(framesOf([...sentence([text, ['x']]), stop]))).usage).toBeNull()
})

test('a refusal without a text is an incomplete response, and one with a text a complete response', () => {
  const refused = { type: 'finish' as const, reason: 'refusal' as const, raw: 'refusal' }
  expect(last(parsed(framesOf([...sentence([text, ['Well']]), refused])))).toMatchObject({
    status: 'incomplete',
    incomplete_details: { reason: 'content_filter' },
  })
  expect(last(parsed(framesOf([...sentence([{ type: 'refusal' }, ['no']]), refused])))).toMatchObject({
    status: 'completed',
    incomplete_details: null,
  })
})

test('a text and a refusal are one message, and citations come before the end of the text', () => {
  const frames = parsed(
    framesOf([
      ...sentence(
        [text, ['see']],
        [{ type: 'citation', citation: { url: 'https://x.y', title: 'X' } }, []],
        [{ type: 'refusal' }, ['no']],
      ),
      stop,
    ]),
  )
  expect(types(frames).slice(2, -1)).toEqual([
    'output_item.added',
    'content_part.added',
    'output_text.delta',
    'output_text.annotation.added',
    'output_text.done',
    'content_part.done',
    'content_part.added',
    'refusal.delta',
    'refusal.done',
    'content_part.done',
    'output_item.done',
  ])
  const annotation = { type: 'url_citation', url: 'https://x.y', title: 'X', start_index: 0, end_index: 3 }
  expect(last(frames).output[0].content).toEqual([
    { type: 'output_text', text: 'see', annotations: [annotation], logprobs: [] },
    { type: 'refusal', refusal: 'no' },
  ])
})

test("citations of Anthropic's files are annotations of a file, with the loss of their position", () => {
  const losses = new LossReport()
  const native = {
    type: 'char_location',
    file_id: 'file_1',
    document_index: 0,
    document_title: 'Doc',
    start_char_index: 0,
    end_char_index: 3,
    cited_text: 'yes',
  }
  const events = [
    ...sentence([text, ['see']], [{ type: 'citation', citation: { title: 'Doc', citedText: 'yes', native } }, []]),
    stop,
  ]
  const frames = parsed(framesOf(events, contextOf({}, { losses })))
  expect(last(frames).output[0].content[0].annotations).toEqual([
    { type: 'file_citation', file_id: '', filename: 'Doc', index: 0 },
  ])
  expect(losses.losses).toMatchObject([{ code: 'response_citation_adjusted', path: 'response.citations' }])
})

test('an empty text before a call is not a message', () => {
  expect(
    last(parsed(framesOf([...sentence([text, []], [call('c1'), ['{}']]), stop]))).output.map((item: Any) => item.type),
  ).toEqual(['function_call'])
})

test('summaries and raw reasoning have events of their own, and their signature on the finished item', () => {
  const frames = parsed(
    framesOf([
      ...sentence(
        [{ type: 'reasoning', form: 'summary' }, ['a', 'b'], 'sig'],
        [{ type: 'reasoning', form: 'raw' }, ['c']],
        [{ type: 'reasoning', redacted: true }, [], 'hidden'],
      ),
      stop,
    ]),
  )
  expect(types(frames).slice(2, -1)).toEqual([
    'output_item.added',
    'reasoning_summary_part.added',
    'reasoning_summary_text.delta',
    'reasoning_summary_text.delta',
    'reasoning_summary_text.done',
    'reasoning_summary_part.done',
    'output_item.done',
    'output_item.added',
    'content_part.added',
    'reasoning_text.delta',
    'reasoning_text.done',
    'content_part.done',
    'output_item.done',
    'output_item.added',
    'output_item.done',
  ])
  const [summary, raw, hidden] = last(frames).output
  expect(summary).toEqual({
    id: summary.id,
    type: 'reasoning',
    summary: [{ type: 'summary_text', text: 'ab' }],
    encrypted_content: wrapSignature('sig', issuer),
  })
  expect(raw).toEqual({ id: raw.id, type: 'reasoning', summary: [], content: [{ type: 'reasoning_text', text: 'c' }] })
  expect(hidden).toEqual({ id: hidden.id, type: 'reasoning', summary: [], encrypted_content: expect.any(String) })
  for (const item of [summary, raw, hidden]) expect(item.id).toMatch(/^rs_[0-9a-f]{32}$/)
})

describe('the stream of a call', () => {
  test('has events of its own for functions and for custom tools', () => {
    const frames = parsed(
      framesOf([
        ...sentence([call('c1', 'f'), ['{"a"', ':1}']], [call('c2', 'g', 'custom'), ['free']]),
        { type: 'finish', reason: 'tool-calls', raw: 'x' },
      ]),
    )
    expect(types(frames).slice(2)).toEqual([
      'output_item.added',
      'function_call_arguments.delta',
      'function_call_arguments.delta',
      'function_call_arguments.done',
      'output_item.done',
      'output_item.added',
      'custom_tool_call_input.delta',
      'custom_tool_call_input.done',
      'output_item.done',
      'completed',
    ])
    expect(frames.find(({ type }) => type.endsWith('arguments.done'))).toMatchObject({
      name: 'f',
      arguments: '{"a":1}',
    })
    expect(last(frames).output).toMatchObject([
      { type: 'function_call', call_id: 'c1', name: 'f', arguments: '{"a":1}', status: 'completed' },
      { type: 'custom_tool_call', call_id: 'c2', name: 'g', input: 'free', status: 'completed' },
    ])
    expect(last(frames).output.map(({ id }: Any) => id.split('_')[0])).toEqual(['fc', 'ctc'])
  })

  test('has an empty object for a call without arguments', () => {
    const frames = parsed(framesOf([...sentence([call('c1'), []]), stop]))
    expect(frames.filter(({ type }) => type.endsWith('arguments.delta')).map(({ delta }) => delta)).toEqual(['{}'])
    expect(last(frames).output[0].arguments).toBe('{}')
  })

  test('is incomplete only for the call that was cut', () => {
    const frames = parsed(
      framesOf([...sentence([text, ['hm']], [call('c1'), ['{}']], [call('c2'), ['{"a":']]), length]),
    )
    expect(frames.at(-1)!.type).toBe('response.incomplete')
    expect(last(frames)).toMatchObject({
      status: 'incomplete',
      incomplete_details: { reason: 'max_output_tokens' },
      completed_at: null,
    })
    expect(last(frames).output.map(({ status }: Any) => status)).toEqual(['completed', 'completed', 'incomplete'])
  })

  test('has the namespace of the tool', () => {
    const tools = [{ type: 'namespace', name: 'ns', description: '', tools: [{ type: 'function', name: 'inner' }] }]
    expect(
      last(parsed(framesOf([...sentence([call('c1', 'inner'), ['{}']]), stop], contextOf({ tools })))).output[0],
    ).toMatchObject({ name: 'inner', namespace: 'ns' })
  })
})

test('a web search of the provider has its events', () => {
  const value = { id: 'ws_1', type: 'web_search_call', status: 'completed', action: { type: 'search', query: 'q' } }
  const frames = parsed(
    framesOf([...sentence([{ type: 'native', protocol: 'responses', kind: 'web_search_call', value }, []]), stop]),
  )
  expect(types(frames).slice(2, -1)).toEqual([
    'output_item.added',
    'web_search_call.in_progress',
    'web_search_call.searching',
    'web_search_call.completed',
    'output_item.done',
  ])
  expect(last(frames).output).toEqual([value])
})

test('nothing follows the end, and the response is stored once', () => {
  const kept: Any[] = []
  const writer = responses.serve.writer(contextOf({}, { keep: (response) => kept.push(structuredClone(response)) }))
  for (const event of [...sentence([text, ['x']]), stop]) writer.write(event)
  expect([
    ...writer.write(stop),
    ...writer.write({ type: 'error', error: new GatewayError('upstream_error', 'late') }),
  ]).toEqual([])
  expect(kept.length).toBe(1)
  expect(kept[0]).toMatchObject({ status: 'completed', output: [{ type: 'message' }] })
})

test('the stream of a response that came in one piece has no item for a member of an item', () => {
  const events = responses.call.readResponse(
    {
      id: 'resp_0',
      model: 'm',
      status: 'completed',
      output: [
        {
          type: 'message',
          id: 'msg_0',
          phase: 'final_answer',
          mood: { a: 1 },
          content: [{ type: 'output_text', text: 'x' }],
        },
      ],
    },
    {},
  )
  const frames = parsed(framesOf(events))
  expect(last(frames).output.map(({ type }: Any) => type)).toEqual(['message'])
  expect(frames.filter(({ type }) => type === 'response.output_item.done')).toHaveLength(1)
})
