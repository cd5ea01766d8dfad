import { describe, expect, test } from 'bun:test'
import { fold, type GenerationEvent } from '../../src/generation/event.ts'
import type { ConversationName } from '../../src/generation/request.ts'
import { protocols } from '../../src/protocols/index.ts'
import type { Any } from '../recorded/response-content.ts'
import { contextOf, NAMES } from './routes.ts'

/** The service tier that a provider reports, as a client of each protocol gets it. */

const eventsWith = (tier: string): GenerationEvent[] => [
  { type: 'start', id: '1', model: 'm' },
  { type: 'part-start', part: 0, head: { type: 'text' } },
  { type: 'part-delta', part: 0, text: 'x' },
  { type: 'part-end', part: 0 },
  { type: 'usage', usage: { inputTokens: 1, outputTokens: 1 }, service: { service_tier: tier } },
  { type: 'usage', usage: { outputTokens: 2 } },
  { type: 'finish', reason: 'stop', raw: 'stop' },
]

const TIER: Record<ConversationName, (body: Any) => unknown> = {
  'chat.completions': (body) => body.service_tier,
  responses: (body) => (body.response ?? body).service_tier,
  messages: (body) => body.usage?.service_tier,
  generateContent: (body) => body.usageMetadata?.serviceTier,
}

/** The tier in a whole response and in a stream, and the losses of both. */
function received(client: ConversationName, tier: string): unknown[] {
  const context = contextOf(client)
  const whole = TIER[client](protocols[client].serve.writeResponse(fold(eventsWith(tier)), context))
  const streamContext = contextOf(client, undefined, true)
  const writer = protocols[client].serve.writer(streamContext)
  const streamed = eventsWith(tier)
    .flatMap((event) => writer.write(event))
    .filter(({ data }) => data.startsWith('{'))
    .map(({ data }) => TIER[client](JSON.parse(data) as Any))
    .findLast((found) => found !== undefined)
  const losses = [context, streamContext].map(({ losses }) => losses.losses.map(({ code, path }) => `${code} ${path}`))
  return [whole, streamed, ...losses]
}

const LOST = ['response_field_dropped response.service_tier']

describe('a service tier', () => {
  test.each<[string, Partial<Record<ConversationName, string>>]>([
    ['priority', Object.fromEntries(NAMES.map((name) => [name, 'priority']))],
    [
      'default',
      { 'chat.completions': 'default', responses: 'default', messages: 'standard', generateContent: 'standard' },
    ],
    [
      'standard',
      { 'chat.completions': 'default', responses: 'default', messages: 'standard', generateContent: 'standard' },
    ],
    ['flex', { 'chat.completions': 'flex', responses: 'flex', generateContent: 'flex' }],
    ['batch', { messages: 'batch' }],
  ])("'%s' has the name of the client's protocol, or is reported as lost", (tier, expected) => {
    for (const client of NAMES) {
      const losses = expected[client] === undefined ? LOST : []
      // Clients of responses require a tier.
      const name = expected[client] ?? (client === 'responses' ? 'default' : undefined)
      expect([client, ...received(client, tier)]).toEqual([client, name, name, losses, losses])
    }
  })
})
