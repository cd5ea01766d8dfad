import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { addTo, isShownImage, noAnswer, type Answer } from '../../console/pages/playground/answer.ts'
import { bodyOf, pathOf, unsupportedSettings } from '../../console/pages/playground/bodies.ts'
import { codeOf } from '../../console/pages/playground/code.ts'
import { diffLines } from '../../console/pages/playground/diff.ts'
import { emptyConversation } from '../../console/pages/playground/conversation.ts'
import type { Conversation } from '../../console/pages/playground/conversation.ts'
import { readShared, writeShared } from '../../console/pages/playground/share.ts'
import { FrameReader } from '../../console/parts/frames.ts'
import { CONVERSATIONS, type ConversationName } from '../../console/parts/protocols.ts'
import { startGateway, type Gateway } from '../server.ts'

const ALL = Object.keys(CONVERSATIONS) as ConversationName[]
const PIXEL = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='
const ask = (text: string, changes: Partial<Conversation> = {}): Conversation => ({
  ...emptyConversation(),
  turns: [{ role: 'user', text, media: [] }],
  ...changes,
})

let gateway: Gateway
beforeAll(async () => {
  gateway = await startGateway()
})
afterAll(() => gateway.stop())

/** Does as the page does with a request: sends the body of the form, and reads the response. */
async function answerOf(protocol: ConversationName, form: Conversation, model = 'sandbox/chat'): Promise<Answer> {
  const response = await fetch(gateway.url + pathOf(protocol, model, form.stream), {
    method: 'POST',
    headers: { authorization: `Bearer ${gateway.key}`, 'content-type': 'application/json' },
    body: JSON.stringify(bodyOf(protocol, model, form)),
  })
  const text = await response.text()
  const answer = noAnswer()
  if (!form.stream || !response.ok) {
    addTo(answer, protocol, JSON.parse(text))
    return answer
  }
  const reader = new FrameReader()
  for (const { data } of [...reader.push(text, 0), ...reader.end(0)])
    if (data !== '' && data !== '[DONE]') addTo(answer, protocol, JSON.parse(data))
  return answer
}

const PROMPT =
  '[[think: easy]] [[reply: Hello there]] [[call: get_weather {"city":"Paris"}]] [[usage: in=10 out=20 reasoning=3]]'
const TOOLS = '[{"name": "get_weather", "description": "of a city", "parameters": {"type": "object"}}]'

/** The protocol messages has no images in its answers. */
const IMAGES_OF: Record<ConversationName, string> = {
  'chat.completions': 'sandbox/chat',
  responses: 'sandbox/responses',
  messages: 'sandbox/chat',
  generateContent: 'sandbox/gemini',
}

describe.each(ALL)('the form in %s', (protocol) => {
  test.each([true, false])('is sent and its answer read, streamed: %p', async (stream) => {
    const answer = await answerOf(protocol, ask(PROMPT, { stream, tools: TOOLS, effort: 'low', maxTokens: '500' }))
    expect(answer.error).toBeUndefined()
    expect(answer.text).toBe('Hello there')
    expect(answer.reasoning).toBe('easy')
    expect(answer.calls.map(({ name }) => name)).toEqual(['get_weather'])
    expect(JSON.parse(answer.calls[0]!.arguments)).toEqual({ city: 'Paris' })
    expect(answer.usage).toEqual({ input: 10, output: 23 })
    expect(answer.finish).toBeTruthy()
  })

  test('has system text, earlier turns, a picture and a schema', async () => {
    const answer = await answerOf(protocol, {
      ...ask('[[echo: body]]', { stream: false, system: 'Be brief', temperature: '0.5' }),
      turns: [
        { role: 'user', text: 'one', media: [{ name: 'dot.png', type: 'image/png', base64: PIXEL }] },
        { role: 'assistant', text: 'two', media: [] },
        { role: 'user', text: '[[echo: body]]', media: [] },
      ],
    })
    for (const part of ['Be brief', 'one', 'two', PIXEL.slice(0, 20), '0.5']) expect(answer.text).toContain(part)
    const object = await answerOf(
      protocol,
      ask('as JSON', {
        stream: true,
        schema: '{"type":"object","properties":{"a":{"type":"number"}},"required":["a"]}',
      }),
    )
    expect(typeof (JSON.parse(object.text) as { a: number }).a).toBe('number')
  })

  test.each([true, false])('shows the images of an answer, streamed: %p', async (stream) => {
    const answer = await answerOf(protocol, ask('[[image: 64x64 a red fox]]', { stream }), IMAGES_OF[protocol])
    expect(answer.error).toBeUndefined()
    expect(answer.images.map(isShownImage)).toEqual(protocol === 'messages' ? [] : [true])
  })

  test('shows errors, before the answer and within it', async () => {
    expect((await answerOf(protocol, ask('[[error: 429 slow down]]'))).error).toContain('slow down')
    const broken = await answerOf(protocol, ask('[[reply: one two three four five]] [[error-after: 1 529 busy]]'))
    expect(broken.error).toContain('busy')
    expect(broken.text).not.toBe('')
  })

  test('becomes code with the same body, and no key', () => {
    const form = ask("it's")
    const body = bodyOf(protocol, 'sandbox/chat', form)
    const code = codeOf({ protocol, model: 'sandbox/chat', stream: true, body, origin: 'http://127.0.0.1:4310' })
    expect(code.length).toBe(3)
    for (const { text } of code) {
      expect(text).toContain('SLUICE_KEY')
      expect(text).toContain('sandbox/chat')
    }
    expect(code[0]!.text).toContain(`it'\\''s`)
  })
})

describe('the form', () => {
  test('says what is wrong with it', () => {
    expect(() => bodyOf('messages', 'm', ask('', { tools: '{' }))).toThrow('Tools: no JSON')
    expect(() => bodyOf('messages', 'm', ask('', { tools: '[{}]' }))).toThrow('Tools[0]: needs a name')
    expect(() => bodyOf('messages', 'm', ask('', { temperature: 'warm' }))).toThrow(
      'Temperature: must be a number, not warm',
    )
  })

  test('names settings that a protocol cannot represent', () => {
    const form = ask('', { seed: '7' })
    expect(ALL.map((protocol) => unsupportedSettings(protocol, form))).toEqual([[], ['seed'], ['seed'], []])
  })
})

describe('a shared request', () => {
  test('is what was shared, in any script', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), fc.constantFrom(...ALL), (text, protocol) => {
        const shared = { models: ['a/b'], protocol, form: ask(text, { system: text, effort: 'high' }), raw: undefined }
        expect(readShared(writeShared(shared)!)).toEqual(shared)
      }),
    )
  })

  test.each(['', 'nonsense', btoa('{}'), btoa('{"models":[1],"protocol":"messages","form":{}}'), btoa('null')])(
    '%j is none',
    (fragment) => {
      expect(readShared(fragment)).toBeUndefined()
    },
  )

  test('one that is too long for a link is not shared', () => {
    expect(
      writeShared({ models: [], protocol: 'messages', form: ask('x'.repeat(70_000)), raw: undefined }),
    ).toBeUndefined()
  })
})

describe('the difference of two answers', () => {
  const lines = fc.array(fc.constantFrom('a', 'b', 'c', ''), { maxLength: 12 }).map((all) => all.join('\n'))

  test('has every line of both, in the order of each, and those of both once', () => {
    fc.assert(
      fc.property(lines, lines, (one, other) => {
        const all = diffLines(one, other)
        const of = (side: string): string =>
          all
            .filter((line) => line.side === 'both' || line.side === side)
            .map(({ text }) => text)
            .join('\n')
        expect(of('one')).toBe(one)
        expect(of('other')).toBe(other)
        if (one === other) expect(all.every(({ side }) => side === 'both')).toBe(true)
      }),
    )
    expect(diffLines('a\nb\nc', 'a\nx\nc').map(({ side, text }) => `${side} ${text}`)).toEqual([
      'both a',
      'one b',
      'other x',
      'both c',
    ])
  })
})
