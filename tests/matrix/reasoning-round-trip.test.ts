import { describe, expect, test } from 'bun:test'
import { fold, unfold, type GenerationResponse } from '../../src/generation/event.ts'
import type { ConversationName } from '../../src/generation/request.ts'
import { protocols } from '../../src/protocols/index.ts'
import type { Quirks } from '../../src/protocols/quirks.ts'
import type { Any } from '../recorded/response-content.ts'
import { withoutPaths, written } from '../translating.ts'
import { bodyOf } from './client-requests.ts'
import { contextOf, NAMES, others } from './routes.ts'

/**
 * A provider's response that a client of another protocol sends back in its next request: the provider gets its
 * reasoning and its signatures as it sent them.
 */

const OURS = { provider: 'p', model: 'm' }

const reasoning = (text: string, data: string): Any => ({ type: 'reasoning', text, signature: { data } })
const summary = (text: string, data: string): Any => ({ ...reasoning(text, data), form: 'summary' })
const hidden = (data: string): Any => ({ ...reasoning('', data), redacted: true })
const signed = (data: string | undefined): object => (data === undefined ? {} : { signature: { data } })
const text = (content: string, data?: string): Any => ({ type: 'text', text: content, ...signed(data) })
const call = (id: string, data?: string): Any => ({
  type: 'tool-call',
  id,
  name: 'f',
  arguments: '{}',
  form: 'function',
  ...signed(data),
})

const RESPONSES: Partial<Record<ConversationName, Record<string, Any[]>>> = {
  messages: {
    'reasoning between texts and calls': [
      reasoning('one', 'S1'),
      text('Aaa'),
      reasoning('two', 'S2'),
      text('Bbb'),
      hidden('S3'),
      call('a'),
      reasoning('three', 'S4'),
      call('b'),
    ],
    'reasoning without visible text': [reasoning('', 'S1'), hidden('S2'), reasoning('', 'S3'), call('a')],
    'signatures of any characters and length': [
      reasoning('\u2028"\\ 😀', 'A+/=~é😀\u0001 '),
      reasoning('long', 'q'.repeat(100_000)),
      call('a'),
    ],
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
    'adjacent items': [hidden('S1'), summary('one', 'S2'), hidden('S3'), call('a')],
  },
  generateContent: {
    'several signed texts': [text('Aaa', 'S1'), text('B😀b', 'S2'), text('Ccc'), call('a', 'S3'), call('b', 'S4')],
    'a signed text between calls': [call('a', 'S1'), text('Aaa', 'S2'), call('b')],
    'an empty signed text': [text('Aaa', 'S1'), text('', 'S2'), call('a', 'S3')],
    'an empty signed text after a call': [call('a', 'S1'), text('', 'S2'), call('b')],
    'hidden reasoning': [summary('one', 'S1'), text('Aaa', 'S2'), hidden('S3'), call('a', 'S4')],
  },
}

/** The client's copy of a response, as the elements that it puts into its next request. */
function received(client: ConversationName, answer: GenerationResponse, stream: boolean): Any[] {
  const model = client === 'generateContent' ? {} : { model: 'a/b' }
  const context = contextOf(client, { ...model, ...bodyOf(client, { turns: [{ user: 'q' }] }, stream) })
  const { serve } = protocols[client]
  if (!stream) {
    const whole = serve.writeResponse(answer, context) as Any
    if (client === 'responses') return whole.output
    if (client === 'messages') return [{ role: 'assistant', content: whole.content }]
    return [client === 'chat.completions' ? whole.choices[0].message : whole.candidates[0].content]
  }
  const writer = serve.writer(context)
  const frames = [...unfold(answer)]
    .flatMap((event) => writer.write(event))
    .filter(({ data }) => data !== '[DONE]')
    .map(({ data }) => JSON.parse(data) as Any)
  if (client === 'chat.completions') return [joined(frames.flatMap(({ choices }) => choices[0]?.delta ?? []))]
  return client === 'responses'
    ? frames.filter(({ type }) => type === 'response.output_item.done').map(({ item }) => item)
    : frames.map(({ candidates }) => candidates[0].content)
}

/** The message of these deltas, joined as OpenRouter's clients do: entries of one index and type are one. */
function joined(deltas: Any[]): Any {
  const details = new Map<string, Any>()
  const calls: Any[] = []
  for (const { reasoning_details: entries = [], tool_calls: [first] = [] } of deltas) {
    for (const { text: piece = '', ...entry } of entries) {
      const key = `${entry.index} ${entry.type}`
      details.set(key, { ...details.get(key), ...entry, text: `${details.get(key)?.text ?? ''}${piece}` })
    }
    if (first?.id !== undefined) calls.push({ ...first, function: { ...first.function, arguments: '{}' } })
  }
  return {
    role: 'assistant',
    content: deltas.map(({ content }) => content ?? '').join(''),
    reasoning_details: [...details.values()],
    tool_calls: calls,
  }
}

/** A request with these elements after the first question. */
const NEXT_REQUEST: Record<ConversationName, (elements: Any[]) => Any> = {
  'chat.completions': (messages) => ({ model: 'a/b', messages: [{ role: 'user', content: 'q' }, ...messages] }),
  responses: (items) => ({ model: 'a/b', input: [{ role: 'user', content: 'q' }, ...items] }),
  messages: (messages) => ({
    model: 'a/b',
    max_tokens: 9000,
    messages: [{ role: 'user', content: 'q' }, ...messages],
  }),
  generateContent: (contents) => ({ contents: [{ role: 'user', parts: [{ text: 'q' }] }, ...contents] }),
}

/** The parts of the response in a request to its provider. */
function sentBack(provider: ConversationName, body: Any): Any[] {
  const { parts } = contextOf(provider, body).request.turns[1]!
  return withoutPaths(parts).map((part) => ({
    ...part,
    ...(part.type !== 'reasoning' || provider === 'messages'
      ? {}
      : part.text === ''
        ? { redacted: true }
        : { form: 'summary' }),
  }))
}

for (const [provider, responses] of Object.entries(RESPONSES) as [ConversationName, Record<string, Any[]>][])
  for (const client of others(provider))
    for (const stream of client === 'messages' ? [false] : [false, true])
      describe(`a response of ${provider} through a ${client} client${stream ? ', streamed' : ''}`, () => {
        test.each(Object.entries(responses))('%s: comes back unchanged', (_name, parts) => {
          const answer: GenerationResponse = {
            ...fold([
              { type: 'start', id: 'i', model: 'm' },
              { type: 'finish', reason: 'tool-calls', raw: 'x' },
            ]),
            parts: parts as GenerationResponse['parts'],
          }
          const { request } = contextOf(client, NEXT_REQUEST[client](received(client, answer, stream)))
          const { body } = written(provider, request, { ...OURS, quirks: {}, capabilities: {} })
          expect(sentBack(provider, JSON.parse(JSON.stringify(body)) as Any)).toEqual(parts)
        })
      })

const SUMMARIES = [
  { type: 'reasoning.summary', summary: 'One.', format: 'openai-responses-v1', index: 0 },
  { type: 'reasoning.encrypted', data: 'E', format: 'openai-responses-v1', index: 0, id: 'rs_1' },
  { type: 'reasoning.text', text: 'Two.', format: 'google-gemini-v1', index: 1 },
  { type: 'reasoning.encrypted', data: 'G', format: 'google-gemini-v1', index: 1, id: 'g_1' },
]

const WAYS = NAMES.slice(1).flatMap((client): [ConversationName, string, boolean][] => [
  [client, 'whole', false],
  ...(client === 'messages' ? [] : [[client, 'streamed', true] as [ConversationName, string, boolean]]),
])

test.each(WAYS)(
  'summaries and texts before encrypted reasoning come back through a %s client, %s',
  (client, _way, stream) => {
    const message = { role: 'assistant', content: 'x', reasoning_details: SUMMARIES }
    const quirks: Quirks = { reasoningField: 'reasoning_details' }
    const answer = fold(
      protocols['chat.completions'].call.readResponse(
        { choices: [{ index: 0, message, finish_reason: 'stop' }] },
        quirks,
      ),
    )
    const { request } = contextOf(client, NEXT_REQUEST[client](received(client, answer, stream)))
    const { body } = written('chat.completions', request, { ...OURS, quirks, capabilities: {} })
    const found = (body.messages as Any[])[1]!.reasoning_details as Any[]
    const inShort = (entries: Any[]): unknown[] =>
      entries.map(({ type, summary, text, data, signature }) => [type, summary ?? text ?? data, signature])
    // Clients of the responses API get every text as a summary.
    const expected =
      client === 'responses'
        ? SUMMARIES.map((one) => (one.text === undefined ? one : { ...one, type: 'reasoning.summary' }))
        : SUMMARIES
    expect(inShort(found)).toEqual(inShort(expected))
  },
)

test.each(NAMES.slice(1))('reasoning_details come back through a %s client with their format and id', (client) => {
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
  const answer = fold(
    protocols['chat.completions'].call.readResponse(
      { choices: [{ index: 0, message, finish_reason: 'tool_calls' }] },
      quirks,
    ),
  )
  const { request } = contextOf(client, NEXT_REQUEST[client](received(client, answer, false)))
  const { body } = written('chat.completions', request, { ...OURS, quirks, capabilities: {} })
  // All entries of one response have one format: an entry without a format has that of the first.
  expect((body.messages as Any[])[1]!.reasoning_details).toEqual([
    ...entries.slice(0, 3),
    { ...entries[3], format: 'anthropic-claude-v1' },
  ])
})
