import { describe, expect, test } from 'bun:test'
import type { ConversationName, GenerationRequest, Turn } from '../../src/generation/request.ts'
import { remember } from '../../src/protocols/element-memory.ts'
import { protocols } from '../../src/protocols/index.ts'
import type { Target } from '../../src/protocols/protocol.ts'
import { SchemaCache } from '../../src/protocols/schema/cache.ts'
import { Translation } from '../../src/protocols/translation.ts'
import { NAMES } from '../properties/protocol-pairs.ts'
import { TARGETS } from '../properties/requests.ts'

type Json = Record<string, unknown>

/** A conversation as a protocol writes it: texts by role, a call and its result. */
type Format = {
  member: string
  settings: Json
  user(text: string): Json
  assistant(text: string): Json
  call(id: string): Json
  result(id: string): Json
}

const FORMATS: Record<ConversationName, Format> = {
  'chat.completions': {
    member: 'messages',
    settings: { model: 'm' },
    user: (content) => ({ role: 'user', content }),
    assistant: (content) => ({ role: 'assistant', content }),
    call: (id) => ({
      role: 'assistant',
      content: null,
      tool_calls: [{ id, type: 'function', function: { name: 'say', arguments: '{}' } }],
    }),
    result: (id) => ({ role: 'tool', tool_call_id: id, content: 'done' }),
  },
  responses: {
    member: 'input',
    settings: { model: 'm' },
    user: (content) => ({ role: 'user', content }),
    assistant: (content) => ({ role: 'assistant', content }),
    call: (call_id) => ({ type: 'function_call', call_id, name: 'say', arguments: '{}' }),
    result: (call_id) => ({ type: 'function_call_output', call_id, output: 'done' }),
  },
  messages: {
    member: 'messages',
    settings: { model: 'm', max_tokens: 8 },
    user: (content) => ({ role: 'user', content }),
    assistant: (content) => ({ role: 'assistant', content }),
    call: (id) => ({ role: 'assistant', content: [{ type: 'tool_use', id, name: 'say', input: {} }] }),
    result: (id) => ({ role: 'user', content: [{ type: 'tool_result', tool_use_id: id, content: 'done' }] }),
  },
  generateContent: {
    member: 'contents',
    settings: {},
    user: (text) => ({ role: 'user', parts: [{ text }] }),
    assistant: (text) => ({ role: 'model', parts: [{ text }] }),
    call: (id) => ({ role: 'model', parts: [{ functionCall: { id, name: 'say', args: {} } }] }),
    result: (id) => ({
      role: 'user',
      parts: [{ functionResponse: { id, name: 'say', response: { output: 'done' } } }],
    }),
  },
}

/** Requests of one conversation, which is remembered. */
class Client {
  readonly #name: ConversationName
  readonly format: Format
  #last: unknown[] = []

  constructor(name: ConversationName) {
    this.#name = name
    this.format = FORMATS[name]
  }

  read(elements: unknown[], members: Json = {}): GenerationRequest {
    remember(elements, this.#last)
    this.#last = elements
    return this.#read({ ...this.format.settings, ...members, [this.format.member]: elements })
  }

  /** The same without a memory. */
  readNew(elements: unknown[], members: Json = {}): GenerationRequest {
    return this.#read(structuredClone({ ...this.format.settings, ...members, [this.format.member]: elements }))
  }

  #read(body: Json): GenerationRequest {
    return protocols[this.#name].serve.readRequest({ body, text: JSON.stringify(body), headers: new Headers() })
  }

  write(request: GenerationRequest, provider: ConversationName, target: Target): { body: Json; losses: unknown } {
    const rawRequest = { body: this.format.settings, text: '', headers: new Headers() }
    const { paths } = protocols[this.#name].serve
    const translation = new Translation(request, target, rawRequest, paths, new SchemaCache())
    const body = protocols[provider].call.writeRequest(translation)
    return { body, losses: translation.report.losses }
  }
}

/** For each element of `one`, 1 where `other` has the same object. */
const same = (one: readonly unknown[], other: readonly unknown[]): string =>
  one.map((element, i) => (element === other[i] ? 1 : 0)).join('')

const CALLS = ['a', 'b']

/** Texts with sources, for which no other protocol has a field. */
const cited = (text: string): Json => ({
  type: 'text',
  text,
  citations: [{ type: 'char_location', cited_text: 'x', document_index: 0, start_char_index: 0, end_char_index: 1 }],
})

describe.each(NAMES)('a conversation of %s that grows', (name) => {
  const { user, assistant, call, result } = FORMATS[name]
  const elements = [
    user('1'),
    assistant('2'),
    user('3'),
    ...CALLS.map(call),
    ...CALLS.map(result),
    assistant('4'),
    user('5'),
  ]
  const longer = [...elements, call('c'), result('c')]

  test('is read only from where it differs', () => {
    const client = new Client(name)
    const first = client.read(elements).turns
    const next = client.read(longer).turns
    expect(next).toHaveLength(first.length + 2)
    expect(same(first, next)).toBe('1'.repeat(first.length))
    const changed = client.read(longer.with(2, user('other'))).turns
    expect(same(changed, next)).toMatch(/^11?0+$/)
    expect(client.readNew(longer.with(2, user('other'))).turns).toEqual(changed)
  })

  test('has members of no protocol each time', () => {
    const client = new Client(name)
    const unknown = elements.with(0, { ...elements[0], x_unknown: 1 })
    const first = client.read(unknown)
    const next = client.read([...unknown, call('c')])
    expect(same(first.turns, next.turns)).toBe('1'.repeat(first.turns.length))
    expect(Object.keys(next.extras)).toEqual([`${FORMATS[name].member}[0].x_unknown`])
  })

  test('is refused each time where it has what no provider of another protocol can be sent', () => {
    const client = new Client(name)
    const wrong = [...elements, FORMATS[name].user(1 as unknown as string), assistant('6')]
    const refusals = [1, 2, 3].map(() => Object.values(client.read(wrong).extras).map(String))
    expect(refusals[0]).not.toEqual([])
    expect(refusals).toEqual([refusals[0]!, refusals[0]!, refusals[0]!])
  })
})

describe.each(NAMES)('a conversation for a provider of %s', (provider) => {
  const name = provider === 'messages' ? 'chat.completions' : 'messages'
  const { user, assistant, call, result } = FORMATS[name]
  const member = FORMATS[provider].member
  const target = { ...TARGETS[provider] }
  const elements = [user('1'), call('a'), result('a'), assistant('2'), user('3'), assistant('4'), user('5')]
  const instructions =
    name === 'messages'
      ? {
          system: [
            { type: 'text', text: 'Be' },
            { type: 'text', text: 'kind.' },
          ],
        }
      : { instructions: 'Be kind.' }

  const written = (client: Client, given: Json[]): unknown[] =>
    client.write(client.read(given, instructions), provider, target).body[member] as unknown[]

  test('is written only from where it differs', () => {
    const client = new Client(name)
    const first = written(client, elements)
    const next = written(client, [...elements, call('c'), result('c')])
    expect(next.length).toBeGreaterThan(first.length)
    expect(same(first, next)).toBe('1'.repeat(first.length))
    const changed = written(client, elements.with(4, user('other')))
    expect(same(changed, next)).toMatch(/^1+0+$/)
    expect(changed).toEqual(written(new Client(name), structuredClone(elements.with(4, user('other')))))
  })

  const expectAsNew = (client: Client, given: Json[], members: Json = {}): Json => {
    const again = client.write(client.read(given, members), provider, target)
    expect(again).toEqual(client.write(client.readNew(given, members), provider, target))
    return again.body
  }

  test('has results of calls that are not written again, and ids of its own for calls with one id', () => {
    const client = new Client(name)
    const given = [user('1'), call('a'), result('a'), call('a'), result('a'), assistant('2'), call('b'), user('3')]
    for (const more of [[], [result('b')], [result('b'), call('a'), result('a')], []])
      expectAsNew(client, [...given, ...more])
  })

  test('has the instructions of each request', () => {
    const client = new Client(name)
    const texts = ['Be kind.', 'Be brief.', 'Be kind.'].map((text) => {
      const system = [text, 'Be safe.'].map((one) => ({ type: 'text', text: one }))
      const leading = name === 'messages' ? [] : [{ role: 'system', content: text }]
      const body = expectAsNew(client, [...leading, ...elements], name === 'messages' ? { system } : {})
      return JSON.stringify(body).includes(text)
    })
    expect(texts).toEqual([true, true, true])
  })

  test('has its losses each time, also those that were too many to list before', () => {
    if (name !== 'messages') return
    const client = new Client(name)
    const failed = { type: 'tool_result', tool_use_id: 'a', content: 'done', is_error: true }
    const given = [user('1'), call('a'), { role: 'user', content: [failed] }, assistant('2'), user('3')]
    const system = Array.from({ length: 1_001 }, (_, i) => cited(String(i)))
    expectAsNew(client, given, { system })
    for (const length of [3, 5, 5]) expectAsNew(client, given.slice(0, length))
  })

  test('is written as if it were new where more breakpoints are set than the provider accepts', () => {
    const marked: Target = { ...target, capabilities: { ...target.capabilities } }
    if (provider === 'chat.completions') marked.capabilities.cacheBreakpoints = 'cache_control'
    const client = new Client(name)
    const text = (one: string): Json => ({ type: 'text', text: one, cache_control: { type: 'ephemeral' } })
    const given = ['1', '2', '3', '4', '5', '6'].flatMap((one) => [user(one), assistant('.')]).slice(0, -1)
    const cached = given.map((one) => (one.role === 'user' ? { ...one, content: [text(String(one.content))] } : one))
    for (const length of [7, 9, 11, 5, 11]) {
      const some = cached.slice(0, length)
      const again = client.write(client.read(some), provider, marked)
      expect(again).toEqual(client.write(client.readNew(some), provider, marked))
    }
  })
})

describe('turns that come again', () => {
  const { user, call, result } = FORMATS.responses
  const frozen = (turns: readonly Turn[]): string => JSON.stringify(turns)

  test('stay as they are where a later item continues one', () => {
    const client = new Client('responses')
    const elements = [user('1'), call('a'), call('b'), result('a'), { type: 'reasoning', summary: [] }]
    const first = client.read(elements).turns
    const before = frozen(first)
    const next = [...elements, result('b')]
    expect(client.read(next).turns).toEqual(client.readNew(next).turns)
    expect(frozen(first)).toBe(before)
    for (const some of [elements, next, next, [...next, user('2')], [...next, user('2')]])
      expect(client.read(some).turns).toEqual(client.readNew(some).turns)
  })

  test('have the names that the namespaces of the request give them', () => {
    const client = new Client('responses')
    const namespace = (name: string): Json => ({
      type: 'namespace',
      name,
      tools: [{ type: 'function', name: 'say', parameters: {} }],
    })
    const elements = [user('1'), { ...call('a'), namespace: 'one' }, result('a')]
    for (const tools of [[namespace('one')], [namespace('one'), namespace('two')], [namespace('one')]])
      expect(client.read(elements, { tools }).turns).toEqual(client.readNew(elements, { tools }).turns)
    const [, called] = client.read(elements, { tools: [namespace('one'), namespace('two')] }).turns
    expect(called?.parts[0]).toMatchObject({ name: 'one__say' })
  })

  test('answer the calls of contents that are not read again', () => {
    const client = new Client('generateContent')
    const google = FORMATS.generateContent
    const callOf = (name: string): Json => ({ role: 'model', parts: [{ functionCall: { name, args: {} } }] })
    const resultOf = (name: string): Json => ({ role: 'user', parts: [{ functionResponse: { name, response: {} } }] })
    const elements = [google.user('1'), callOf('say'), google.user('2'), google.assistant('3'), google.user('4')]
    client.read(elements)
    const next = [...elements, google.assistant('5'), resultOf('say')]
    expect(client.read(next).turns).toEqual(client.readNew(next).turns)
    expect(client.read(next).turns.at(-1)?.parts[0]).toMatchObject({ callId: 'call_1_0' })
  })
})
