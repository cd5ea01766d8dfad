import { written } from '../translating.ts'
import { LossReport } from '../../src/protocols/translation.ts'
import { describe, expect, test } from 'bun:test'
import type { ConversationName } from '../../src/generation/request.ts'
import { fold, unfold, type GenerationResponse } from '../../src/generation/event.ts'
import { wrapSignature } from '../../src/generation/signature.ts'
import { protocols } from '../../src/protocols/index.ts'
import type { Capabilities, Quirks } from '../../src/protocols/protocol.ts'
import type { Any } from '../recorded/response-content.ts'

/**
 * Earlier turns in which several models thought, and what each provider gets back of them: what its model signed, byte
 * for byte, and nothing else.
 */

const NAMES: ConversationName[] = ['chat.completions', 'responses', 'messages', 'generateContent']
const OURS = { provider: 'p', model: 'm' }

/** 48 bytes, with the signs that URLs spell differently. */
const bytes = (first: number): string =>
  Buffer.from(Array.from({ length: 48 }, (_, i) => (i * 61 + first) % 256)).toString('base64')
const OWN = bytes(251),
  OTHER_MODEL = bytes(7),
  OTHER_PROVIDER = bytes(99),
  PLAIN = bytes(180)
const own = wrapSignature(OWN, OURS),
  otherModel = wrapSignature(OTHER_MODEL, { provider: 'p', model: 'n' }),
  otherProvider = wrapSignature(OTHER_PROVIDER, { provider: 'q', model: 'm' })

const QUIRKS: Partial<Record<ConversationName, Quirks>> = {
  'chat.completions': { reasoningField: 'reasoning_details' },
}
const ABILITIES: Partial<Record<ConversationName, Capabilities>> = {
  messages: { reasoning: 'budget' },
  generateContent: { reasoning: 'level' },
}

function sent(client: ConversationName, body: Any, provider: ConversationName): { text: string; lost: string[] } {
  const rawRequest = { body, text: JSON.stringify(body), model: 'a/b', headers: new Headers() }
  const { body: sentBody, losses } = written(provider, protocols[client].serve.readRequest(rawRequest), {
    ...OURS,
    quirks: QUIRKS[provider] ?? {},
    capabilities: ABILITIES[provider] ?? {},
  })
  return {
    text: JSON.stringify(sentBody),
    lost: losses
      .filter(({ path }) => path === 'thoughts' || path === 'signature')
      .map(({ path, effect }) => `${path} ${effect}`),
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

/** One turn of three makers, then its call and result. */
const MIXED: Record<ConversationName, (...signatures: string[]) => Any> = {
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

for (const client of NAMES)
  for (const provider of NAMES.filter((name) => name !== client))
    describe(`${client} -> ${provider}`, () => {
      test('of a turn of several makers each gets its own back', () => {
        const { text, lost } = sent(client, MIXED[client](own, otherModel, otherProvider, PLAIN), provider)
        expect([OWN, OTHER_MODEL, OTHER_PROVIDER, PLAIN].map((one) => text.includes(JSON.stringify(one)))).toEqual([
          true,
          false,
          false,
          false,
        ])
        expect(text).not.toContain(own)
        expect(lost).toContain('thoughts dropped')
      })

      test('of a turn of its own nothing is lost', () => {
        const { text, lost } = sent(client, MIXED[client](own), provider)
        expect(text).toContain(JSON.stringify(OWN))
        expect(lost.filter((one) => one !== 'signature approximated')).toEqual([])
      })
    })

describe.each(NAMES)('thoughts that ended an answer, towards %s', (provider) => {
  test.each(NAMES.filter((name) => name !== provider))('of %s: stay where they may, else are told', (client) => {
    const alone: Record<ConversationName, Any> = {
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
    const { text, lost } = sent(client, alone[client], provider)
    // Anthropic refuses an answer that ends with thinking, OpenAI a reasoning item that nothing follows.
    expect([text.includes(JSON.stringify(OWN)), lost]).toEqual(
      provider === 'generateContent' ? [true, []] : [false, ['thoughts dropped']],
    )
  })
})

test.each(NAMES.slice(0, 3))(
  'signatures of texts, also of an empty last one, are told where %s has no place for them',
  (provider) => {
    const parts = [
      { text: 'hello', thoughtSignature: OTHER_MODEL },
      { text: '', thoughtSignature: PLAIN },
    ]
    const { text, lost } = sent(
      'generateContent',
      {
        contents: [
          { role: 'user', parts: [{ text: 'q' }] },
          { role: 'model', parts },
          { role: 'user', parts: [{ text: 'n' }] },
        ],
      },
      provider,
    )
    expect(text).toContain('hello')
    expect(text).not.toContain(OTHER_MODEL)
    expect(new Set(lost)).toEqual(new Set(['signature dropped']))
  },
)

describe('an answer that goes through a client and back', () => {
  const think = (text: string, data: string): Any => ({ type: 'reasoning', text, signature: { data } })
  const summary = (text: string, data: string): Any => ({ ...think(text, data), form: 'summary' })
  const hidden = (data: string): Any => ({ ...think('', data), redacted: true })
  const text = (words: string, data?: string): Any => ({
    type: 'text',
    text: words,
    ...(data === undefined ? {} : { signature: { data } }),
  })
  const call = (id: string, data?: string): Any => ({
    type: 'tool-call',
    id,
    name: 'f',
    arguments: '{}',
    form: 'function',
    ...(data === undefined ? {} : { signature: { data } }),
  })

  const ANSWERS: Partial<Record<ConversationName, Record<string, Any[]>>> = {
    messages: {
      'thoughts between texts and calls': [
        think('one', 'S1'),
        text('Aaa'),
        think('two', 'S2'),
        text('Bbb'),
        hidden('S3'),
        call('a'),
        think('three', 'S4'),
        call('b'),
      ],
      'thoughts whose words were not shown': [think('', 'S1'), hidden('S2'), think('', 'S3'), call('a')],
      'any signature': [think('\u2028"\\ 😀', 'A+/=~é😀\u0001 '), think('long', 'q'.repeat(100_000)), call('a')],
    },
    responses: {
      'several items, with and without a summary': [
        summary('one', 'S1'),
        text('Aaa'),
        hidden('S2'),
        call('a'),
        summary('two', 'S3'),
        call('b'),
      ],
      'items side by side': [hidden('S1'), summary('one', 'S2'), hidden('S3'), call('a')],
    },
    generateContent: {
      'several signed texts': [text('Aaa', 'S1'), text('B😀b', 'S2'), text('Ccc'), call('a', 'S3'), call('b', 'S4')],
      'a signed text between calls': [call('a', 'S1'), text('Aaa', 'S2'), call('b')],
      'an empty signed text': [text('Aaa', 'S1'), text('', 'S2'), call('a', 'S3')],
      'an empty signed text behind a call': [call('a', 'S1'), text('', 'S2'), call('b')],
      'hidden thoughts': [summary('one', 'S1'), text('Aaa', 'S2'), hidden('S3'), call('a', 'S4')],
    },
  }

  const heard = (client: ConversationName, answer: GenerationResponse, stream: boolean): Any[] => {
    const context = {
      rawRequest: { body: {}, text: '{}', headers: new Headers() },
      request: { model: 'a/b', system: [], turns: [], tools: [], sampling: {}, stream, protocol: client, extras: {} },
      responseIdentity: { id: 'i', model: 'a/b', createdAt: 1, issuer: OURS },
      losses: new LossReport(),
    }
    const { serve } = protocols[client]
    if (stream) {
      const writer = serve.writer(context)
      const frames = [...unfold(answer)]
        .flatMap((event) => writer.write(event))
        .filter(({ data }) => data !== '[DONE]')
        .map(({ data }) => JSON.parse(data) as Any)
      if (client === 'chat.completions') return [joined(frames.map(({ choices }) => choices[0].delta))]
      return client === 'responses'
        ? frames.filter(({ type }) => type === 'response.output_item.done').map(({ item: done }) => done)
        : frames.map(({ candidates }) => candidates[0].content)
    }
    const whole = serve.writeResponse(answer, context) as Any
    return client === 'chat.completions'
      ? [whole.choices[0].message]
      : client === 'responses'
        ? whole.output
        : client === 'messages'
          ? [{ role: 'assistant', content: whole.content }]
          : [whole.candidates[0].content]
  }

  /** As OpenRouter's clients join them: entries of one index and type are one. */
  function joined(deltas: Any[]): Any {
    const details = new Map<string, Any>(),
      calls: Any[] = []
    for (const { reasoning_details: entries = [], tool_calls: [call] = [] } of deltas) {
      for (const { text: words = '', ...entry } of entries) {
        const key = `${entry.index} ${entry.type}`
        details.set(key, { ...details.get(key), ...entry, text: `${details.get(key)?.text ?? ''}${words}` })
      }
      if (call?.id !== undefined) calls.push({ ...call, function: { ...call.function, arguments: '{}' } })
    }
    return {
      role: 'assistant',
      content: deltas.map(({ content }) => content ?? '').join(''),
      reasoning_details: [...details.values()],
      tool_calls: calls,
    }
  }

  const asked: Record<ConversationName, (answer: Any[]) => Any> = {
    'chat.completions': (messages) => ({ model: 'a/b', messages: [user, ...messages] }),
    responses: (items) => ({ model: 'a/b', input: [user, ...items] }),
    messages: (messages) => ({ model: 'a/b', max_tokens: 9000, messages: [user, ...messages] }),
    generateContent: (contents) => ({ contents: [{ role: 'user', parts: [{ text: 'q' }] }, ...contents] }),
  }

  /** What its provider hears of it, in our words. */
  const sentBack = (provider: ConversationName, body: Any): Any[] => {
    const parts = protocols[provider].serve.readRequest({
      body,
      text: JSON.stringify(body),
      model: 'a/b',
      headers: new Headers(),
    }).turns[1]!.parts
    return parts.map((part) => ({
      ...part,
      ...(part.type !== 'reasoning' || provider === 'messages'
        ? {}
        : part.text === ''
          ? { redacted: true }
          : { form: 'summary' }),
    }))
  }

  for (const [provider, answers] of Object.entries(ANSWERS) as [ConversationName, Record<string, Any[]>][]) {
    for (const client of NAMES.filter((name) => name !== provider))
      for (const stream of client === 'messages' ? [false] : [false, true]) {
        test.each(Object.entries(answers))(
          `${provider} -> ${client} -> ${provider}${stream ? ', streamed' : ''}: %s`,
          (_name, parts) => {
            const answer: GenerationResponse = {
              ...fold([
                { type: 'start', id: 'i', model: 'm' },
                { type: 'finish', reason: 'tool-calls', raw: 'x' },
              ]),
              parts: parts as GenerationResponse['parts'],
            }
            const rawRequest = asked[client](heard(client, answer, stream))
            const request = protocols[client].serve.readRequest({
              body: rawRequest,
              text: JSON.stringify(rawRequest),
              model: 'a/b',
              headers: new Headers(),
            })
            const { body } = written(provider, request, { ...OURS, quirks: {}, capabilities: {} })
            expect(sentBack(provider, JSON.parse(JSON.stringify(body)) as Any)).toEqual(parts)
          },
        )
      }
  }

  test.each(NAMES.slice(1))('entries of reasoning_details come back through %s with their format and id', (client) => {
    const entries = [
      { type: 'reasoning.text', text: 't', signature: 'S', format: 'anthropic-claude-v1', index: 0 },
      { type: 'reasoning.encrypted', data: 'E', format: 'openai-responses-v1', index: 1, id: 'rs_1' },
      { type: 'reasoning.encrypted', data: 'C', format: 'google-gemini-v1', index: 2, id: 'a' },
      { type: 'reasoning.encrypted', data: 'N', index: 3 },
    ]
    const message = {
      role: 'assistant',
      content: 'x',
      reasoning_details: entries,
      tool_calls: [{ id: 'a', type: 'function', function: { name: 'f', arguments: '{}' } }],
    }
    const quirks: Quirks = { reasoningField: 'reasoning_details' }
    const rawRequest = asked[client](
      heard(
        client,
        fold(
          protocols['chat.completions'].call.readResponse(
            { choices: [{ index: 0, message, finish_reason: 'tool_calls' }] },
            quirks,
          ),
        ),
        false,
      ),
    )
    const request = protocols[client].serve.readRequest({
      body: rawRequest,
      text: JSON.stringify(rawRequest),
      model: 'a/b',
      headers: new Headers(),
    })
    const { body } = written('chat.completions', request, { ...OURS, quirks, capabilities: {} })
    // What one answer holds is of one format: an entry that says none has the first.
    expect((body.messages as Any[])[1]!.reasoning_details).toEqual([
      ...entries.slice(0, 3),
      { ...entries[3], format: 'anthropic-claude-v1' },
    ])
  })

  test('a text that a stream told in pieces is one again', () => {
    const model = (part: Any): Any => ({ role: 'model', parts: [part] })
    const { text } = sent(
      'generateContent',
      {
        contents: [
          { role: 'user', parts: [{ text: 'q' }] },
          model({ text: 'Lo' }),
          model({ text: 'ok.' }),
          model({ text: '' }),
          { role: 'user', parts: [{ text: 'n' }] },
        ],
      },
      'messages',
    )
    expect(text).toContain('"text":"Look."')
  })
})

test('a seal that was cut short or changed belongs to nobody', () => {
  const bytes = Buffer.from(own, 'base64')
  const changed = [...bytes.keys()]
    .filter((at) => at >= 5)
    .map((at) => Buffer.from(bytes.map((byte, index) => (index === at ? byte ^ 1 : byte))).toString('base64'))
  for (const broken of [own.slice(0, -8), own.slice(0, 12), own + own, ...changed.filter((_one, at) => at % 7 === 0)])
    for (const client of NAMES) {
      const { text, lost } = sent(client, MIXED[client](broken), client === 'messages' ? 'responses' : 'messages')
      expect(text).not.toContain(OWN.slice(0, 20))
      expect(lost).toContain('thoughts dropped')
      const body = MIXED[client](broken),
        rawRequest = { body, text: JSON.stringify(body), model: 'a/b', headers: new Headers() }
      const forwarded = protocols[client].call.forward(
        {
          rawRequest,
          request: protocols[client].serve.readRequest(rawRequest),
          responseIdentity: { id: 'i', model: 'a/b', createdAt: 1 },
        },
        { ...OURS, quirks: {}, capabilities: {} },
        new LossReport(),
      )
      expect([forwarded.includes(broken), forwarded.includes(OWN.slice(0, 20))]).toEqual([false, false])
    }
})
