import { startGateway, type Gateway } from '../server.ts'
import type { Json } from './agents.ts'

/** Requests of the wire tests, in each protocol. */

export const MODELS = ['sandbox/chat', 'sandbox/responses', 'sandbox/messages', 'sandbox/gemini']
/** A key that may send one request a minute. */
export const LIMITED_KEY = 'sk-ai-v1-onlyonlyonlyonlyonly1'
export const SCHEMA = { type: 'object', properties: { at: { type: 'string' } } }

export const startWireGateway = (): Promise<Gateway> =>
  startGateway({
    config: `limits: { requestsPerMinute: 100000 }\nkeys: [{ key: "${LIMITED_KEY}", requestsPerMinute: 1 }]\n`,
  })

/** A function that posts bodies to the gateway of the moment. */
export const sendTo =
  (gateway: () => Gateway) =>
  (path: string, body: Json, headers: Record<string, string> = {}): Promise<Response> =>
    fetch(gateway().url + path, {
      method: 'POST',
      headers: { authorization: `Bearer ${gateway().key}`, 'content-type': 'application/json', ...headers },
      body: JSON.stringify(body),
    })
export const json = async (response: Response | Promise<Response>): Promise<Json> =>
  (await (await response).json()) as Json

export const chat = (model: string, prompt: string, rest: Json = {}): Json => ({
  model,
  messages: [{ role: 'user', content: prompt }],
  tools: [{ type: 'function', function: { name: 'look', parameters: SCHEMA } }],
  ...rest,
})
export const messages = (model: string, prompt: string, rest: Json = {}): Json => ({
  model,
  max_tokens: 2000,
  messages: [{ role: 'user', content: prompt }],
  tools: [{ name: 'look', input_schema: SCHEMA }],
  ...rest,
})
export const google = (prompt: string, rest: Json = {}): Json => ({
  contents: [{ role: 'user', parts: [{ text: prompt }] }],
  tools: [{ functionDeclarations: [{ name: 'look', parametersJsonSchema: SCHEMA }] }],
  ...rest,
})
export const googlePath = (model: string, method: string): string =>
  `/v1/publishers/${model.replace('/', '/models/')}:${method}`
