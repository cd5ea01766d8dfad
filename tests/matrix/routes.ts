import { GatewayError } from '../../src/error.ts'
import type { ConversationName } from '../../src/generation/request.ts'
import { protocols } from '../../src/protocols/index.ts'
import type { Capabilities, TranslationContext } from '../../src/protocols/protocol.ts'
import { type Loss, LossReport } from '../../src/protocols/translation.ts'
import type { Endpoint } from '../../src/providers/catalogue.ts'
import { prepared } from '../translating.ts'

/** Requests of clients of one protocol, as providers of another receive them, without a gateway. */

// Bodies are read as whatever they are: a test that reads one wrongly fails.
export type Json = Record<string, any>

export const NAMES: ConversationName[] = ['chat.completions', 'responses', 'messages', 'generateContent']

export const others = (name: ConversationName): ConversationName[] => NAMES.filter((other) => other !== name)

/** Client and provider of different protocols. */
export const ROUTES = NAMES.flatMap((client) =>
  others(client).map((provider): [ConversationName, ConversationName] => [client, provider]),
)

/** A request of one short message. */
export const HELLO: Record<ConversationName, Json> = {
  'chat.completions': { model: 'a/b', messages: [{ role: 'user', content: 'hi' }] },
  responses: { model: 'a/b', input: 'hi' },
  messages: { model: 'a/b', max_tokens: 100, messages: [{ role: 'user', content: 'hi' }] },
  generateContent: { contents: [{ role: 'user', parts: [{ text: 'hi' }] }] },
}

/** The context of a request. `body`: an object, or the text of one whose spelling matters. */
export function contextOf(
  client: ConversationName,
  body: object | string = HELLO[client],
  stream = false,
): TranslationContext & { losses: LossReport } {
  const text = typeof body === 'string' ? body : JSON.stringify(body)
  const rawRequest = { body: JSON.parse(text) as Json, text, model: 'a/b', stream, headers: new Headers() }
  return {
    rawRequest,
    request: protocols[client].serve.readRequest(rawRequest),
    responseIdentity: { id: 'ours', model: 'a/b', createdAt: 1_700_000_000, issuer: { provider: 'p', model: 'm' } },
    losses: new LossReport(),
  }
}

/** `text`: the body as it is spelled. */
export type Sent = { text: string; body: Json; losses: readonly Loss[] }

/** The request that a provider is sent. */
export function sendTo(provider: ConversationName, context: TranslationContext, capabilities: Capabilities = {}): Sent {
  const endpoint = {
    protocol: provider,
    baseUrl: '',
    target: { provider: 'p', model: 'm', quirks: {}, capabilities },
  } as unknown as Endpoint
  const { body: text, losses } = prepared(endpoint, context)
  return { text, body: JSON.parse(text) as Json, losses }
}

export const send = (client: ConversationName, provider: ConversationName, body: object | string): Sent =>
  sendTo(provider, contextOf(client, body))

/** The request to the provider, or the error of a request that is refused. */
export function sendOrRefuse(
  client: ConversationName,
  provider: ConversationName,
  body: object | string,
): Sent | GatewayError {
  try {
    return send(client, provider, body)
  } catch (error) {
    if (error instanceof GatewayError) return error
    throw error
  }
}

/** Losses in short: `code path`. */
export const codesAndPaths = (losses: readonly Loss[]): string[] => losses.map(({ code, path }) => `${code} ${path}`)
