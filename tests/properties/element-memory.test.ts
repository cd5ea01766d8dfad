import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { GatewayError } from '../../src/error.ts'
import { bodyText } from '../../src/http/encode-request.ts'
import type { ConversationName } from '../../src/generation/request.ts'
import { remember, textOf } from '../../src/protocols/element-memory.ts'
import { protocols } from '../../src/protocols/index.ts'
import type { Target } from '../../src/protocols/protocol.ts'
import { SchemaCache } from '../../src/protocols/schema/cache.ts'
import { Translation } from '../../src/protocols/translation.ts'
import { ArrayText, stringifyBody } from '../../src/json/stringify-body.ts'
import { assertProperty, assertSame, TIMEOUT_MS } from './assertions.ts'
import { IDENTITY, NAMES } from './protocol-pairs.ts'
import { writtenWithLosses } from './request-losses.ts'
import { requests, scopeOf, TARGETS } from './requests.ts'

/**
 * Elements of a conversation that come again as the same objects are not read and written again: the results must be
 * those of a conversation of new objects.
 */

type Json = Record<string, unknown>

/** The member with the turns of a conversation. */
const TURNS: Record<ConversationName, string> = {
  'chat.completions': 'messages',
  responses: 'input',
  messages: 'messages',
  generateContent: 'contents',
}

/** The body for the provider and all that comes with it, or the refusal. */
function translated(client: ConversationName, provider: ConversationName, body: Json, target: Target): unknown {
  const { serve } = protocols[client]
  const text = JSON.stringify(body)
  const rawRequest = { body, text, headers: new Headers(), model: IDENTITY.model, stream: true }
  try {
    const references = serve.references!(body).map(({ param }) => param)
    const request = serve.readRequest(rawRequest)
    // A provider of the same protocol is sent the body: it is read for Sluice itself only.
    if (client === provider) return { written: text, references, request }
    const translation = new Translation(request, target, rawRequest, serve.paths, new SchemaCache())
    const written = bodyText(stringifyBody(protocols[provider].call.writeRequest(translation), textOf))
    return {
      written,
      references,
      losses: translation.report.losses,
      transforms: translation.transforms.length,
      request,
    }
  } catch (error) {
    if (error instanceof GatewayError) return { refused: error.message, param: error.param }
    throw error
  }
}

const bodyOf = (client: ConversationName) =>
  requests(scopeOf(client)).map((request): Json => {
    const { body } = writtenWithLosses(client, request, TARGETS[client])
    return { ...(JSON.parse(JSON.stringify(body)) as Json), model: IDENTITY.model }
  })

/** Changes of the second request, whose other elements come again. */
const change = fc.record({
  /** Turns of the first request that are kept before its own. */
  keep: fc.nat(8),
  /** Calls have other names, in new objects, while their results come again. */
  renamed: fc.boolean(),
  /** The turn that has a member of no protocol. */
  unknown: fc.nat(6),
  tools: fc.constantFrom('none', 'all', 'reversed'),
})

const withUnknown = (body: Json, turns: string, at: number): Json => ({
  ...body,
  [turns]: arrayOf(body, turns).map((turn, index) => (index === at ? { ...(turn as Json), x_unknown: 1 } : turn)),
})

/** The turns, of which those with calls are new objects with another name of the tool. */
const withRenamedCalls = (turns: unknown[]): unknown[] =>
  turns.map((turn) => {
    const text = JSON.stringify(turn)
    return /"(tool_use|tool_calls|function_call|functionCall)"/.test(text)
      ? (JSON.parse(text.replaceAll('"look_up"', '"say"')) as unknown)
      : turn
  })

/** The body with one turn as a new object: a client marks the end of what its provider shall cache. */
const changedAt = (body: Json, turns: string, at: number): Json => ({
  ...body,
  [turns]: arrayOf(body, turns).map((turn, index) => (index === at ? structuredClone(turn) : turn)),
})

const arrayOf = (body: Json, name: string): unknown[] => (Array.isArray(body[name]) ? body[name] : [])

describe.each(NAMES)('a conversation of %s', (client) => {
  test.each(NAMES)(
    'is read, and written for %s, as if it were new',
    (provider) => {
      // One object each, as the catalogue has one for each endpoint.
      const targets: Target[] = [
        { ...TARGETS[provider] },
        { ...TARGETS[provider], quirks: { requiresReasoning: true } },
        { ...TARGETS[provider], capabilities: { cacheBreakpoints: 'cache_control', system: false, prefill: false } },
      ]
      const turns = TURNS[client]
      const more = fc.array(bodyOf(client), { maxLength: 4 })
      let reused = 0
      assertProperty(
        fc.property(bodyOf(client), bodyOf(client), more, change, fc.nat(2), (first, other, added, changes, which) => {
          const target = targets[which]!
          const { keep, renamed, unknown, tools: used } = changes
          let last: Json = {}
          const again = (body: Json): unknown => {
            for (const name of [turns, 'tools']) remember(arrayOf(body, name), arrayOf(last, name))
            last = body
            return translated(client, provider, body, target)
          }
          const second = withUnknown(other, turns, unknown)
          again(first)
          const { tools: _, ...next }: Json = {
            ...first,
            [turns]: [
              ...arrayOf(first, turns).slice(0, keep),
              ...(renamed ? withRenamedCalls(arrayOf(second, turns)) : arrayOf(second, turns)),
            ],
          }
          const tools = [...arrayOf(first, 'tools'), ...arrayOf(second, 'tools')]
          if (tools.length > 0 && used !== 'none') next.tools = used === 'all' ? tools : tools.toReversed()
          const actual = again(next)
          assertSame(actual, translated(client, provider, structuredClone(next), target))
          // A second time, since what was read once is remembered then.
          assertSame(again(next), actual)
          // Longer, changed in the middle, and shorter: what was written of the beginning is known, or is not any more.
          const longer = { ...next, [turns]: [...arrayOf(next, turns), ...added.flatMap((one) => arrayOf(one, turns))] }
          const cut = { ...longer, [turns]: arrayOf(longer, turns).slice(0, keep + 2) }
          const renamedCalls = { ...longer, [turns]: withRenamedCalls(arrayOf(longer, turns)) }
          for (const body of [longer, changedAt(longer, turns, unknown + keep), longer, renamedCalls, cut, longer])
            assertSame(again(body), translated(client, provider, structuredClone(body), target))
          if ('written' in (actual as object)) reused++
        }),
        1 / 2,
      )
      expect(reused).toBeGreaterThan(0)
    },
    TIMEOUT_MS,
  )
})

describe('a conversation that grows', () => {
  const user = (text: string): Json => ({ role: 'user', content: text })
  const assistant = (text: string): Json => ({ role: 'assistant', content: [{ type: 'text', text }] })
  const target: Target = { ...TARGETS['chat.completions'] }
  let last: Json[] = []

  const written = (messages: Json[], tools: boolean): Json[] => {
    remember(messages, last)
    last = messages
    const body: Json = { model: IDENTITY.model, max_tokens: 8, system: 'Be brief.', messages }
    if (tools) body.tools = [{ name: 'say', input_schema: { type: 'object' } }]
    const rawRequest = { body, text: JSON.stringify(body), headers: new Headers() }
    const { serve } = protocols.messages
    const request = serve.readRequest(rawRequest)
    const translation = new Translation(request, target, rawRequest, serve.paths, new SchemaCache())
    return protocols['chat.completions'].call.writeRequest(translation).messages as Json[]
  }

  /** For each message of `one`, 1 where `other` has the same object. */
  const same = (one: Json[], other: Json[]): string => one.map((json, i) => (json === other[i] ? 1 : 0)).join('')

  test('is written only from where it differs', () => {
    const messages = [user('1'), assistant('2'), user('3'), assistant('4'), user('5')]
    const first = written(messages, false)
    const longer = [...messages, assistant('6'), user('7')]
    const next = written(longer, false)
    expect(same(next, first)).toBe('11111100')
    const changed = written(longer.with(2, user('other')), false)
    expect(same(changed, next)).toBe('11000000')
    const withTools = written(longer.with(2, user('other')), true)
    expect(same(withTools, changed)).toBe('10000000')
    expect(withTools).toEqual(changed)
  })

  test('has the bytes of its written messages only once', () => {
    const texts = new ArrayText()
    let stringified = 0
    const element = (text: string): object => ({ toJSON: () => (stringified++, { text }) })
    const elements = ['a', 'b', 'c', 'd'].map(element)
    expect(texts.of(elements.slice(0, 3)).toString()).toBe('[{"text":"a"},{"text":"b"},{"text":"c"}')
    const given = texts.of(elements)
    expect(given.toString()).toBe('[{"text":"a"},{"text":"b"},{"text":"c"},{"text":"d"}')
    expect(stringified).toBe(4)
    expect(texts.of(elements.slice(0, 1)).toString()).toBe('[{"text":"a"}')
    expect(texts.of(elements.with(1, element('é'))).toString()).toBe(
      '[{"text":"a"},{"text":"é"},{"text":"c"},{"text":"d"}',
    )
    expect(given.toString()).toBe('[{"text":"a"},{"text":"b"},{"text":"c"},{"text":"d"}')
    expect(texts.of([]).toString()).toBe('')
  })

  /** Each body is translated as if it were new, to each of the targets. */
  const expectAsNew = (client: ConversationName, bodies: Json[], targets = [target]): void => {
    let before: Json = {}
    for (const body of bodies) {
      for (const name of ['messages', 'tools']) remember(arrayOf(body, name), arrayOf(before, name))
      before = body
      for (const one of targets) {
        const fresh = translated(client, 'chat.completions', structuredClone(body), one)
        expect('written' in (fresh as object)).toBe(true)
        assertSame(translated(client, 'chat.completions', body, one), fresh)
      }
    }
  }
  const settings = { model: IDENTITY.model, max_tokens: 8 }
  const call = (id: string, name = 'say'): Json => ({
    role: 'assistant',
    content: [{ type: 'tool_use', id, name, input: {} }],
  })
  const result = (id: string): Json => ({
    role: 'user',
    content: [{ type: 'tool_result', tool_use_id: id, content: 'done' }],
  })

  test('has calls of two responses in a row answered together', () => {
    const messages = [user('1'), call('a'), call('b'), result('a'), result('b'), assistant('2'), user('3')]
    const bodies = [2, 3, 4, 5, 7].map((length) => ({ ...settings, messages: messages.slice(0, length) }))
    expectAsNew('messages', bodies)
  })

  test('has results with the names that their calls have now', () => {
    const image = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'AAAA' } }
    const shown = { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'a', content: [image] }] }
    const messages = [user('1'), call('a'), shown]
    expectAsNew('messages', [
      { ...settings, messages },
      { ...settings, messages: messages.with(1, call('a', 'other')) },
    ])
  })

  test('has leading instructions that were in the middle before', () => {
    const [system, last] = [{ role: 'system', content: 'Be brief.' }, user('2')]
    const first = { model: IDENTITY.model, messages: [user('1'), system, last] }
    const { serve } = protocols['chat.completions']
    const read = (body: Json): unknown => {
      const { system: lead, turns } = serve.readRequest({ body, text: '', headers: new Headers() })
      return { lead, turns }
    }
    remember(first.messages)
    read(first)
    const next = { ...first, messages: [{ role: 'system', content: 'Be kind.' }, system, last] }
    remember(next.messages, first.messages)
    assertSame(read(next), read(structuredClone(next)))
  })

  test('has the losses of its tools each time, and tools for each target', () => {
    const tools = [
      { name: 'say', input_schema: { type: 'object' } },
      { type: 'web_search_20250305', name: 'web_search' },
      { name: 'free', input_schema: { type: 'object', properties: { x: { type: 'string' } } }, strict: true },
    ]
    const other: Target = { ...target, capabilities: { ...target.capabilities, cacheBreakpoints: 'cache_control' } }
    const body = { ...settings, messages: [user('1')], tools }
    expectAsNew('messages', [body, body, body], [target, other])
  })
})
