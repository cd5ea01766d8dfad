import { SCHEMA, type Ask } from './asking.ts'
import type { Count, Reply } from './answering.ts'
import type { Heard } from './reading.ts'

/** The scenarios that run on every route. */
export type Scenario = {
  name: string
  ask: Ask
  /** The provider's response. Absent: it refuses the request. */
  reply?: Reply
  /** The response ends with an error in the middle. */
  breaks?: true
  /** The client's next request; the provider then responds with "done". */
  then?: (heard: Heard) => Ask
  /** The client's name of the tool, which a provider may refuse. */
  tool?: string
  /** Text after the stop sequence from a provider without stop sequences. */
  beyond?: string
  /** The next request is for another model of the provider, which must not receive the signatures of the first. */
  another?: true
  /** Signatures that the provider must receive with it. */
  proofs?: string[]
}

/** Too large for a double; in the bodies of the test it replaces SMALL. */
export const BIG = '12345678901234567890'
export const SMALL = '7654321'

/** The provider's error and its Retry-After in seconds. */
export const REFUSAL = 'too many requests just now'
export const WAIT_SECONDS = 7
export const FAILURE = 'the machine fell over'

const COUNT: Count = { prompt: 40, cached: 0, written: 0, completion: 12, reasoning: 0 }

const hello: Ask = { turns: [{ user: 'Where is Paris?' }] }
const said = (text: string, more: Partial<Reply> = {}): Reply => ({
  parts: [{ type: 'text', text }],
  ending: 'stop',
  usage: COUNT,
  ...more,
})

// An image of one pixel.
const IMAGE = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='

/** Two calls of one function, with members that are not in alphabetical order. */
const CALLS = [
  { id: 'call_one', args: `{"id":${SMALL},"city":"Zürich"}` },
  { id: 'call_two', args: `{"city":"Aix","id":${SMALL}}` },
]
const callParts = CALLS.map((call) => ({ type: 'call' as const, ...call }))
const question = { user: 'Compare two places.' }

/** 64 bytes in the standard alphabet, with the characters that differ in base64url. */
const PROOF = Buffer.from(Array.from({ length: 64 }, (_, i) => (i * 61 + 251) % 256)).toString('base64')

const REASONING: Scenario = {
  name: 'reasoning',
  ask: { turns: [question], tools: true, reasons: true },
  reply: {
    parts: [{ type: 'reasoning', text: 'I should look both up.', signature: PROOF }, ...callParts],
    ending: 'tool-calls',
    usage: { ...COUNT, reasoning: 5 },
  },
  then: ({ again, ids }) => ({
    turns: [question, { again }, { results: ids.map((id, index) => ({ id, text: `result ${index}` })) }],
    tools: true,
    reasons: true,
  }),
  proofs: [PROOF],
}

export const SCENARIOS: Scenario[] = [
  {
    name: 'text',
    ask: { ...hello, system: 'Answer in German.', maxTokens: 500 },
    reply: said('In Frankreich. 🗼 "Seine"'),
  },
  {
    name: 'several turns',
    ask: { turns: [{ user: 'Hi' }, { assistant: 'Hello!' }, { user: 'Where is Paris?' }] },
    reply: said('In France.'),
  },
  {
    name: 'parallel tools',
    ask: { turns: [question], tools: true },
    reply: { parts: [{ type: 'text', text: 'Both.' }, ...callParts], ending: 'tool-calls', usage: COUNT },
    then: ({ again, ids }) => ({
      turns: [question, { again }, { results: ids.map((id, index) => ({ id, text: `result ${index}` })) }],
      tools: true,
    }),
  },
  {
    name: 'long tool name',
    tool: 'find.place.'.repeat(9),
    ask: { turns: [question], tools: true },
    reply: { parts: [callParts[0]!], ending: 'tool-calls', usage: COUNT },
    then: ({ again, ids }) => ({
      turns: [question, { again }, { results: ids.map((id) => ({ id, text: 'found' })) }],
      tools: true,
    }),
  },
  {
    name: 'no arguments',
    ask: { turns: [question], tools: true },
    reply: { parts: [{ type: 'call', id: 'call_none', args: '' }], ending: 'tool-calls', usage: COUNT },
    then: ({ again, ids }) => ({
      turns: [question, { again }, { results: ids.map((id) => ({ id, text: 'found' })) }],
      tools: true,
    }),
  },
  {
    name: 'failed tool',
    ask: {
      turns: [
        question,
        { calls: [CALLS[0]!] },
        { results: [{ id: 'call_one', text: 'No such place.', isError: true }] },
      ],
      tools: true,
    },
    reply: said('A pity.'),
  },
  {
    name: 'instruction midway',
    ask: {
      turns: [{ user: 'Hi' }, { assistant: 'Hello!' }, { system: 'From now on, German.' }, { user: 'Where is Paris?' }],
    },
    reply: said('In Frankreich.'),
  },
  {
    name: 'image in a tool result',
    ask: {
      turns: [question, { calls: [CALLS[0]!] }, { results: [{ id: 'call_one', text: 'A map.', image: IMAGE }] }],
      tools: true,
    },
    reply: said('I see it.'),
  },
  REASONING,
  { ...REASONING, name: 'reasoning of another model', another: true },
  { name: 'structured output', ask: { ...hello, schema: SCHEMA }, reply: said(`{"city":"Paris","id":${SMALL}}`) },
  {
    name: 'refusal',
    ask: hello,
    reply: { parts: [{ type: 'refusal', text: 'I will not say.' }], ending: 'refusal', usage: COUNT },
  },
  {
    name: 'citations',
    ask: hello,
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
      ending: 'stop',
      usage: COUNT,
    },
  },
  {
    name: 'cache usage',
    ask: hello,
    reply: said('Cached.', { usage: { prompt: 5000, cached: 3000, written: 1500, completion: 12, reasoning: 0 } }),
  },
  { name: 'cut by length', ask: { ...hello, maxTokens: 100 }, reply: said('In Fr', { ending: 'length' }) },
  {
    name: 'cut arguments',
    ask: { turns: [question], tools: true, maxTokens: 100 },
    reply: {
      parts: [
        { type: 'text', text: 'Wait.' },
        { type: 'call', id: 'call_cut', args: '{"city":"Par' },
      ],
      ending: 'length',
      usage: COUNT,
    },
  },
  {
    name: 'stop sequence',
    ask: { ...hello, stop: ['END'] },
    beyond: 'END, and more',
    reply: said('In France. ', { ending: 'stop-sequence', stopSequence: 'END' }),
  },
  { name: 'refused request', ask: hello },
  { name: 'error in mid-answer', ask: hello, reply: said('In Fra'), breaks: true },
  { name: 'empty answer', ask: hello, reply: { parts: [], ending: 'stop', usage: { ...COUNT, completion: 0 } } },
]
