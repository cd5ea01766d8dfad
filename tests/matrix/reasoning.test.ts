import { describe, expect, test } from 'bun:test'
import type { ConversationName } from '../../src/generation/request.ts'
import { wrapSignature } from '../../src/generation/signature.ts'
import { protocols } from '../../src/protocols/index.ts'
import type { Capabilities } from '../../src/protocols/protocol.ts'
import type { Quirks } from '../../src/protocols/quirks.ts'
import { LossReport } from '../../src/protocols/translation.ts'
import type { Any } from '../recorded/response-content.ts'
import { written } from '../translating.ts'
import { contextOf, NAMES, others } from './routes.ts'

/**
 * Earlier turns with reasoning of several models: each provider gets back what its own model signed, byte for byte, and
 * nothing else.
 */

const OURS = { provider: 'p', model: 'm' }

/** 48 bytes whose base64 has the characters that base64url spells differently. */
const bytes = (first: number): string =>
  Buffer.from(Array.from({ length: 48 }, (_, i) => (i * 61 + first) % 256)).toString('base64')
const OWN = bytes(251)
const OTHER_MODEL = bytes(7)
const OTHER_PROVIDER = bytes(99)
const UNWRAPPED = bytes(180)
const own = wrapSignature(OWN, OURS)
const otherModel = wrapSignature(OTHER_MODEL, { provider: 'p', model: 'n' })
const otherProvider = wrapSignature(OTHER_PROVIDER, { provider: 'q', model: 'm' })

const QUIRKS: Partial<Record<ConversationName, Quirks>> = {
  'chat.completions': { reasoningField: 'reasoning_details' },
}
const CAPABILITIES: Partial<Record<ConversationName, Capabilities>> = {
  messages: { reasoning: 'budget' },
  generateContent: { reasoning: 'level' },
}

/** The body that the provider receives, and the losses of reasoning and signatures as `code path`. */
function sent(client: ConversationName, body: Any, provider: ConversationName): { text: string; lost: string[] } {
  const target = { ...OURS, quirks: QUIRKS[provider] ?? {}, capabilities: CAPABILITIES[provider] ?? {} }
  const { body: sentBody, losses } = written(provider, contextOf(client, body).request, target, body)
  return {
    text: JSON.stringify(sentBody),
    lost: losses
      .filter(({ code }) => code.startsWith('reasoning_') || code.startsWith('signature_'))
      .map(({ code, path }) => `${code} ${path}`),
  }
}

const user = { role: 'user', content: 'q' }
const details = (...signatures: string[]): Any[] =>
  signatures.map((signature, index) => ({ type: 'reasoning.text', text: `thought ${index}`, signature, index }))
const item = (encrypted_content: string): Any => ({
  type: 'reasoning',
  id: 'rs_1',
  summary: [{ type: 'summary_text', text: 'hm' }],
  encrypted_content,
})
const thinking = (signature: string): Any => ({ type: 'thinking', thinking: 'hm', signature })

/** One turn with reasoning under these signatures, a tool call and its result. */
const TOOL_TURN: Record<ConversationName, (...signatures: string[]) => Any> = {
  'chat.completions': (...signatures) => ({
    model: 'a/b',
    messages: [
      user,
      {
        role: 'assistant',
        content: 'x',
        reasoning_details: details(...signatures),
        tool_calls: [{ id: 'a', type: 'function', function: { name: 'f', arguments: '{}' } }],
      },
      { role: 'tool', tool_call_id: 'a', content: 'r' },
    ],
  }),
  responses: (...signatures) => ({
    model: 'a/b',
    input: [
      user,
      ...signatures.map(item),
      { type: 'function_call', call_id: 'a', name: 'f', arguments: '{}' },
      { type: 'function_call_output', call_id: 'a', output: 'r' },
    ],
  }),
  messages: (...signatures) => ({
    model: 'a/b',
    max_tokens: 9000,
    messages: [
      user,
      {
        role: 'assistant',
        content: [...signatures.map(thinking), { type: 'tool_use', id: 'a', name: 'f', input: {} }],
      },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'a', content: 'r' }] },
    ],
  }),
  generateContent: (...signatures) => ({
    contents: [
      { role: 'user', parts: [{ text: 'q' }] },
      {
        role: 'model',
        parts: [
          ...signatures.map((thoughtSignature) => ({ text: 'hm', thought: true, thoughtSignature })),
          { functionCall: { id: 'a', name: 'f', args: {} } },
        ],
      },
      { role: 'user', parts: [{ functionResponse: { id: 'a', name: 'f', response: { output: 'r' } } }] },
    ],
  }),
}

/** The path of a reasoning part of the turn, by its index. */
const REASONING_PATHS: Record<ConversationName, (index: number) => string> = {
  'chat.completions': (index) => `messages[1].reasoning_details[${index}]`,
  responses: (index) => `input[${index + 1}]`,
  messages: (index) => `messages[1].content[${index}]`,
  generateContent: (index) => `contents[1].parts[${index}]`,
}

/** The path of the tool call after this many reasoning parts. */
const CALL_PATHS: Record<ConversationName, (count: number) => string> = {
  ...REASONING_PATHS,
  'chat.completions': () => 'messages[1].tool_calls[0]',
}

for (const client of NAMES)
  for (const provider of others(client)) {
    const dropped = (index: number): string => `reasoning_dropped ${REASONING_PATHS[client](index)}`
    // Google's models require a signature on the call.
    const ofCall = (count: number): string[] =>
      provider === 'generateContent' ? [`signature_replaced ${CALL_PATHS[client](count)}`] : []

    describe(`reasoning of ${client} sent to ${provider}`, () => {
      test('in a turn of several issuers only the reasoning of the target model is sent', () => {
        const { text, lost } = sent(client, TOOL_TURN[client](own, otherModel, otherProvider, UNWRAPPED), provider)
        expect([OWN, OTHER_MODEL, OTHER_PROVIDER, UNWRAPPED].map((one) => text.includes(JSON.stringify(one)))).toEqual([
          true,
          false,
          false,
          false,
        ])
        expect(text).not.toContain(own)
        expect(lost).toEqual([dropped(1), dropped(2), dropped(3), ...ofCall(4)])
      })

      test('a turn of the target model is sent without a loss of its reasoning', () => {
        const { text, lost } = sent(client, TOOL_TURN[client](own), provider)
        expect(text).toContain(JSON.stringify(OWN))
        expect(lost).toEqual(ofCall(1))
      })
    })
  }

const ONLY_REASONING: Record<ConversationName, Any> = {
  'chat.completions': {
    model: 'a/b',
    messages: [user, { role: 'assistant', content: '', reasoning_details: details(own) }, user],
  },
  responses: { model: 'a/b', input: [user, item(own), user] },
  messages: {
    model: 'a/b',
    max_tokens: 9000,
    messages: [user, { role: 'assistant', content: [thinking(own)] }, user],
  },
  generateContent: {
    contents: [
      { role: 'user', parts: [{ text: 'q' }] },
      { role: 'model', parts: [{ text: 'hm', thought: true, thoughtSignature: own }] },
      { role: 'user', parts: [{ text: 'q' }] },
    ],
  },
}

describe.each(NAMES)('reasoning at the end of an earlier response, sent to %s', (provider) => {
  test.each(others(provider))(
    'of a %s client is carried if the provider accepts it and reported otherwise',
    (client) => {
      const { text, lost } = sent(client, ONLY_REASONING[client], provider)
      // Anthropic refuses a response that ends with thinking, OpenAI a reasoning item that nothing follows.
      expect([text.includes(JSON.stringify(OWN)), lost]).toEqual(
        provider === 'generateContent' ? [true, []] : [false, [`reasoning_dropped ${REASONING_PATHS[client](0)}`]],
      )
    },
  )
})

describe('texts of generateContent clients', () => {
  const conversation = (...contents: Any[]): Any => ({
    contents: [{ role: 'user', parts: [{ text: 'q' }] }, ...contents, { role: 'user', parts: [{ text: 'n' }] }],
  })

  test.each(NAMES.slice(0, 3))(
    'signatures of texts, also of an empty last one, are dropped with a loss for %s',
    (provider) => {
      const parts = [
        { text: 'hello', thoughtSignature: OTHER_MODEL },
        { text: '', thoughtSignature: UNWRAPPED },
      ]
      const { text, lost } = sent('generateContent', conversation({ role: 'model', parts }), provider)
      expect(text).toContain('hello')
      expect(text).not.toContain(OTHER_MODEL)
      expect(lost).toEqual([
        'signature_dropped contents[1].parts[0].thoughtSignature',
        'signature_dropped contents[1].parts[1].thoughtSignature',
      ])
    },
  )

  test('a text that a stream sent in pieces is joined', () => {
    const model = (part: Any): Any => ({ role: 'model', parts: [part] })
    const pieces = [model({ text: 'Lo' }), model({ text: 'ok.' }), model({ text: '' })]
    const { text } = sent('generateContent', conversation(...pieces), 'messages')
    expect(text).toContain('"text":"Look."')
  })
})

test('the signature of another model on a call is replaced for Google, and reported where the client has it', () => {
  const call = { id: 'a', type: 'function', function: { name: 'f', arguments: '{}' } }
  const signed = (thought_signature: string): Any => ({ ...call, extra_content: { google: { thought_signature } } })
  const body = (signature: string): Any => ({
    model: 'a/b',
    messages: [
      user,
      { role: 'assistant', content: null, tool_calls: [signed(signature)] },
      { role: 'tool', tool_call_id: 'a', content: 'r' },
    ],
  })
  expect(sent('chat.completions', body(own), 'generateContent')).toMatchObject({ lost: [] })
  const replaced = sent('chat.completions', body(otherModel), 'generateContent')
  expect(replaced.text).not.toContain(OTHER_MODEL)
  expect(replaced.lost).toContain('signature_replaced messages[1].tool_calls[0].extra_content')
})

describe('a truncated or changed signature envelope', () => {
  const wrapped = Buffer.from(own, 'base64')
  const changed = [...wrapped.keys()]
    .filter((at) => at >= 5)
    .map((at) => Buffer.from(wrapped.map((byte, index) => (index === at ? byte ^ 1 : byte))).toString('base64'))
    .filter((_, at) => at % 7 === 0)

  test.each(NAMES)('of a %s client is accepted for no model', (client) => {
    for (const broken of [own.slice(0, -8), own.slice(0, 12), own + own, ...changed]) {
      const body = TOOL_TURN[client](broken)
      const { text, lost } = sent(client, body, client === 'messages' ? 'responses' : 'messages')
      expect(text).not.toContain(OWN.slice(0, 20))
      expect(lost).toEqual([`reasoning_dropped ${REASONING_PATHS[client](0)}`])
      const forwarded = protocols[client].call.forward(
        contextOf(client, body),
        { ...OURS, quirks: {}, capabilities: {} },
        new LossReport(),
      )
      expect([forwarded.includes(broken), forwarded.includes(OWN.slice(0, 20))]).toEqual([false, false])
    }
  })
})
