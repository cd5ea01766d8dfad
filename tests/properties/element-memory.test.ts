import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { GatewayError } from '../../src/error.ts'
import type { ConversationName } from '../../src/generation/request.ts'
import { isRemembered, remember } from '../../src/protocols/element-memory.ts'
import { protocols } from '../../src/protocols/index.ts'
import type { Target } from '../../src/protocols/protocol.ts'
import { SchemaCache } from '../../src/protocols/schema/cache.ts'
import { Translation } from '../../src/protocols/translation.ts'
import { stringifyBody } from '../../src/json/stringify-body.ts'
import { assertProperty, assertSame, TIMEOUT_MS } from './assertions.ts'
import { IDENTITY, NAMES } from './protocol-pairs.ts'
import { writtenWithLosses } from './request-losses.ts'
import { requests, scopeOf, TARGETS } from './requests.ts'

/**
 * Elements of a conversation that come again as the same objects are not read and written again: the results must be
 * those of a conversation of new objects.
 */

type Json = Record<string, unknown>

/** The member with the turns of a conversation. */
const TURNS: Record<ConversationName, string> = {
  'chat.completions': 'messages',
  responses: 'input',
  messages: 'messages',
  generateContent: 'contents',
}

/** The body for the provider and all that comes with it, or the refusal. */
function translated(client: ConversationName, provider: ConversationName, body: Json, target: Target): unknown {
  const { serve } = protocols[client]
  const text = JSON.stringify(body)
  const rawRequest = { body, text, headers: new Headers(), model: IDENTITY.model, stream: true }
  try {
    const references = serve.references!(body).map(({ param }) => param)
    const request = serve.readRequest(rawRequest)
    const translation = new Translation(request, target, rawRequest, serve.paths, new SchemaCache())
    const written = stringifyBody(protocols[provider].call.writeRequest(translation), isRemembered)
    return {
      written,
      references,
      losses: translation.report.losses,
      transforms: translation.transforms.length,
      request,
    }
  } catch (error) {
    if (error instanceof GatewayError) return { refused: error.message, param: error.param }
    throw error
  }
}

const bodyOf = (client: ConversationName) =>
  requests(scopeOf(client)).map((request): Json => {
    const { body } = writtenWithLosses(client, request, TARGETS[client])
    return { ...(JSON.parse(JSON.stringify(body)) as Json), model: IDENTITY.model }
  })

/** Changes of the second request, whose other elements come again. */
const change = fc.record({
  /** Turns of the first request that are kept before its own. */
  keep: fc.nat(8),
  /** Calls have other names, in new objects, while their results come again. */
  renamed: fc.boolean(),
  /** The turn that has a member of no protocol. */
  unknown: fc.nat(6),
  tools: fc.constantFrom('none', 'all', 'reversed'),
})

const withUnknown = (body: Json, turns: string, at: number): Json => ({
  ...body,
  [turns]: arrayOf(body, turns).map((turn, index) => (index === at ? { ...(turn as Json), x_unknown: 1 } : turn)),
})

/** The turns, of which those with calls are new objects with another name of the tool. */
const withRenamedCalls = (turns: unknown[]): unknown[] =>
  turns.map((turn) => {
    const text = JSON.stringify(turn)
    return /"(tool_use|tool_calls|function_call|functionCall)"/.test(text)
      ? (JSON.parse(text.replaceAll('"look_up"', '"say"')) as unknown)
      : turn
  })

const arrayOf = (body: Json, name: string): unknown[] => (Array.isArray(body[name]) ? body[name] : [])

describe.each(NAMES)('a conversation of %s', (client) => {
  test.each(NAMES.filter((provider) => provider !== client))(
    'is written for %s as if it were new',
    (provider) => {
      // One object each, as the catalogue has one for each endpoint.
      const targets: Target[] = [
        { ...TARGETS[provider] },
        { ...TARGETS[provider], quirks: { requiresReasoning: true } },
      ]
      const turns = TURNS[client]
      let reused = 0
      assertProperty(
        fc.property(bodyOf(client), bodyOf(client), change, fc.nat(1), (first, other, changes, which) => {
          const target = targets[which]!
          const { keep, renamed, unknown, tools: used } = changes
          const again = (body: Json): unknown => {
            remember(arrayOf(body, turns))
            remember(arrayOf(body, 'tools'))
            return translated(client, provider, body, target)
          }
          const second = withUnknown(other, turns, unknown)
          again(first)
          again(second)
          const { tools: _, ...next }: Json = {
            ...first,
            [turns]: [
              ...arrayOf(first, turns).slice(0, keep),
              ...(renamed ? withRenamedCalls(arrayOf(second, turns)) : arrayOf(second, turns)),
            ],
          }
          const tools = [...arrayOf(first, 'tools'), ...arrayOf(second, 'tools')]
          if (tools.length > 0 && used !== 'none') next.tools = used === 'all' ? tools : tools.toReversed()
          const actual = again(next)
          assertSame(actual, translated(client, provider, structuredClone(next), target))
          // A second time, since what was read once is remembered then.
          assertSame(again(next), actual)
          if ('written' in (actual as object)) reused++
        }),
      )
      expect(reused).toBeGreaterThan(0)
    },
    TIMEOUT_MS,
  )
})
