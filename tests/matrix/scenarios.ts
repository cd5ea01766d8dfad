import { SCHEMA, type ClientRequest } from './client-requests.ts'
import type { TokenCounts, Reply } from './provider-replies.ts'
import type { WireResponse } from './wire-reader.ts'

/** A conversation that is run on every route. */
export type Scenario = {
  name: string
  request: ClientRequest
  /** The provider's response; absent: it refuses the request with 429. */
  reply?: Reply
  /** The provider fails in the middle of its response. */
  failsMidway?: true
  /** The client's next request, to which the provider replies "done". */
  followUp?: (response: WireResponse) => ClientRequest
  /** The client's name of the tool, which the provider may not accept. */
  toolName?: string
  /** Text after the stop sequence, from a provider whose protocol has none. */
  textAfterStop?: string
  /** The next request is for another model of the provider, which must not get the signatures of the first. */
  otherModel?: true
  /** Signatures that the provider must get back with the next request. */
  signatures?: string[]
}

/** A number too large for a double. Scenarios have SMALL_NUMBER in its place, since they parse their JSON. */
export const BIG_NUMBER = '12345678901234567890'
export const SMALL_NUMBER = '7654321'

/** The provider's error and retry-after. */
export const RATE_LIMIT_MESSAGE = 'too many requests'
export const RETRY_AFTER_SECONDS = 7
export const FAILURE_MESSAGE = 'the server failed'

const USAGE: TokenCounts = { prompt: 40, cached: 0, written: 0, completion: 12, reasoning: 0 }

const hello: ClientRequest = { turns: [{ user: 'Where is Paris?' }] }
const textReply = (text: string, more: Partial<Reply> = {}): Reply => ({
  parts: [{ type: 'text', text }],
  finish: 'stop',
  usage: USAGE,
  ...more,
})

/** A PNG of one pixel. */
const IMAGE = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='

/** Two calls of one function, with members in different orders. */
const CALLS = [
  { id: 'call_one', args: `{"id":${SMALL_NUMBER},"city":"Zürich"}` },
  { id: 'call_two', args: `{"city":"Aix","id":${SMALL_NUMBER}}` },
]
const callParts = CALLS.map((call) => ({ type: 'call' as const, ...call }))
const question = { user: 'Compare two places.' }

/** 64 bytes whose base64 has the characters that base64url spells differently. */
const SIGNATURE = Buffer.from(Array.from({ length: 64 }, (_, i) => (i * 61 + 251) % 256)).toString('base64')

const REASONING: Scenario = {
  name: 'reasoning',
  request: { turns: [question], tools: true, reasoning: true },
  reply: {
    parts: [{ type: 'reasoning', text: 'I should look both up.', signature: SIGNATURE }, ...callParts],
    finish: 'tool-calls',
    usage: { ...USAGE, reasoning: 5 },
  },
  followUp: ({ earlierResponse, ids }) => ({
    turns: [question, { earlierResponse }, { results: ids.map((id, index) => ({ id, text: `result ${index}` })) }],
    tools: true,
    reasoning: true,
  }),
  signatures: [SIGNATURE],
}

export const SCENARIOS: Scenario[] = [
  {
    name: 'text',
    request: { ...hello, system: 'Answer in German.', maxTokens: 500 },
    reply: textReply('In Frankreich. 🗼 "Seine"'),
  },
  {
    name: 'several turns',
    request: { turns: [{ user: 'Hi' }, { assistant: 'Hello!' }, { user: 'Where is Paris?' }] },
    reply: textReply('In France.'),
  },
  {
    name: 'parallel tools',
    request: { turns: [question], tools: true },
    reply: { parts: [{ type: 'text', text: 'Both.' }, ...callParts], finish: 'tool-calls', usage: USAGE },
    followUp: ({ earlierResponse, ids }) => ({
      turns: [question, { earlierResponse }, { results: ids.map((id, index) => ({ id, text: `result ${index}` })) }],
      tools: true,
    }),
  },
  {
    name: 'long tool name',
    toolName: 'find.place.'.repeat(9),
    request: { turns: [question], tools: true },
    reply: { parts: [callParts[0]!], finish: 'tool-calls', usage: USAGE },
    followUp: ({ earlierResponse, ids }) => ({
      turns: [question, { earlierResponse }, { results: ids.map((id) => ({ id, text: 'found' })) }],
      tools: true,
    }),
  },
  {
    name: 'no arguments',
    request: { turns: [question], tools: true },
    reply: { parts: [{ type: 'call', id: 'call_none', args: '' }], finish: 'tool-calls', usage: USAGE },
    followUp: ({ earlierResponse, ids }) => ({
      turns: [question, { earlierResponse }, { results: ids.map((id) => ({ id, text: 'found' })) }],
      tools: true,
    }),
  },
  {
    name: 'failed tool',
    request: {
      turns: [
        question,
        { calls: [CALLS[0]!] },
        { results: [{ id: 'call_one', text: 'No such place.', isError: true }] },
      ],
      tools: true,
    },
    reply: textReply('A pity.'),
  },
  {
    name: 'instruction midway',
    request: {
      turns: [{ user: 'Hi' }, { assistant: 'Hello!' }, { system: 'From now on, German.' }, { user: 'Where is Paris?' }],
    },
    reply: textReply('In Frankreich.'),
  },
  {
    name: 'image in a tool result',
    request: {
      turns: [question, { calls: [CALLS[0]!] }, { results: [{ id: 'call_one', text: 'A map.', image: IMAGE }] }],
      tools: true,
    },
    reply: textReply('I see it.'),
  },
  REASONING,
  { ...REASONING, name: 'reasoning of another model', otherModel: true },
  {
    name: 'structured output',
    request: { ...hello, schema: SCHEMA },
    reply: textReply(`{"city":"Paris","id":${SMALL_NUMBER}}`),
  },
  {
    name: 'refusal',
    request: hello,
    reply: { parts: [{ type: 'refusal', text: 'I will not say.' }], finish: 'refusal', usage: USAGE },
  },
  {
    name: 'citations',
    request: hello,
    reply: {
      parts: [
        { type: 'text', text: 'Grüße aus 🗼 ' },
        {
          type: 'text',
          text: 'Paris ist schön.',
          cite: { passage: 'Paris ist schön.', url: 'https://example.com/paris', title: 'Über Paris' },
        },
        { type: 'text', text: ' Ja.' },
      ],
      finish: 'stop',
      usage: USAGE,
    },
  },
  {
    name: 'cache usage',
    request: hello,
    reply: textReply('Cached.', { usage: { prompt: 5000, cached: 3000, written: 1500, completion: 12, reasoning: 0 } }),
  },
  { name: 'cut by length', request: { ...hello, maxTokens: 100 }, reply: textReply('In Fr', { finish: 'length' }) },
  {
    name: 'cut arguments',
    request: { turns: [question], tools: true, maxTokens: 100 },
    reply: {
      parts: [
        { type: 'text', text: 'Wait.' },
        { type: 'call', id: 'call_cut', args: '{"city":"Par' },
      ],
      finish: 'length',
      usage: USAGE,
    },
  },
  {
    name: 'stop sequence',
    request: { ...hello, stop: ['END'] },
    textAfterStop: 'END, and more',
    reply: textReply('In France. ', { finish: 'stop-sequence', stopSequence: 'END' }),
  },
  { name: 'refused request', request: hello },
  { name: 'error in mid-answer', request: hello, reply: textReply('In Fra'), failsMidway: true },
  { name: 'empty answer', request: hello, reply: { parts: [], finish: 'stop', usage: { ...USAGE, completion: 0 } } },
]
