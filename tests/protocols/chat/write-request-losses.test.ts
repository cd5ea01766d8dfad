import { describe, expect, test } from 'bun:test'
import { fold } from '../../../src/generation/event.ts'
import type { GenerationRequest, MediaPart, Part } from '../../../src/generation/request.ts'
import type { Capabilities } from '../../../src/protocols/protocol.ts'
import type { Quirks } from '../../../src/protocols/quirks.ts'
import { eventsOf, written } from '../../translating.ts'
import { callOf, requestOf, resultOf, targetOf, textOf, type Json } from './building.ts'

/** Losses of requests to providers of chat completions, by code and path, and transforms of the responses. */

const sentFor = (fields: Partial<GenerationRequest>, quirks: Quirks = {}, capabilities: Capabilities = {}) => {
  const { body, losses, transforms } = written('chat.completions', requestOf(fields), targetOf(quirks, capabilities))
  return { body: body as Json, transforms, lost: losses.map(({ code, path }) => `${code} ${path}`) }
}

const PNG: MediaPart['source'] = { type: 'data', mediaType: 'image/png', data: 'AAAA' }
const PDF: MediaPart['source'] = { type: 'data', mediaType: 'application/pdf', data: 'BBBB' }
const WAV: MediaPart['source'] = { type: 'data', mediaType: 'audio/wav', data: 'CCCC' }
const URL: MediaPart['source'] = { type: 'url', url: 'https://a.b/c' }
const TEXT: MediaPart['source'] = { type: 'text', text: 'plain', mediaType: 'text/plain' }

test('text after a call is sent before it, which is reported', () => {
  const parts: Part[] = [textOf('a'), callOf('1'), { type: 'text', text: '' }, { type: 'text', text: 'b', path: 'q' }]
  const turns: GenerationRequest['turns'] = [
    { role: 'assistant', parts },
    { role: 'tool', parts: [resultOf('1', [textOf('x')])] },
  ]
  const { body, lost } = sentFor({ turns })
  expect(body.messages[0]).toMatchObject({ content: 'ab', tool_calls: [{ id: '1' }] })
  expect(lost).toEqual(['turn_reordered q'])
})

test('reasoning after text or a call is sent before both, which is reported', () => {
  const reasoningOf = (text: string, more: object = {}): Part => ({ type: 'reasoning', text, path: text, ...more })
  const lostOf = (parts: Part[], quirks: Quirks = {}) =>
    sentFor(
      {
        turns: [
          { role: 'assistant', parts },
          { role: 'user', parts: [textOf('x')] },
        ],
      },
      quirks,
    )
  const interleaved = [reasoningOf('r1'), textOf('a'), reasoningOf('r2'), textOf('b')]
  const { body, lost } = lostOf(interleaved)
  expect(body.messages[0]).toMatchObject({ reasoning_content: 'r1r2', content: 'ab' })
  expect(lost).toEqual(['turn_reordered r2'])
  expect(lostOf(interleaved, { reasoningField: 'reasoning_details' }).lost).toEqual(['turn_reordered r2'])
  const lostAfterCall = lostOf([callOf('1'), reasoningOf('r1'), callOf('2')]).lost
  expect(lostAfterCall).toContain('turn_reordered r1')
  expect(lostOf([textOf(''), reasoningOf('r1'), reasoningOf('r2'), textOf('b')]).lost).toEqual([])
  // Without a text there is nothing to read in another order.
  const signature = { data: 's', issuer: { provider: 'p', model: 'up-model' } }
  expect(lostOf([textOf('a'), reasoningOf('', { redacted: true, signature })]).lost).toEqual([])
  expect(lostOf(interleaved, { reasoningField: 'none' }).lost).toEqual(['reasoning_dropped r1', 'reasoning_dropped r2'])
})

describe('media', () => {
  const sent = (type: MediaPart['type'], source: MediaPart['source'], quirks: Quirks = {}, more: object = {}): Json =>
    sentFor({ turns: [{ role: 'user', parts: [{ type, source, path: 'p', ...more }, textOf('x')] }] }, quirks).body
      .messages[0].content[0]

  test('media are sent by kind and source in the form of the provider', () => {
    expect(sent('image', PNG, {}, { detail: 'low' })).toEqual({
      type: 'image_url',
      image_url: { url: 'data:image/png;base64,AAAA', detail: 'low' },
    })
    expect(sent('image', URL)).toEqual({ type: 'image_url', image_url: { url: 'https://a.b/c' } })
    expect(sent('audio', WAV)).toEqual({ type: 'input_audio', input_audio: { data: 'CCCC', format: 'wav' } })
    expect(sent('audio', WAV, { mediaParts: 'strings' })).toEqual({ type: 'input_audio', input_audio: 'CCCC' })
    expect(sent('file', PDF)).toEqual({
      type: 'file',
      file: { filename: 'file.pdf', file_data: 'data:application/pdf;base64,BBBB' },
    })
    expect(sent('file', URL, {}, { filename: 'c.pdf' })).toEqual({
      type: 'file',
      file: { filename: 'c.pdf', file_data: 'https://a.b/c' },
    })
    expect(sent('file', PDF, { mediaParts: 'strings' }, { filename: 'c.pdf' })).toEqual({
      type: 'document_url',
      document_url: 'data:application/pdf;base64,BBBB',
      document_name: 'c.pdf',
    })
    expect(sent('file', TEXT, {}, { filename: 'c.txt' })).toEqual({ type: 'text', text: 'c.txt:\nplain' })
  })

  test('media that cannot be sent are refused with their path', () => {
    expect(() => sent('video', URL)).toThrow('p: video input given as a URL cannot be sent')
    expect(() => sent('image', { type: 'file', id: 'f' })).toThrow('p: image input given as a file id cannot be sent')
    expect(() => sent('audio', URL)).toThrow('p: audio input given as a URL cannot be sent')
  })

  test('a detail, a name and a text document are reported with their paths', () => {
    const parts: Part[] = [
      { type: 'image', source: PNG, detail: 'medium', path: 'messages[0].content[0]' },
      { type: 'image', source: PNG, filename: 'a.png', path: 'messages[0].content[1]' },
      { type: 'file', source: TEXT, path: 'messages[0].content[2]' },
    ]
    expect(sentFor({ turns: [{ role: 'user', parts }] }).lost).toEqual([
      'detail_adjusted messages[0].content[0]',
      'unsupported_field messages[0].content[1]',
      'content_as_text messages[0].content[2]',
    ])
  })
})

describe('conversations', () => {
  const signature = { data: 'S', issuer: { provider: 'p', model: 'other' } }

  test('each part that cannot be sent is reported with its path', () => {
    const native = { type: 'native', protocol: 'messages', kind: 'odd', value: {}, optional: true } as const
    const { lost } = sentFor({
      turns: [
        { role: 'user', parts: [textOf('a'), { ...native, path: 'messages[0].content[1]' }] },
        {
          role: 'assistant',
          parts: [
            { type: 'reasoning', text: 'r', signature, path: 'messages[1].content[0]' },
            { type: 'text', text: 't', signature, path: 'messages[1].content[1]' },
            { type: 'image', source: PNG, path: 'messages[1].content[2]' },
            { ...native, path: 'messages[1].content[3]' },
            { ...callOf('a'), path: 'messages[1].content[4]' },
          ],
        },
        { role: 'assistant', parts: [{ type: 'reasoning', text: 'r', path: 'messages[2].content[0]' }] },
      ],
    })
    expect(lost).toEqual([
      'content_native messages[0].content[1]',
      'signature_dropped messages[1].content[1]',
      'content_dropped messages[1].content[2]',
      'content_native messages[1].content[3]',
      'reasoning_dropped messages[1].content[0]',
      'turn_reordered messages[2].content[0]',
      'result_added messages[1].content[4]',
    ])
  })

  test('reasoning without content after it is reported with its path', () => {
    const parts: Part[] = [{ type: 'reasoning', text: 'r', path: 'messages[1].content[0]' }]
    expect(
      sentFor({
        turns: [
          { role: 'user', parts: [textOf('a')] },
          { role: 'assistant', parts },
        ],
      }).lost,
    ).toEqual(['reasoning_dropped messages[1].content[0]'])
  })

  test('media, errors and positions of results are reported with their paths', () => {
    const image: Part = { type: 'image', source: PNG, path: 'messages[1].content[0].content[0]' }
    const { lost } = sentFor({
      turns: [
        { role: 'assistant', parts: [callOf('a')] },
        {
          role: 'tool',
          parts: [
            resultOf('a', [image], { isError: true, path: 'messages[1].content[0]' }),
            resultOf('zz', [textOf('R')], { path: 'messages[1].content[1]' }),
          ],
        },
      ],
    })
    expect(lost).toEqual([
      'content_as_text messages[1].content[0]',
      'media_moved messages[1].content[0].content[0]',
      'content_as_text messages[1].content[1]',
    ])
  })

  test('a provider with strict roles gets another order, which is reported with its paths', () => {
    const { body, lost } = sentFor(
      {
        turns: [
          { role: 'assistant', parts: [callOf('a')] },
          { role: 'tool', parts: [resultOf('a')] },
          { role: 'user', parts: [textOf('u')], path: 'messages[2]' },
          { role: 'assistant', parts: [textOf('x')] },
          { role: 'system', parts: [textOf('S')], path: 'messages[4]' },
          { role: 'assistant', parts: [textOf('y')], path: 'messages[5]' },
        ],
      },
      { strictRoles: true },
    )
    expect(body.messages.slice(2)).toEqual([
      { role: 'assistant', content: 'I have read the results.' },
      { role: 'user', content: 'u' },
      { role: 'assistant', content: 'x' },
      { role: 'user', content: '<system>\nS\n</system>' },
      { role: 'assistant', content: 'y', prefix: true },
    ])
    expect(lost).toEqual([
      'instructions_moved messages[4]',
      'turn_added messages[2]',
      'prefill_unsupported messages[5]',
    ])
    const answered = [
      { role: 'assistant' as const, parts: [callOf('a')] },
      { role: 'tool' as const, parts: [resultOf('a')] },
      { role: 'system' as const, parts: [textOf('S')] },
    ]
    expect(sentFor({ turns: answered }, { strictRoles: true }).body.messages.slice(2)).toEqual([
      { role: 'assistant', content: 'I have read the results.' },
      { role: 'user', content: '<system>\nS\n</system>' },
    ])
  })

  test('a refused name and refused instructions are reported with their paths', () => {
    const turns: GenerationRequest['turns'] = [{ role: 'user', parts: [textOf('a')], name: 'ada', path: 'messages[0]' }]
    expect(sentFor({ turns }, { refuses: ['messages[].name'] }).lost).toEqual(['unsupported_by_provider messages[0]'])
    const system: Part[] = [{ type: 'text', text: 'S', path: 'system[0]' }]
    const { body, lost } = sentFor({ system }, {}, { system: false })
    expect(body.messages[0]).toEqual({ role: 'user', content: '<system>\nS\n</system>' })
    expect(lost).toEqual(['instructions_moved system[0]'])
  })
})

describe('transforms', () => {
  const responseWith = (message: Json): Json => ({ choices: [{ message, finish_reason: 'stop' }] })
  const list: GenerationRequest['outputFormat'] = {
    type: 'schema',
    schema: { type: 'array', items: { type: 'string' } },
  }

  test('a described schema of a list is wrapped, and the response is unwrapped', () => {
    const { body, lost, transforms } = sentFor({ outputFormat: list }, {}, { formats: ['json_object'] })
    expect(body.response_format).toEqual({ type: 'json_object' })
    expect(body.messages[0].content).toContain('"properties":{"answer":{"type":"array"')
    expect(lost).toEqual(['format_described output_config.format'])
    const { parts } = fold(eventsOf('chat.completions', responseWith({ content: '{"answer":["a"]}' }), { transforms }))
    expect(parts).toEqual([{ type: 'text', text: '["a"]' }])
  })

  test('a described schema of an object is not wrapped, and only its description is reported', () => {
    const outputFormat: GenerationRequest['outputFormat'] = { type: 'schema', schema: { type: 'object' }, strict: true }
    expect(sentFor({ outputFormat }).lost).toEqual(['schema_not_enforced output_config.format.schema'])
    const described = sentFor({ outputFormat, stream: true }, { formatAlone: true }, {})
    expect(described.transforms).toEqual([])
    expect(described.lost).toEqual(['format_described output_config.format'])
  })

  test('a described schema has the name and the description of its format', () => {
    const schema = { type: 'object', properties: { a: { type: 'string' } } }
    const outputFormat: GenerationRequest['outputFormat'] = {
      type: 'schema',
      schema,
      name: 'city',
      description: 'Where?',
    }
    const { body } = sentFor({ outputFormat }, {}, { formats: ['json_object'] })
    const [, described] = body.messages[0].content.split('with nothing else:\n')
    expect(JSON.parse(described)).toEqual({ title: 'city', description: 'Where?', ...schema })
  })

  test('a renamed tool is reported with its path, and its calls get the name of the client', () => {
    const tools: GenerationRequest['tools'] = [{ type: 'function', name: 'a.b', path: 'tools[0]' }]
    const { body, lost, transforms } = sentFor({ tools })
    const { name } = body.tools[0].function
    expect(name).toMatch(/^a_b_[0-9a-f]{8}$/)
    expect(lost).toEqual(['tool_renamed tools[0]'])
    const tool_calls = [{ id: 'c', type: 'function', function: { name, arguments: '{}' } }]
    const { parts } = fold(eventsOf('chat.completions', responseWith({ tool_calls }), { transforms }))
    expect(parts).toEqual([{ type: 'tool-call', id: 'c', name: 'a.b', form: 'function', arguments: '{}' }])
  })
})

describe('a forced call of a model that does not reason meanwhile', () => {
  const forced: Partial<GenerationRequest> = {
    tools: [{ type: 'function', name: 'f' }],
    toolChoice: { type: 'tool', name: 'f' },
  }
  const efforts: Capabilities['efforts'] = ['none', 'low', 'high']

  test('the call is forced, and the reasoning is switched off and reported', () => {
    for (const [reasoning, path] of [
      [{ effort: 'high' }, 'thinking'],
      [{ budgetTokens: 2000 }, 'thinking'],
      [undefined, 'tool_choice'],
    ] as const) {
      const fields = { ...forced, ...(reasoning === undefined ? {} : { reasoning }) }
      const { body, lost } = sentFor(fields, {}, { forcedTools: 'idle', efforts })
      expect(body).toMatchObject({
        tool_choice: { type: 'function', function: { name: 'f' } },
        reasoning_effort: 'none',
      })
      expect(lost).toEqual([`reasoning_not_possible ${path}`])
    }
  })

  test('the choice is auto where reasoning cannot be switched off', () => {
    const { body, lost } = sentFor(forced, {}, { forcedTools: 'idle', efforts: ['low', 'high'] })
    expect(body.tool_choice).toBe('auto')
    expect(lost).toEqual(['tool_choice_adjusted tool_choice'])
  })
})

describe('a budget of reasoning tokens', () => {
  test.each([
    [5000, 5001, 5000, []],
    [5000, 5000, 4000, ['budget_adjusted']],
    [500, 1281, 1024, ['budget_adjusted']],
    [5000, 1280, 1024, ['budget_adjusted']],
    [5000, 1279, undefined, ['reasoning_not_possible']],
  ])('of %p is with an output limit of %p sent as %p', (budgetTokens, maxOutputTokens, sent, codes) => {
    const budget = { min: 1024, max: 32_000 }
    const { body, lost } = sentFor(
      { reasoning: { budgetTokens }, maxOutputTokens },
      { effortField: 'reasoning' },
      { budget },
    )
    expect([body.reasoning?.max_tokens, lost.map((loss) => loss.split(' ')[0])]).toEqual([sent, codes])
  })

  test('replaces an effort, which is reported as lost', () => {
    const both = sentFor({ reasoning: { budgetTokens: 5000, effort: 'high' } }, { effortField: 'reasoning' })
    const lost = ['unsupported_combination output_config.effort']
    expect(both).toMatchObject({ body: { reasoning: { max_tokens: 5000 } }, lost })
  })
})

describe('what a provider lacks', () => {
  test('a user or cache key of more than 64 characters is sent as a hash', () => {
    const long = { user: 'u'.repeat(65), cacheKey: 'k'.repeat(65) }
    const { body, lost } = sentFor(long)
    expect([body.user, body.prompt_cache_key]).toEqual([expect.any(String), expect.any(String)])
    expect([body.user.length, body.prompt_cache_key.length, body.user === body.prompt_cache_key]).toEqual([
      64,
      64,
      false,
    ])
    expect(sentFor(long).body.user).toBe(body.user)
    expect(lost.map((loss) => loss.split(' ')[0])).toEqual(['value_hashed', 'value_hashed'])
    const short = sentFor({ user: 'u'.repeat(64), cacheKey: 'k' })
    expect([short.body.user, short.body.prompt_cache_key, short.lost]).toEqual(['u'.repeat(64), 'k', []])
  })

  test('the switch of parallel calls is not sent to a model without it, and only its use is a loss', () => {
    const tools: GenerationRequest['tools'] = [{ type: 'function', name: 'f' }]
    const sent = (parallelTools: boolean, capabilities?: Capabilities) => {
      const { body, lost } = sentFor({ tools, parallelTools }, {}, capabilities)
      return [body.parallel_tool_calls, lost.map((loss) => loss.split(' ')[0])]
    }
    expect(sent(false)).toEqual([false, []])
    expect(sent(false, { parallelTools: false })).toEqual([undefined, ['unsupported_by_model']])
    expect(sent(true, { parallelTools: false })).toEqual([undefined, []])
  })

  test('JSON without a schema is asked for in the form that the provider has, and in the prompt', () => {
    const sent = (formats: Capabilities['formats'], text = 'hi', quirks: Quirks = {}) => {
      const turns: GenerationRequest['turns'] = [{ role: 'user', parts: [textOf(text)] }]
      const { body, lost } = sentFor({ turns, stream: true, outputFormat: { type: 'json' } }, quirks, { formats })
      return [body.response_format, body.messages.length, lost.length]
    }
    const schema = { type: 'json_schema', json_schema: { name: 'answer', schema: { type: 'object' } } }
    expect(sent(['json_schema'])).toEqual([schema, 1, 0])
    expect(sent(['json_schema', 'json_object'], 'as JSON')).toEqual([{ type: 'json_object' }, 1, 0])
    expect(sent(['json_object'])).toEqual([{ type: 'json_object' }, 2, 1])
    expect(sent([])).toEqual([undefined, 2, 1])
    expect(sent([], 'as JSON')).toEqual([undefined, 1, 1])
    expect(sent(undefined, 'as JSON', { formatAlone: true })).toEqual([undefined, 1, 1])
  })

  test('a refusal is text for a provider that refuses the member', () => {
    const turns: GenerationRequest['turns'] = [
      { role: 'assistant', parts: [{ type: 'refusal', text: 'No.' }] },
      { role: 'user', parts: [textOf('x')] },
    ]
    expect(sentFor({ turns }).body.messages[0]).toEqual({ role: 'assistant', content: '', refusal: 'No.' })
    const { body } = sentFor({ turns }, { refuses: ['messages[].refusal'] })
    expect(body.messages[0]).toEqual({ role: 'assistant', content: 'No.' })
  })

  test('an id of nine letters and digits is kept where only such are accepted', () => {
    const idOf = (id: string): string =>
      sentFor({ turns: [{ role: 'assistant', parts: [callOf(id)] }] }, { callIds: 'alphanumeric-9' }).body.messages[0]
        .tool_calls[0].id
    expect(idOf('aB3456789')).toBe('aB3456789')
    for (const id of ['aB34567890', 'aB345-789', '']) expect(idOf(id)).toMatch(/^(?!aB3)[a-zA-Z0-9]{9}$/)
  })
})
