import { describe, expect, test } from 'bun:test'
import { fold, type GenerationEvent, unfold } from '../../src/generation/event.ts'
import type { ConversationName } from '../../src/generation/request.ts'
import { protocols } from '../../src/protocols/index.ts'
import { eventsFor } from '../translating.ts'
import { codesAndPaths, contextOf, HELLO, type Json, others, sendTo } from './routes.ts'

/** Log probabilities, which messages does not have: requests for them, the tokens of responses, and their losses. */

type Scored = { token: string; logprob: number; bytes: number[] | null; top: { token: string; logprob: number }[] }

/** Two tokens, the second of which is a part of a character. */
const TOKENS: Scored[] = [
  {
    token: 'Hi',
    logprob: -0.25,
    bytes: [72, 105],
    top: [
      { token: 'Hi', logprob: -0.25 },
      { token: 'Oh', logprob: -1.5 },
    ],
  },
  {
    token: '\\xf0',
    logprob: -2,
    bytes: [240],
    top: [
      { token: '\\xf0', logprob: -2 },
      { token: '!', logprob: -3 },
    ],
  },
]
const TEXT = 'Hi🗼'

const openai = TOKENS.map(({ top, ...one }) => ({
  ...one,
  top_logprobs: top.map((other) => ({ ...other, bytes: null })),
}))
const google = {
  chosenCandidates: TOKENS.map(({ token, logprob }) => ({ token, logProbability: logprob })),
  topCandidates: TOKENS.map(({ top }) => ({
    candidates: top.map(({ token, logprob }) => ({ token, logProbability: logprob })),
  })),
}

const RESPONSES: Partial<Record<ConversationName, object>> = {
  'chat.completions': {
    id: 'c',
    choices: [
      {
        index: 0,
        message: { role: 'assistant', content: TEXT },
        logprobs: { content: openai, refusal: null },
        finish_reason: 'stop',
      },
    ],
  },
  responses: {
    id: 'r',
    status: 'completed',
    output: [
      { type: 'message', id: 'm', content: [{ type: 'output_text', text: TEXT, annotations: [], logprobs: openai }] },
    ],
  },
  generateContent: {
    candidates: [{ content: { parts: [{ text: TEXT }] }, finishReason: 'STOP', logprobsResult: google }],
  },
}

/** The tokens of a response or of a chunk of each protocol, in OpenAI's form. */
const tokensIn: Record<ConversationName, (data: Json) => Json[] | undefined> = {
  'chat.completions': (data) => data.choices?.[0]?.logprobs?.content,
  responses: (data) => data.output?.[0].content[0].logprobs,
  messages: () => undefined,
  generateContent: ({ candidates }) => {
    const { chosenCandidates, topCandidates } = candidates?.[0]?.logprobsResult ?? {}
    const tokenOf = (one: Json): Json => ({ token: one.token, logprob: one.logProbability, bytes: null })
    return chosenCandidates?.map((one: Json, index: number) => ({
      ...tokenOf(one),
      top_logprobs: topCandidates[index].candidates.map(tokenOf),
    }))
  },
}

const scoredIn = (client: ConversationName, data: Json[]): Scored[] =>
  data
    .flatMap((one) => tokensIn[client](one) ?? [])
    .map(({ token, logprob, bytes, top_logprobs }) => ({
      token,
      logprob,
      bytes: bytes ?? null,
      top: top_logprobs.map((other: Json) => ({ token: other.token, logprob: other.logprob })),
    }))

/** Each token in an event of its own, as in streams. */
const inPieces = (events: GenerationEvent[]): GenerationEvent[] =>
  events.flatMap((event) =>
    event.type === 'part-delta' && event.logprobs !== undefined
      ? event.logprobs.map((one, index) => ({ ...event, text: index === 0 ? event.text : '', logprobs: [one] }))
      : [event],
  )

/** The tokens that the client receives, and the losses. */
function received(
  client: ConversationName,
  events: GenerationEvent[],
  stream: boolean,
): { scored: Scored[]; losses: string[] } {
  const context = contextOf(client)
  const { serve } = protocols[client]
  let data: Json[]
  if (stream) {
    const writer = serve.writer(context)
    data = inPieces(events)
      .flatMap((event) => writer.write(event))
      .map((frame) => (frame.data === '[DONE]' ? {} : JSON.parse(frame.data)) as Json)
  } else data = [JSON.parse(JSON.stringify(serve.writeResponse(fold(events), context))) as Json]
  if (stream && client === 'responses') data = [data.at(-1)!.response]
  return { scored: scoredIn(client, data), losses: codesAndPaths(context.losses.losses) }
}

/** Google has no bytes of tokens; responses requires them, so they are those of the text. */
const bytesFor =
  (provider: ConversationName, client: ConversationName) =>
  ({ token, bytes }: Scored): number[] | null =>
    client === 'generateContent'
      ? null
      : provider !== 'generateContent'
        ? bytes
        : client === 'responses'
          ? [...Buffer.from(token)]
          : null

describe.each(Object.entries(RESPONSES) as [ConversationName, object][])(
  'log probabilities of %s',
  (provider, body) => {
    const read = (client: ConversationName): GenerationEvent[] =>
      eventsFor(provider, body, {}, contextOf(client).request)

    for (const client of others(provider))
      for (const stream of [false, true]) {
        const inStream = stream ? ' in a stream' : ''
        if (client === 'messages')
          test(`are reported as dropped for messages${inStream}`, () => {
            expect(received(client, read(client), stream)).toEqual({
              scored: [],
              losses: ['response_field_dropped response.logprobs'],
            })
          })
        else
          test(`are received by clients of ${client}${inStream}`, () => {
            const { scored, losses } = received(client, read(client), stream)
            expect(scored).toEqual(TOKENS.map((token) => ({ ...token, bytes: bytesFor(provider, client)(token) })))
            expect(losses).toEqual(client === 'generateContent' ? ['response_field_adjusted response.logprobs'] : [])
          })
      }

    test('stay the same when the response is folded and unfolded', () => {
      const events = read('messages')
      expect(fold(unfold(fold(events)))).toEqual(fold(events))
    })
  },
)

/** The request for two alternatives of each token; messages has none. */
const OPTIONS: Record<Exclude<ConversationName, 'messages'>, Json> = {
  'chat.completions': { logprobs: true, top_logprobs: 2 },
  responses: { include: ['message.output_text.logprobs'], top_logprobs: 2 },
  generateContent: { generationConfig: { responseLogprobs: true, logprobs: 2 } },
}

describe.each([
  ['chat.completions', 'logprobs'],
  ['responses', 'include'],
  ['generateContent', 'generationConfig.responseLogprobs'],
] as [keyof typeof OPTIONS, string][])('a request of %s for log probabilities', (client, path) => {
  const send = (provider: ConversationName) =>
    sendTo(provider, contextOf(client, { ...HELLO[client], ...OPTIONS[client] }), { maxOutputTokens: 9 })

  test('is reported as dropped for messages', () => {
    expect(codesAndPaths(send('messages').losses)).toEqual([`unsupported_field ${path}`])
  })

  for (const provider of others(client))
    if (provider !== 'messages')
      test(`is sent to ${provider}`, () => {
        const { body, losses } = send(provider)
        if (provider === 'responses') expect(body.include).toContain('message.output_text.logprobs')
        expect(body).toMatchObject(provider === 'responses' ? { top_logprobs: 2 } : OPTIONS[provider])
        expect(losses).toEqual([])
      })
})
