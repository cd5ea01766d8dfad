import { afterAll, beforeAll, expect, test } from 'bun:test'
import { startGateway, type Gateway } from '../server.ts'
import { IS_LONG } from '../runs.ts'
import type { ConversationName } from '../../src/generation/request.ts'
import { ask, PROTOCOLS } from './asking.ts'
import { gatedConfig } from './gated.ts'
import { bodyOf, REQUESTS } from './many.ts'
import { ANSWERS, answerOf } from './many-answers.ts'

/**
 * Bodies and responses with a million elements of one kind: more than a function call can have arguments.
 */

const SANDBOX: Record<ConversationName, string> = {
  'chat.completions': 'sandbox/chat',
  responses: 'sandbox/responses',
  messages: 'sandbox/messages',
  generateContent: 'sandbox/gemini',
}
const PATHS: Record<ConversationName, (model: string) => string> = {
  'chat.completions': () => '/v1/chat/completions',
  responses: () => '/v1/responses',
  messages: () => '/v1/messages',
  generateContent: (model) => `/v1beta/models/${model}:generateContent`,
}

type Case = [protocol: ConversationName, kind: string, other: ConversationName]
const everywhere = (kinds: Record<ConversationName, object>): Case[] =>
  PROTOCOLS.flatMap((protocol) =>
    Object.keys(kinds[protocol]).flatMap((kind) => PROTOCOLS.map((other): Case => [protocol, kind, other])),
  )

/** Requests that failed once, each with the cheapest model. */
const FAILED: Case[] = [
  ['chat.completions', 'parts of instructions', 'messages'],
  ['responses', 'parts of instructions', 'chat.completions'],
  ['messages', 'instructions among messages', 'chat.completions'],
  ['generateContent', 'turns in one content', 'messages'],
]
type AnswerCase = [...Case, bytes?: number]
/** Responses that failed once, each with its client. 640,000 elements are more than a function call can have. */
const ANSWERS_FAILED: AnswerCase[] = [
  ['chat.completions', 'annotations', 'messages', 12_000_000],
  ['chat.completions', 'logprobs', 'responses'],
]

let gateway: Gateway
let provider: Bun.Server<undefined>
let answer: string
beforeAll(async () => {
  provider = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    fetch: () => new Response(answer, { headers: { 'content-type': 'application/json' } }),
  })
  gateway = await startGateway({ config: gatedConfig({ up: { url: `http://127.0.0.1:${provider.port}/v1` } }) })
})
afterAll(async () => {
  await gateway?.stop()
  await provider?.stop(true)
})

test.each(IS_LONG ? everywhere(REQUESTS) : FAILED)(
  'a body of %s with a great many %s, for %s, is answered or refused',
  async (protocol, kind, other) => {
    const model = SANDBOX[other]
    const response = await fetch(gateway.url + PATHS[protocol](model), {
      method: 'POST',
      headers: { authorization: `Bearer ${gateway.key}` },
      body: bodyOf(
        protocol,
        kind,
        IS_LONG ? 30_000_000 : protocol === 'generateContent' ? 16_000_000 : 24_000_000,
        model,
      ),
    })
    const text = await response.text()
    expect([response.status >= 200 && response.status < 500, response.ok ? '' : text]).toEqual([
      true,
      response.ok ? '' : expect.stringMatching(/param|: must|: is |:/),
    ])
  },
  120_000,
)

test.each<AnswerCase>(IS_LONG ? everywhere(ANSWERS) : ANSWERS_FAILED)(
  'a response of %s with a great many %s reaches a client of %s',
  async (protocol, kind, client, bytes = 20_000_000) => {
    answer = answerOf(protocol, kind, bytes)
    const response = await ask({
      url: gateway.url,
      key: gateway.key,
      protocol: client,
      model: `up/${protocol}`,
      stream: false,
      limit: 100,
    })
    const text = await response.text()
    expect([response.status === 200 || response.status === 502, text.includes('Internal error')]).toEqual([true, false])
  },
  120_000,
)
