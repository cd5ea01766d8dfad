import { afterEach, describe, expect, setDefaultTimeout, test } from 'bun:test'
import type { ConversationName } from '../../src/generation/request.ts'
import { conversationOf } from '../../src/pipeline/conversation-identity.ts'
import { protocols } from '../../src/protocols/index.ts'
import type { RequestContext } from '../../src/protocols/protocol.ts'
import { rawRequestOf, receivedBody } from '../../src/protocols/raw-request.ts'
import { leaveUnread } from '../../src/protocols/unread-request.ts'
import { scanBody } from '../../src/json/body-scan.ts'
import { PROTOCOLS } from '../gateway/asking.ts'
import { type Gateway, startGateway } from '../server.ts'
import { poolConfig, upstream, type Upstream } from './upstreams.ts'
import { storeOf } from '../stores.ts'

setDefaultTimeout(60_000)

const stops: (() => unknown)[] = []
afterEach(async () => {
  for (const stop of stops.splice(0).reverse()) await stop()
})

type Conversation = { system: string; turns: string[] }

/** A body with this conversation, whose turns alternate between user and assistant. */
function bodyOf(protocol: ConversationName, { system, turns }: Conversation): object {
  const role = (index: number): string => (index % 2 === 0 ? 'user' : 'assistant')
  const messages = turns.map((content, index) => ({ role: role(index), content }))
  switch (protocol) {
    case 'chat.completions':
      return { model: 'pool', messages: [{ role: 'system', content: system }, ...messages] }
    case 'responses':
      return { model: 'pool', instructions: system, input: messages }
    case 'messages':
      return { model: 'pool', system, messages, max_tokens: 50 }
    case 'generateContent':
      return {
        systemInstruction: { parts: [{ text: system }] },
        contents: turns.map((text, at) => ({ role: at % 2 === 0 ? 'user' : 'model', parts: [{ text }] })),
      }
  }
}

const LIMITS = { elements: 100_000, depth: 100, parts: 10_000, tools: 1_000 }

/** The identity of a request, read or left unread. */
async function identityOf(
  protocol: ConversationName,
  conversation: Conversation,
  isRead: boolean,
  account = 'one',
): Promise<string> {
  const bytes = Buffer.from(JSON.stringify(bodyOf(protocol, conversation)))
  const received = receivedBody(bytes, await scanBody(bytes, LIMITS), LIMITS)
  const fromPath = protocol === 'generateContent' ? { model: 'pool', stream: false } : undefined
  const rawRequest = rawRequestOf(received, new Headers(), fromPath)
  const { serve } = protocols[protocol]
  const unread = isRead ? undefined : leaveUnread(rawRequest, serve)
  expect(unread === undefined).toBe(isRead || serve.unread === undefined)
  const context =
    unread === undefined
      ? { rawRequest, request: serve.readRequest(rawRequest) }
      : { rawRequest, request: unread.request, settings: unread.settings }
  return conversationOf(account, context as unknown as RequestContext, undefined)!
}

const first: Conversation = { system: 'Be brief. \\ "quoted", [bracket', turns: ['Hello, {you}'] }
const later: Conversation = { ...first, turns: [...first.turns, 'Hi', 'How are you?'] }

describe('identity of a conversation', () => {
  for (const isRead of [true, false])
    test.each(PROTOCOLS)(
      `it stays the same while the conversation grows (${isRead ? 'read' : 'unread'}): %s`,
      async (protocol) => {
        const identity = await identityOf(protocol, first, isRead)
        expect(await identityOf(protocol, later, isRead)).toBe(identity)
        const others = [
          identityOf(protocol, { ...later, system: 'Be long.' }, isRead),
          identityOf(protocol, { ...later, turns: ['Bye', 'Hi', 'How are you?'] }, isRead),
          identityOf(protocol, first, isRead, 'two'),
        ]
        for (const other of await Promise.all(others)) expect(other).not.toBe(identity)
      },
    )
})

/** A prompt that is long enough for providers to cache it. */
const LONG = 'All work and no play makes Jack a dull boy. '.repeat(200)

async function pool(): Promise<{ gateway: Gateway; upstreams: Upstream[] }> {
  const upstreams = [upstream(), upstream(), upstream()]
  for (const one of upstreams) stops.push(() => one.stop())
  const config = poolConfig('chat.completions', upstreams, { routing: { strategy: 'weights' } })
  const gateway = await startGateway({ config })
  stops.push(() => gateway.stop())
  return { gateway, upstreams }
}

const providerOf = async (
  gateway: Gateway,
  conversation: Conversation,
  more: object = {},
  headers = {},
): Promise<string | null> => {
  const response = await fetch(`${gateway.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${gateway.key}`, ...headers },
    body: JSON.stringify({ ...bodyOf('chat.completions', conversation), max_tokens: 50, ...more }),
  })
  await response.text()
  return response.headers.get('x-sluice-provider')
}

describe('a conversation', () => {
  const grown = (turns: number): Conversation => ({
    system: LONG,
    turns: Array.from({ length: 2 * turns + 1 }, (_, index) => `turn ${index}`),
  })

  test('stays at the endpoint that has its prompt, while others are spread', async () => {
    const { gateway } = await pool()
    const one = await providerOf(gateway, grown(0))
    for (let turn = 1; turn < 12; turn++) expect(await providerOf(gateway, grown(turn))).toBe(one)
    const others = new Set<string | null>()
    for (let other = 0; other < 30; other++)
      others.add(await providerOf(gateway, { system: LONG, turns: [`other ${other}`] }))
    expect(others.size).toBe(3)
  })

  test.each([
    ['prompt_cache_key', { prompt_cache_key: 'conversation' }, {}],
    ['session_id', { session_id: 'conversation' }, {}],
    ['x-session-id', {}, { 'x-session-id': 'conversation' }],
  ])('has the name that its client gives it: %s', async (_, more, headers) => {
    const { gateway } = await pool()
    const send = (turn: number) => providerOf(gateway, { system: `${turn} ${LONG}`, turns: ['x'] }, more, headers)
    const one = await send(0)
    for (let turn = 1; turn < 12; turn++) expect(await send(turn)).toBe(one)
  })

  test('moves where its endpoint fails, and the record has the tokens that it missed', async () => {
    const { gateway, upstreams } = await pool()
    const one = await providerOf(gateway, grown(0))
    const left = upstreams[Number(one!.slice(-1))]!
    left.behaviour = 'limited'
    left.retryAfter = '600'
    const other = await providerOf(gateway, grown(1))
    expect(other).not.toBe(one)
    const store = await storeOf(gateway)
    const last = (await store.ledger.generations(undefined, 10)).at(-1)!
    await store.close()
    expect(JSON.parse(last.attempts!)).toMatchObject([
      { provider: one, error: 'upstream_rate_limited', status: 429 },
      { provider: other, missedCacheTokens: expect.any(Number) },
    ])
    left.behaviour = 'well'
    for (let turn = 2; turn < 8; turn++) expect(await providerOf(gateway, grown(turn))).toBe(other)
  })
})
