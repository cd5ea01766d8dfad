import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { GatewayError } from '../../src/error.ts'
import type { ConversationName, GenerationRequest } from '../../src/generation/request.ts'
import type { Usage } from '../../src/generation/usage.ts'
import { bodyText } from '../../src/http/encode-request.ts'
import { worstCase, worstTextCase } from '../../src/ledger/estimate.ts'
import { protocols } from '../../src/protocols/index.ts'
import { readRawRequest } from '../../src/protocols/raw-request.ts'
import { LossReport } from '../../src/protocols/translation.ts'
import { leaveUnread, referencesOf } from '../../src/protocols/unread-request.ts'
import { spliceBytes } from '../../src/json/splice-bytes.ts'
import { assertAsyncProperty, assertSame, casesOf, TIMEOUT_MS } from './assertions.ts'
import { change, mutated } from './mutations.ts'
import { READING, received } from '../json/limits.ts'
import { IDENTITY } from './protocol-pairs.ts'
import { writtenWithLosses } from './request-losses.ts'
import { requests, scopeOf, TARGETS } from './requests.ts'

/** A request that is passed on unread is passed on as if it had been read. */

/** This many times the usual number of cases: few requests stay unread in every protocol. */
const SHARE = 6
const CONVERSATION = ['system', 'turns', 'tools', 'extras']

/**
 * Reports whether the conversation stayed unread; throws where that makes a difference. `isValid`: the conversation is
 * as its protocol documents it; in any other, a member may look like a tool or a breakpoint without being one.
 */
async function checkUnread(protocol: ConversationName, text: string, isValid: boolean): Promise<boolean> {
  const { serve, call } = protocols[protocol]
  const fromPath = serve.modelInPath === true ? { model: IDENTITY.model, stream: true } : undefined
  const rawRequest = await readRawRequest(
    READING,
    received(new Request('http://host/', { method: 'POST', body: text })),
    fromPath,
  )
  if (rawRequest.scanned !== undefined)
    assertSame(
      outcomeOf(() => referencesOf(serve, rawRequest).map(({ param }) => param)),
      outcomeOf(() => serve.references!(rawRequest.body).map(({ param }) => param)),
      'references of any request',
    )
  const unread = leaveUnread(rawRequest, serve)
  if (unread === undefined) return false
  assertSame(serve.references!(rawRequest.body), [], 'references')
  const target = TARGETS[protocol]
  const { bytes, scan } = rawRequest.scanned!
  const sent = bodyText(spliceBytes(bytes, scan.members, call.memberChanges!(unread.settings, target)))
  let request: GenerationRequest
  try {
    request = serve.readRequest(rawRequest)
  } catch (error) {
    // The provider of the same protocol judges the conversation.
    if (error instanceof GatewayError) return true
    throw error
  }
  const losses = new LossReport()
  const context = { rawRequest, request, responseIdentity: IDENTITY }
  assertSame(JSON.parse(sent), JSON.parse(call.forward(context, target, losses)), 'the body')
  assertSame(losses.losses, [], 'losses')
  for (const name in request)
    if (!CONVERSATION.includes(name))
      assertSame(unread.request[name as keyof typeof unread.request], request[name as keyof GenerationRequest], name)
  const hasTools = request.tools.length > 0
  assertSame(isValid ? unread.hasTools : unread.hasTools || !hasTools, isValid ? hasTools : true, 'tools')
  for (const capabilities of [[], [{ output: ['image' as const] }]]) {
    const whole = worstCase(request, bytes.length, 1000, capabilities)
    const worst = worstTextCase(unread.request, unread.cacheLifetime, bytes.length, 1000, capabilities)
    // A breakpoint at the end of the whole request is held for, too.
    if (isValid && request.cache === undefined) assertSame(worst, whole, 'the hold')
    assertSame(inputOf(worst), inputOf(whole), 'held input')
    assertSame(worst.outputTokens, whole.outputTokens, 'held output')
  }
  return true
}

const outcomeOf = (get: () => unknown): unknown => {
  try {
    return get()
  } catch (error) {
    if (error instanceof GatewayError) return error.message
    throw error
  }
}

const inputOf = ({ inputTokens, cacheWrite5mTokens, cacheWrite1hTokens }: Usage): number =>
  inputTokens + cacheWrite5mTokens + cacheWrite1hTokens

test('requests of the same settings share what was read of them, and those of others do not', async () => {
  const read = async (protocol: ConversationName, body: object, fromPath?: { model: string; stream: boolean }) => {
    const request = new Request('http://host/', { method: 'POST', body: JSON.stringify(body) })
    return leaveUnread(await readRawRequest(READING, received(request), fromPath), protocols[protocol].serve)!
  }
  const chat = (content: string, more: object = {}) => ({ model: 'm', messages: [{ role: 'user', content }], ...more })
  const first = await read('chat.completions', chat('a'))
  expect((await read('chat.completions', chat('b'))).request).toBe(first.request)
  expect(Object.isFrozen(first.request.sampling)).toBe(true)
  expect((await read('chat.completions', chat('a', { n: 2 }))).request).toMatchObject({ candidates: 2 })
  expect((await read('messages', chat('a', { max_tokens: 5 }))).request).toMatchObject({ protocol: 'messages' })
  const contents = { contents: [{ role: 'user', parts: [{ text: 'a' }] }] }
  for (const fromPath of [
    { model: 'one', stream: true },
    { model: 'one', stream: false },
    { model: 'two', stream: true },
  ])
    expect((await read('generateContent', contents, fromPath)).request).toMatchObject(fromPath)
})

describe.each(['chat.completions', 'messages', 'generateContent'] as const)('requests of %s', (protocol) => {
  let unread = 0

  const bodies = requests(scopeOf(protocol)).map((request): object => ({
    ...writtenWithLosses(protocol, request, TARGETS[protocol]).body,
    ...(protocols[protocol].serve.modelInPath === true ? {} : { model: IDENTITY.model, stream: request.stream }),
  }))

  test(
    'a request that stays unread is sent, held for and recorded as one that was read',
    async () => {
      await assertAsyncProperty(
        fc.asyncProperty(bodies, async (body) => {
          const isUnread = await checkUnread(protocol, JSON.stringify(body), true)
          if (isUnread) unread++
          // Now its settings are known.
          assertSame(await checkUnread(protocol, JSON.stringify(body), true), isUnread, 'the same request again')
        }),
        SHARE,
      )
      expect(unread).toBeGreaterThan(casesOf(SHARE) / 60)
    },
    TIMEOUT_MS,
  )

  test(
    'no change of a body hides a medium, a file or a tool of the provider from it',
    async () => {
      await assertAsyncProperty(
        fc.asyncProperty(bodies, fc.array(change, { minLength: 1, maxLength: 3 }), async (body, changes) => {
          await checkUnread(protocol, JSON.stringify(mutated(JSON.parse(JSON.stringify(body)), changes)), false).catch(
            (error: unknown) => {
              if (!(error instanceof GatewayError)) throw error
            },
          )
        }),
        3,
      )
    },
    TIMEOUT_MS,
  )
})
