import { describe, expect, test } from 'bun:test'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import Ajv2020 from 'ajv/dist/2020'
import addFormats from 'ajv-formats'
import fc from 'fast-check'
import type { Part, Reasoning, Tool, ToolChoice, Turn } from '../../../src/generation/request.ts'
import { messages } from '../../../src/protocols/messages/index.ts'
import { type Any, assistant, call, rawRequestOf, result, text, tool, user, write } from './kit.ts'

/** Requests to providers of the Messages API: the conversation and the settings. */

describe('a conversation', () => {
  test('has system text apart, and turns of one role merged', () => {
    const { body, losses } = write({
      system: [text('be brief')],
      turns: [user('a'), user('b'), assistant(text('c')), assistant(text('d')), user('e ')],
    })
    expect(body).toEqual({
      model: 'upstream-model',
      max_tokens: 5000,
      system: [{ type: 'text', text: 'be brief' }],
      messages: [
        {
          role: 'user',
          content: [
            { type: 'text', text: 'a' },
            { type: 'text', text: 'b' },
          ],
        },
        {
          role: 'assistant',
          content: [
            { type: 'text', text: 'c' },
            { type: 'text', text: 'd' },
          ],
        },
        { role: 'user', content: [{ type: 'text', text: 'e ' }] },
      ],
    })
    expect(losses).toEqual([])
  })

  test('has instructions inside it as text of the user, or with their role if the model accepts it', () => {
    const turns: Turn[] = [
      user('a'),
      assistant(text('b')),
      { role: 'developer', parts: [text('now in French')] },
      user('c'),
    ]
    const marked = write({ turns })
    expect(marked.body.messages[2]).toEqual({
      role: 'user',
      content: [
        { type: 'text', text: '<system>\nnow in French\n</system>' },
        { type: 'text', text: 'c' },
      ],
    })
    expect(marked.lost).toEqual(['instructions_moved messages[2].content[0]'])
    expect(write({ turns }, { systemTurns: true }).body.messages.map(({ role }: Any) => role)).toEqual([
      'user',
      'assistant',
      'system',
      'user',
    ])
  })

  test('has no empty texts, and no messages that are empty without them', () => {
    const { body } = write({
      turns: [user('a'), assistant(text('')), { role: 'user', parts: [text(' \n'), text('b')] }],
    })
    expect(body.messages).toEqual([
      {
        role: 'user',
        content: [
          { type: 'text', text: 'a' },
          { type: 'text', text: 'b' },
        ],
      },
    ])
  })

  test('has tool results first and in the order of their calls', () => {
    const { body, losses } = write({
      turns: [user('a'), assistant(call('x'), call('y')), user('hurry'), tool(result('y', 'two'), result('x', 'one'))],
    })
    expect(body.messages[2]).toEqual({
      role: 'user',
      content: [
        { type: 'tool_result', tool_use_id: 'x', content: [{ type: 'text', text: 'one' }] },
        { type: 'tool_result', tool_use_id: 'y', content: [{ type: 'text', text: 'two' }] },
        { type: 'text', text: 'hurry' },
      ],
    })
    expect(losses.map(({ code, path }) => `${code} ${path}`)).toEqual([
      'turn_reordered messages[3].content[0]',
      'turn_reordered messages[3].content[1]',
    ])
  })

  test('has an error as the result of a call without one, also at its end', () => {
    const missing = {
      type: 'tool_result',
      tool_use_id: 'x',
      content: [{ type: 'text', text: 'No result was given for this call.' }],
      is_error: true,
    }
    expect(write({ turns: [user('a'), assistant(call('x')), user('b')] }).body.messages[2].content).toEqual([
      missing,
      { type: 'text', text: 'b' },
    ])
    const end = write({ turns: [user('a'), assistant(call('x'))] })
    expect(end.body.messages[2]).toEqual({ role: 'user', content: [missing] })
    expect(end.lost).toEqual(['result_added messages[1].content[0]'])
  })

  test('has a result without a call as text', () => {
    const { body, lost } = write({ turns: [user('a'), tool(result('ghost', 'boo'))] })
    expect(body.messages).toEqual([
      {
        role: 'user',
        content: [
          { type: 'text', text: 'a' },
          { type: 'text', text: 'Result of the tool call ghost:' },
          { type: 'text', text: 'boo' },
        ],
      },
    ])
    expect(lost).toEqual(['content_as_text messages[1].content[0]'])
  })

  test('has the text after a call before it', () => {
    const { body, lost } = write({ turns: [user('a'), assistant(call('x'), text('on it')), tool(result('x'))] })
    expect(body.messages[1].content.map(({ type }: Any) => type)).toEqual(['text', 'tool_use'])
    expect(lost).toEqual(['turn_reordered messages[1].content[1]'])
  })

  test('has matching ids of calls and results, each used once', () => {
    const { body } = write({
      turns: [
        user('a'),
        assistant(call('call:1')),
        tool(result('call:1')),
        assistant(call('call:1')),
        tool(result('call:1')),
        assistant(call('fine-1')),
        tool(result('fine-1')),
      ],
    })
    const ids = body.messages
      .flatMap(({ content }: Any) => content.map((block: Any) => block.id ?? block.tool_use_id))
      .filter(Boolean) as string[]
    expect(ids).toHaveLength(6)
    for (const id of ids) expect(id).toMatch(/^[a-zA-Z0-9_-]+$/)
    expect([ids[0], ids[2], ids[4]]).toEqual([ids[1], ids[3], ids[5]])
    expect(new Set(ids).size).toBe(3)
    expect(ids[4]).toBe('fine-1')
  })

  test('is written in time that is linear in its length', () => {
    const many = 40_000
    const calls = Array.from({ length: many }, (_, n) => [call('same'), text(`${n}`)]).flat()
    const results = Array.from({ length: many }, (_, n) => result(n % 2 === 0 ? 'same' : `ghost-${n}`))
    const { body } = write({ turns: [user('a'), assistant(...calls), tool(...results)] })
    expect(body.messages[2].content.slice(0, many).every((block: Any) => block.type === 'tool_result')).toBe(true)
  })

  test('begins with a message of the user', () => {
    const { body, lost } = write({ turns: [assistant(text('hello')), user('hi')] })
    expect(body.messages[0].role).toBe('user')
    expect(lost).toEqual(['turn_added messages[0].content[0]'])
  })

  test('of instructions alone is one message of the user', () => {
    const { body, lost } = write({ system: [text('be brief')], turns: [] })
    expect(body).toMatchObject({ messages: [{ role: 'user', content: [{ type: 'text', text: 'be brief' }] }] })
    expect(body.system).toBeUndefined()
    expect(lost).toEqual(['instructions_moved messages'])
    expect(write({ system: [text('a')], turns: [], protocol: 'responses' }).lost[0]).toEndWith(' instructions')
  })

  test('without content is refused', () => {
    expect(() => write({ turns: [user(' ')] })).toThrow('messages')
  })

  test('has whitespace between two texts at the end of the first', () => {
    const end: Part = { type: 'text', text: '\n\n', cache: {} }
    const { body, lost } = write({ turns: [{ role: 'user', parts: [text(' '), text('a'), text(''), end, text('b')] }] })
    expect(body.messages[0].content).toEqual([
      { type: 'text', text: 'a\n\n', cache_control: { type: 'ephemeral' } },
      { type: 'text', text: 'b' },
    ])
    expect(lost).toEqual([])
  })

  test('may end with the beginning of a response, without whitespace at its end', () => {
    const { body, lost } = write({ turns: [user('a'), assistant(text('Once upon '))] })
    expect(body.messages.slice(1)).toEqual([{ role: 'assistant', content: [{ type: 'text', text: 'Once upon' }] }])
    expect(lost).toEqual(['value_adjusted messages[1].content[0]'])
  })

  test('asks a model that does not continue a response to do so', () => {
    const { body, lost } = write({ turns: [user('a'), assistant(text('Once upon'))] }, { prefill: false })
    expect(body.messages.at(-1)).toMatchObject({ role: 'user', content: [{ type: 'text' }] })
    expect(lost).toEqual(['prefill_unsupported messages[1].content[0]'])
  })

  test('does not end a message with reasoning', () => {
    const signature = { data: 's', issuer: { provider: 'there', model: 'upstream-model' } }
    const reasoning: Part = { type: 'reasoning', text: 'hm', signature }
    const { body, lost } = write({ turns: [user('a'), assistant(text('b'), reasoning), user('c')] })
    expect(body.messages[1].content).toEqual([{ type: 'text', text: 'b' }])
    expect(lost).toEqual(['reasoning_dropped messages[1].content[1]'])
  })

  test('has no names of speakers', () => {
    expect(write({ turns: [{ ...user('a'), name: 'Ada' }] }).lost).toEqual(['unsupported_field messages[0]'])
  })
})

describe('settings', () => {
  test('sampling settings are limited to what the model accepts', () => {
    expect(write({ sampling: { temperature: 1.7, topP: 1, topK: 3, stop: ['a', ' '] } })).toMatchObject({
      body: { temperature: 1, top_k: 3, stop_sequences: ['a'] },
      lost: ['stop_applied_here stop', 'value_adjusted temperature'],
    })
    expect(write({ sampling: { temperature: 0, topP: 0.9 } }).body).toMatchObject({ temperature: 0, top_p: 0.9 })
    expect(write({ sampling: { topP: 1 } }).body).not.toHaveProperty('top_p')
    expect(write({ sampling: { temperature: 0.5, stop: ['a'] } }, { sampling: false })).toMatchObject({
      body: { stop_sequences: ['a'] },
      lost: ['unsupported_by_model temperature'],
    })
  })

  test('settings without a counterpart are reported, those without effect are not', () => {
    expect(
      write({
        sampling: { frequencyPenalty: 0.5, presencePenalty: 0, seed: 1, logitBias: { 5: 1 }, logprobs: true },
        verbosity: 'low',
        cacheKey: 'k',
        metadata: { a: 1 },
        extras: { store: true },
        serviceTier: 'flex',
      }).lost,
    ).toEqual([
      'unsupported_field frequency_penalty',
      'unsupported_field seed',
      'unsupported_field logit_bias',
      'unsupported_field verbosity',
      'unsupported_field metadata',
      'unsupported_field prompt_cache_key',
      'unsupported_field logprobs',
      'unsupported_by_provider service_tier',
    ])
  })

  test('structured output has closed objects, and the name and description of its format', () => {
    const { body, lost } = write({
      outputFormat: {
        type: 'schema',
        name: 'n',
        description: 'D',
        schema: { type: 'object', description: 'S', properties: { a: { type: 'integer', minimum: 3 } } },
      },
    })
    expect(body.output_config).toEqual({
      format: {
        type: 'json_schema',
        schema: {
          type: 'object',
          properties: { a: { type: 'integer', description: '{minimum: 3}' } },
          additionalProperties: false,
          title: 'n',
          description: 'D\n\nS',
        },
      },
    })
    expect(lost).toEqual(['schema_adjusted response_format.json_schema.schema'])
    const titled = { type: 'schema', name: 'n', schema: { type: 'object', title: 'T', properties: {} } } as const
    expect(write({ outputFormat: titled })).toMatchObject({
      body: { output_config: { format: { schema: { title: 'T' } } } },
      lost: ['unsupported_field response_format.json_schema.name'],
    })
  })

  test('JSON without a schema is asked for in the prompt', () => {
    expect(write({ outputFormat: { type: 'json' }, system: [{ type: 'text', text: 'Be brief.' }] })).toMatchObject({
      body: { system: [{ text: 'Be brief.' }, { text: expect.stringContaining('a JSON object') }] },
      lost: ['format_described response_format'],
    })
  })

  test('user, service tier and stream have fields', () => {
    expect(write({ user: 'u', serviceTier: 'default', stream: true }).body).toMatchObject({
      metadata: { user_id: 'u' },
      service_tier: 'standard_only',
      stream: true,
    })
  })

  test('output other than text is refused with the path of the setting', () => {
    expect(() => write({ outputModalities: ['text', 'image'] })).toThrow(
      expect.objectContaining({ param: 'modalities', message: expect.stringContaining('not image') }),
    )
  })

  test('an enum as the format of the output is refused', () => {
    expect(() => write({ outputFormat: { type: 'enum', schema: {} } })).toThrow('text/x.enum')
  })

  test('headers have the version and betas of the client', () => {
    expect(messages.call.headers(undefined)).toEqual({ 'anthropic-version': '2023-06-01' })
    expect(
      messages.call.headers(rawRequestOf({}, { 'compat-version': '2026-10-21', 'anthropic-beta': 'a,b' })),
    ).toEqual({
      'anthropic-version': '2026-10-21',
      'anthropic-beta': 'a,b',
    })
  })
})

const SCHEMA = join(import.meta.dir, '../../../../shared/specs/schemas/anthropic-messages.schema.json')

describe.skipIf(!existsSync(SCHEMA))('any request', () => {
  test('becomes a body that the published schema accepts', () => {
    const ajv = new Ajv2020({ strict: false, allErrors: false, logger: false })
    addFormats(ajv)
    ajv.addSchema(JSON.parse(readFileSync(SCHEMA, 'utf8')) as object, 'spec')
    const validate = ajv.compile({ $ref: 'spec#/$defs/CreateMessageParams' })
    let valid = 0
    fc.assert(
      fc.property(requests, (parts) => {
        const { body } = write(parts)
        const plain = JSON.parse(JSON.stringify(body)) as Any
        if (!validate(plain))
          throw new Error(`${JSON.stringify(validate.errors?.slice(0, 3))}\n${JSON.stringify(plain)}`)
        alternates(plain.messages)
        valid++
      }),
      { numRuns: 300 },
    )
    expect(valid).toBe(300)
  })
})

const texts = fc.constantFrom('', ' ', 'one', 'two texts', 'ünï')
const ids = fc.constantFrom('a', 'call:b', 'c/d', '')
const anyPart: fc.Arbitrary<Part> = fc.oneof(
  texts.map(text),
  texts.map((value): Part => ({ type: 'refusal', text: value })),
  texts.map((value): Part => ({ type: 'reasoning', text: value })),
  fc.tuple(ids, fc.constantFrom('{"a":1}', '', '[1]', '{"cu')).map(([id, args]) => call(id, args)),
  fc.constant<Part>({ type: 'image', source: { type: 'url', url: 'https://x' } }),
)
const anyTurn: fc.Arbitrary<Turn> = fc.oneof(
  fc
    .array(
      anyPart.filter(({ type }) => type !== 'tool-call' && type !== 'reasoning'),
      { maxLength: 3 },
    )
    .map((parts): Turn => ({ role: 'user', parts })),
  fc.array(anyPart, { maxLength: 4 }).map((parts): Turn => ({ role: 'assistant', parts })),
  fc
    .array(fc.tuple(ids, texts), { minLength: 1, maxLength: 3 })
    .map((list): Turn => tool(...list.map(([id, value]) => result(id, value)))),
  texts.map((value): Turn => ({ role: 'system', parts: [text(value)] })),
)
const requests = fc.record({
  system: fc.array(texts.map(text), { maxLength: 2 }),
  turns: fc.array(anyTurn, { maxLength: 8 }).map((turns) => [user('first'), ...turns]),
  tools: fc.constantFrom<Tool[]>(
    [],
    [{ type: 'function', name: 'f', parameters: { type: 'OBJECT' } }],
    [{ type: 'custom', name: 'x y' }],
  ),
  toolChoice: fc.constantFrom<ToolChoice>({ type: 'auto' }, { type: 'required' }),
  sampling: fc.record({
    temperature: fc.double({ min: 0, max: 2, noNaN: true }),
    stop: fc.constantFrom<string[]>(['x'], [' ']),
  }),
  reasoning: fc.constantFrom<Reasoning>({ effort: 'low' }, { budgetTokens: 5 }, { adaptive: true }),
})

/** Rules that the schema does not have: roles alternate, and each call is answered in the next message. */
function alternates(list: Any[]): void {
  const seen = new Set<string>()
  for (const [index, message] of list.entries()) {
    expect(message.role).toBe(index % 2 === 0 ? 'user' : 'assistant')
    expect(message.content.length).toBeGreaterThan(0)
    const calls = message.content.filter(({ type }: Any) => type === 'tool_use').map(({ id }: Any) => id as string)
    for (const id of calls) {
      expect(seen.has(id)).toBe(false)
      seen.add(id)
    }
    expect((list[index + 1]?.content ?? []).slice(0, calls.length).map((block: Any) => block.tool_use_id)).toEqual(
      calls,
    )
    for (const block of message.content) if (block.type === 'text') expect(block.text.trim()).not.toBe('')
  }
}
