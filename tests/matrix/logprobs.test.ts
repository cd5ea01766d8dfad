import { eventsFor, prepared } from '../translating.ts'
import { LossReport } from '../../src/protocols/translation.ts'
import { describe, expect, test } from 'bun:test'
import { fold, unfold, type GenerationEvent } from '../../src/generation/event.ts'
import type { ConversationName } from '../../src/generation/request.ts'
import { protocols } from '../../src/protocols/index.ts'
import type { TranslationContext } from '../../src/protocols/protocol.ts'
import type { Endpoint } from '../../src/providers/catalogue.ts'
import type { Any } from '../recorded/response-content.ts'
import { bodyOf } from './asking.ts'

/**
 * Log probabilities, which three of the four protocols know: asked for, told with each token, and named where they stay
 * behind.
 */

const NAMES: ConversationName[] = ['chat.completions', 'responses', 'messages', 'generateContent']

type Scored = { token: string; logprob: number; bytes: number[] | null; top: { token: string; logprob: number }[] }
/** Two tokens, of which the second is a piece of a letter. */
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

const ANSWERS: Partial<Record<ConversationName, object>> = {
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

/** Tokens as the client hears them. */
const scoredIn = (client: ConversationName, datas: Any[]): Scored[] => {
  const wires = datas.flatMap(
    (data): Any[] =>
      ({
        'chat.completions': data.choices?.[0]?.logprobs?.content,
        responses: data.output?.[0].content[0].logprobs,
        messages: undefined,
        generateContent: data.candidates?.[0]?.logprobsResult?.chosenCandidates.map((one: Any, index: number) => ({
          token: one.token,
          logprob: one.logProbability,
          bytes: null,
          top_logprobs: data.candidates[0].logprobsResult.topCandidates[index].candidates.map((other: Any) => ({
            token: other.token,
            logprob: other.logProbability,
          })),
        })),
      })[client] ?? [],
  )
  return wires.map(({ token, logprob, bytes, top_logprobs }) => ({
    token,
    logprob,
    bytes: bytes ?? null,
    top: top_logprobs.map((other: Any) => ({ token: other.token, logprob: other.logprob })),
  }))
}

function exchangeOf(client: ConversationName, more: object = {}): TranslationContext {
  const body: Any = {
    ...(client === 'generateContent' ? {} : { model: 'a/b' }),
    ...bodyOf(client, { turns: [{ user: 'hi' }] }, false),
    ...more,
  }
  const rawRequest = { body, text: JSON.stringify(body), model: 'a/b', stream: false, headers: new Headers() }
  return {
    rawRequest,
    request: protocols[client].serve.readRequest(rawRequest),
    responseIdentity: { id: 'ours', model: 'a/b', createdAt: 1_700_000_000, issuer: { provider: 'p', model: 'm' } },
    losses: new LossReport(),
  }
}

/** Each token in an event of its own, as streams tell them. */
const inPieces = (events: GenerationEvent[]): GenerationEvent[] =>
  events.flatMap((event) =>
    event.type === 'part-delta' && event.logprobs !== undefined
      ? event.logprobs.map((one, index) => ({ ...event, text: index === 0 ? event.text : '', logprobs: [one] }))
      : [event],
  )

function heardBy(
  client: ConversationName,
  events: GenerationEvent[],
  stream: boolean,
): { scored: Scored[]; told: string[] } {
  const context = exchangeOf(client)
  if (!stream)
    return {
      scored: scoredIn(client, [
        JSON.parse(JSON.stringify(protocols[client].serve.writeResponse(fold(events), context))) as Any,
      ]),
      told: context.losses!.losses.map(({ path, effect }) => `${path} ${effect}`),
    }
  const writer = protocols[client].serve.writer(context)
  const datas = inPieces(events)
    .flatMap((event) => writer.write(event))
    .map(({ data }) => (data === '[DONE]' ? {} : JSON.parse(data)) as Any)
  return {
    scored: scoredIn(client, client === 'responses' ? [datas.at(-1)!.response] : datas),
    told: context.losses!.losses.map(({ path, effect }) => `${path} ${effect}`),
  }
}

/** Google tells tokens by their text alone; a response has to have bytes, and gets those of the text. */
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

for (const [provider, body] of Object.entries(ANSWERS) as [ConversationName, object][])
  describe(`told by ${provider}`, () => {
    const read = (client: ConversationName): GenerationEvent[] =>
      eventsFor(provider, body, {}, exchangeOf(client).request)

    for (const client of NAMES)
      if (client !== provider)
        for (const stream of [false, true])
          test(`heard by ${client}${stream ? ', streamed' : ''}`, () => {
            const { scored, told } = heardBy(client, read(client), stream)
            if (client === 'messages') return expect([scored, told]).toEqual([[], ['response.logprobs dropped']])
            expect(scored.map(({ token, logprob, top }) => ({ token, logprob, top }))).toEqual(
              TOKENS.map(({ token, logprob, top }) => ({ token, logprob, top })),
            )
            expect(scored.map(({ bytes }) => bytes)).toEqual(TOKENS.map(bytesFor(provider, client)))
            expect(told).toEqual(client === 'generateContent' ? ['response.logprobs approximated'] : [])
          })

    test('stays what it is when it is folded and unfolded', () => {
      const events = read('messages')
      expect(fold(unfold(fold(events)))).toEqual(fold(events))
    })
  })

/** The wish with two alternatives in the words of each; messages has none. */
const WISHES: Record<ConversationName, object> = {
  'chat.completions': { logprobs: true, top_logprobs: 2 },
  responses: { include: ['message.output_text.logprobs'], top_logprobs: 2 },
  messages: {},
  generateContent: { generationConfig: { responseLogprobs: true, logprobs: 2 } },
}

describe('asked for', () => {
  for (const client of NAMES)
    for (const provider of NAMES)
      if (client !== provider && client !== 'messages')
        test(`by ${client} of ${provider}`, () => {
          const endpoint = {
            protocol: provider,
            baseUrl: '',
            target: { provider: 'p', model: 'm', quirks: {}, capabilities: { maxOutputTokens: 9 } },
            provider: {},
            credentials: {},
          } as unknown as Endpoint
          const { body, losses } = prepared(endpoint, exchangeOf(client, WISHES[client]))
          const sent = JSON.parse(body) as Any
          if (provider === 'messages')
            return expect(
              losses.filter(({ path }) => /logprobs|include/i.test(path)).map(({ effect }) => effect),
            ).toContain('dropped')
          if (provider === 'responses') expect(sent.include).toContain('message.output_text.logprobs')
          expect(sent).toMatchObject(provider === 'responses' ? { top_logprobs: 2 } : WISHES[provider])
          expect(losses).toEqual([])
        })
})
