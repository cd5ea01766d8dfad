import { written } from '../translating.ts'
import { describe, test } from 'bun:test'
import fc from 'fast-check'
import type { ConversationName, GenerationRequest, Part, Turn } from '../../src/generation/request.ts'
import { protocols } from '../../src/protocols/index.ts'
import type { Capabilities, Target } from '../../src/protocols/protocol.ts'
import { breakOf, piecesOf } from './prefixes.ts'
import { PAIRS, requests, scopeOf, TARGETS } from './requests.ts'
import { assertProperty, TIMEOUT_MS } from './assertions.ts'
import { NAMES, rawRequestOf } from './protocol-pairs.ts'

/** Each request of a growing conversation begins with the one before it, so that providers can cache the prefix. */

/** The requests of a conversation: one for each turn of the model. */
const requestsOf = (request: GenerationRequest): GenerationRequest[] =>
  request.turns.flatMap((turn, index) =>
    turn.role === 'assistant' || (request.turns[index + 1]?.role !== 'assistant' && index < request.turns.length - 1)
      ? []
      : [{ ...request, turns: request.turns.slice(0, index + 1) }],
  )

/** Agents set a cache breakpoint at the end of the conversation and remove it in the next request. */
function withLastPartMarked(request: GenerationRequest): GenerationRequest {
  const unmarked = <T extends Part>({ ...part }: T): T => {
    if ('cache' in part) delete part.cache
    return part.type === 'tool-result' ? { ...part, content: part.content.map(unmarked) } : part
  }
  const turns = request.turns.map((turn) => ({ ...turn, parts: turn.parts.map(unmarked) }))
  const last = turns.at(-1)!.parts.at(-1)!
  if (last.type === 'text' || last.type === 'tool-result') last.cache = { ttl: '1h' }
  return { ...request, turns }
}

function assertGrows(protocol: ConversationName, target: Target, bodies: Record<string, unknown>[]): void {
  const pieces = bodies.map((body) => piecesOf(protocol, JSON.parse(JSON.stringify(body)) as Record<string, unknown>))
  for (const [index, before] of pieces.slice(0, -1).entries()) {
    const broken = breakOf(before, pieces[index + 1]!)
    if (broken !== undefined)
      throw new Error(`${protocol}, request ${index + 1}, ${JSON.stringify(target.capabilities)}: ${broken}`)
  }
}

const bodyFor = (protocol: ConversationName, request: GenerationRequest, target: Target): Record<string, unknown> =>
  written(protocol, request, target).body

/** Capabilities that change how a request is written. */
const CAPABILITIES: Record<ConversationName, Capabilities[]> = {
  'chat.completions': [{}, { cacheBreakpoints: 'cache_control' }, { system: false }],
  responses: [{}, { cacheBreakpoints: 'prompt_cache_breakpoint' }, { system: false }],
  messages: [{}, { systemTurns: true }, { prefill: false, reasoning: 'adaptive' }],
  generateContent: [{}, { reasoning: 'level' }, { system: false }],
}

/** Results in another order than their calls, and names and ids that providers do not accept. */
const unusual = (request: GenerationRequest): GenerationRequest => {
  const id = (known: string): string => `${known}:${'x'.repeat(known.length % 2 === 0 ? 70 : 1)}`
  const name = (known: string): string => (known === 'say' ? `say.${'long_'.repeat(20)}` : known)
  const part = <T extends Part>(one: T): T =>
    one.type === 'tool-call'
      ? { ...one, id: id(one.id), name: name(one.name) }
      : one.type === 'tool-result'
        ? { ...one, callId: id(one.callId), ...(one.name === undefined ? {} : { name: name(one.name) }) }
        : one
  const turn = ({ parts, ...rest }: Turn): Turn => ({
    ...rest,
    parts: rest.role === 'tool' ? parts.map(part).reverse() : parts.map(part),
  })
  return {
    ...request,
    turns: request.turns.map(turn),
    tools: request.tools.map((tool) => (tool.type === 'native' ? tool : { ...tool, name: name(tool.name) })),
    toolChoice: undefined,
  } as GenerationRequest
}

describe.each(NAMES)('bodies for %s', (protocol) => {
  test.each(CAPABILITIES[protocol].map((capabilities) => [JSON.stringify(capabilities), capabilities] as const))(
    'each body of a conversation begins with the one before it for a model with %s',
    (_, capabilities) => {
      const target = { ...TARGETS[protocol], capabilities }
      assertProperty(
        fc.property(requests(scopeOf(protocol)), fc.boolean(), (request, odd) =>
          assertGrows(
            protocol,
            target,
            requestsOf(odd ? unusual(request) : request).map((one) =>
              bodyFor(protocol, withLastPartMarked(one), target),
            ),
          ),
        ),
      )
    },
    TIMEOUT_MS,
  )
})

/** A client keeps the conversation in its own protocol and sends all of it again. */
test.each(PAIRS)(
  'a conversation of a %s client keeps its prefix at a %s provider',
  (client, provider) => {
    assertProperty(
      fc.property(requests(scopeOf(client, provider)), (request) => {
        const wires = requestsOf(request).map((one) =>
          rawRequestOf(bodyFor(client, withLastPartMarked(one), TARGETS[client]), false),
        )
        assertGrows(
          provider,
          TARGETS[provider],
          wires.map((rawRequest) =>
            bodyFor(provider, protocols[client].serve.readRequest(rawRequest), TARGETS[provider]),
          ),
        )
      }),
      0.5,
    )
  },
  TIMEOUT_MS,
)
