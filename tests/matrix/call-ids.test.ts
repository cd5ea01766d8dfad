import { expect, test } from 'bun:test'
import type { ConversationName } from '../../src/generation/request.ts'
import type { Quirks } from '../../src/protocols/quirks.ts'
import { written } from '../translating.ts'
import { contextOf, HELLO, type Json, ROUTES } from './routes.ts'
import { callsAndResultsOf, spelled, toolsOf } from './tool-requests.ts'

/** Call ids that a provider does not accept. They only pair results with calls, so another id loses nothing. */

/** Two calls of one tool, so that only their ids tell which result is whose. */
const CALLS = [
  { name: 'f', args: '{"n":0}' },
  { name: 'f', args: '{"n":1}' },
]
const LONG = 'x/'.repeat(50)

/** The request of two calls and their results with ids that only Google accepts. `last`: the id of the second. */
const requestOf = (client: ConversationName, last = `${LONG}1`): Json =>
  JSON.parse(
    spelled({
      ...HELLO[client],
      ...toolsOf[client]([{ name: 'f' }]),
      ...callsAndResultsOf[client](CALLS),
    })
      .replaceAll('"call_0"', `"${LONG}0"`)
      .replaceAll('"call_1"', `"${last}"`),
  ) as Json

/** The ids of the calls and of the results that a provider receives. */
const idsIn: Record<ConversationName, (body: Json) => [calls: string[], results: string[]]> = {
  'chat.completions': ({ messages }) => [
    messages[1].tool_calls.map(({ id }: Json) => id),
    messages.slice(2).map(({ tool_call_id }: Json) => tool_call_id),
  ],
  responses: ({ input }) => [
    input.filter(({ type }: Json) => type === 'function_call').map(({ call_id }: Json) => call_id),
    input.filter(({ type }: Json) => type === 'function_call_output').map(({ call_id }: Json) => call_id),
  ],
  messages: ({ messages }) => [
    messages[1].content.map(({ id }: Json) => id),
    messages[2].content.map(({ tool_use_id }: Json) => tool_use_id),
  ],
  generateContent: ({ contents }) => [
    contents[1].parts.map(({ functionCall }: Json) => functionCall.id),
    contents[2].parts.map(({ functionResponse }: Json) => functionResponse.id),
  ],
}

const ACCEPTED: Record<ConversationName, RegExp> = {
  'chat.completions': /^.{1,64}$/,
  responses: /^.{1,64}$/,
  messages: /^[a-zA-Z0-9_-]+$/,
  generateContent: /^.+$/,
}

const CASES: [ConversationName, ConversationName, Quirks, RegExp][] = ROUTES.flatMap(([client, provider]) => {
  const usual: (typeof CASES)[number] = [client, provider, {}, ACCEPTED[provider]]
  return provider === 'chat.completions'
    ? [usual, [client, provider, { callIds: 'alphanumeric-9' }, /^[a-zA-Z0-9]{9}$/]]
    : [usual]
})

test.each(CASES)(
  'call ids of %s become ids that %s accepts (%j), which pair results with calls',
  (client, provider, quirks, accepted) => {
    const body = requestOf(client)
    const target = { provider: 'p', model: 'm', quirks, capabilities: { maxOutputTokens: 100 } }
    const { body: sent, losses } = written(provider, contextOf(client, body).request, target, body)
    const [calls, results] = idsIn[provider](sent)
    expect(new Set(calls).size).toBe(2)
    expect(results).toEqual(calls)
    for (const id of calls) expect(id).toMatch(accepted)
    expect(losses).toEqual([])
  },
)

test.each(CASES.filter(([, provider]) => provider !== 'generateContent'))(
  'an empty call id of %s becomes one that %s accepts (%j)',
  (client, provider, quirks, accepted) => {
    const body = requestOf(client, '')
    const target = { provider: 'p', model: 'm', quirks, capabilities: { maxOutputTokens: 100 } }
    const { body: sent } = written(provider, contextOf(client, body).request, target, body)
    const [calls, results] = idsIn[provider](sent)
    expect(results).toEqual(calls)
    for (const id of calls) expect(id).toMatch(accepted)
  },
)
