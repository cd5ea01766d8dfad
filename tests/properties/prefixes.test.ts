import { written } from '../translating.ts'
import { describe, test } from 'bun:test'
import fc from 'fast-check'
import type { ConversationName, GenerationRequest, Part, Turn } from '../../src/generation/request.ts'
import { protocols } from '../../src/protocols/index.ts'
import type { Capabilities, Target } from '../../src/protocols/protocol.ts'
import { breakOf, piecesOf } from './prefixes.ts'
import { PAIRS, requests, scopeOf, TARGETS } from './requests.ts'
import { holds, PATIENCE } from './runs.ts'
import { NAMES, wireOf } from './wires.ts'

/** The body for a growing conversation begins with the earlier body, since providers cache prefixes. */

/** The conversation at each of its requests. */
const moments = (request: GenerationRequest): GenerationRequest[] =>
  request.turns.flatMap((turn, index) =>
    turn.role === 'assistant' || (request.turns[index + 1]?.role !== 'assistant' && index < request.turns.length - 1)
      ? []
      : [{ ...request, turns: request.turns.slice(0, index + 1) }],
  )

/** Agents move their cache breakpoint to the end of the conversation in each request. */
function marked(request: GenerationRequest): GenerationRequest {
  const bare = <T extends Part>({ ...part }: T): T => {
    if ('cache' in part) delete part.cache
    return part.type === 'tool-result' ? { ...part, content: part.content.map(bare) } : part
  }
  const turns = request.turns.map((turn) => ({ ...turn, parts: turn.parts.map(bare) }))
  const last = turns.at(-1)!.parts.at(-1)!
  if (last.type === 'text' || last.type === 'tool-result') last.cache = { ttl: '1h' }
  return { ...request, turns }
}

function grows(protocol: ConversationName, target: Target, bodies: Record<string, unknown>[]): void {
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
const ABILITIES: Record<ConversationName, Capabilities[]> = {
  'chat.completions': [{}, { cacheBreakpoints: 'cache_control' }, { system: false }],
  responses: [{}, { cacheBreakpoints: 'prompt_cache_breakpoint' }, { system: false }],
  messages: [{}, { systemTurns: true }, { prefill: false, reasoning: 'adaptive' }],
  generateContent: [{}, { reasoning: 'level' }, { system: false }],
}

/** Results in another order than their calls, and names and ids that no provider accepts. */
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

describe.each(NAMES)('the body for %s', (protocol) => {
  test.each(ABILITIES[protocol].map((capabilities) => [JSON.stringify(capabilities), capabilities] as const))(
    'begins with the earlier body, with the capabilities %s',
    (_, capabilities) => {
      const target = { ...TARGETS[protocol], capabilities }
      holds(
        fc.property(requests(scopeOf(protocol)), fc.boolean(), (request, odd) =>
          grows(
            protocol,
            target,
            moments(odd ? unusual(request) : request).map((one) => bodyFor(protocol, marked(one), target)),
          ),
        ),
      )
    },
    PATIENCE,
  )
})

/** A client sends the whole conversation of its own protocol again. */
test.each(PAIRS)(
  'the body from a client of %s for a provider of %s begins with the earlier body',
  (client, provider) => {
    holds(
      fc.property(requests(scopeOf(client, provider)), (request) => {
        const wires = moments(request).map((one) => wireOf(bodyFor(client, marked(one), TARGETS[client]), false))
        grows(
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
  PATIENCE,
)
