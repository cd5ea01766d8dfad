import { readFileSync } from 'node:fs'
import { GatewayError } from '../error.ts'
import { parseExact, splice } from '../json/text.ts'
import type { ProtocolName } from '../generation/request.ts'
import { protocols } from '../protocols/index.ts'
import type { RawRequest, TranslationContext } from '../protocols/protocol.ts'
import { SchemaCache } from '../protocols/schema/cache.ts'
import type { Loss } from '../protocols/translation.ts'
import { parseRawRequest } from '../protocols/raw-request.ts'
import { prepare } from '../providers/attempt.ts'
import type { Catalogue, Endpoint } from '../providers/catalogue.ts'
import { howToEnable } from '../providers/configured.ts'
import { columns, meant, UsageError, type Given } from './command.ts'
import { lookedAround } from './models.ts'
import { configOf } from './serve.ts'

const PROTOCOLS: Record<string, ProtocolName> = {
  chat: 'chat.completions',
  responses: 'responses',
  messages: 'messages',
  generateContent: 'generateContent',
  images: 'images',
}

/** What would be sent to one endpoint, or why nothing would. `body`: parsed, its numbers as they are spelled. */
type Explained = {
  provider: string
  protocol: ProtocolName
  url?: string
  headers?: Record<string, string>
  body?: unknown
  translation?: readonly Loss[]
  refused?: string
}

export async function explain(given: Given, file: string): Promise<void> {
  const { rawRequest, protocol, model } = readRequest(given, file)
  const config = configOf(given)
  const catalogue = await lookedAround(config)
  const request = protocols[protocol].serve.readRequest(rawRequest)
  const endpoints = catalogue.endpoints(model, protocol)
  const context: TranslationContext = { rawRequest, request, responseIdentity: { id: '', model, createdAt: 0 } }
  const explained = endpoints.map((endpoint) => explainOne(endpoint, context, config.strict))
  const off = switchedOff(catalogue, endpoints).map((provider) => ({
    provider,
    remedy: howToEnable(provider, config) ?? 'it is not known here',
  }))
  const asNamed = [
    ...(protocols[protocol].serve.references?.(rawRequest.body) ?? []).map(({ param }) => param),
    ...('previous_response_id' in rawRequest.body ? ['previous_response_id'] : []),
  ]
  // What a server puts in may be all that is missing.
  if (asNamed.length === 0 && explained.every(({ refused }) => refused !== undefined)) process.exitCode = 1
  if (given.on('json'))
    return console.log(JSON.stringify({ model, protocol, endpoints: explained, off, asNamed }, null, 2))
  console.log(
    [
      `${model}, asked in ${protocol}`,
      ...explained.map(textOf),
      ...off.map(({ provider, remedy }) => `${provider} is off: ${remedy}`),
      ...(asNamed.length === 0
        ? []
        : [`A server puts what these name in their place; here they stand as they are: ${asNamed.join(', ')}`]),
    ].join('\n\n'),
  )
}

function readRequest(given: Given, file: string): { rawRequest: RawRequest; protocol: ProtocolName; model: string } {
  const text = readText(file)
  const { body } = parsed(text, file)
  const protocol = protocolOf(given.text('protocol'), body)
  const model = given.text('model') ?? (typeof body.model === 'string' ? body.model : undefined)
  if (model === undefined) throw new UsageError(`${file} names no model: sluice explain ${file} --model NAME`)
  // Google's path names the model, and says whether the answer is streamed.
  if (protocol === 'generateContent')
    return { rawRequest: parseRawRequest(text, new Headers(), { model, stream: given.on('stream') }), protocol, model }
  const changes = { model: JSON.stringify(model), ...(given.on('stream') ? { stream: 'true' } : {}) }
  return { rawRequest: parseRawRequest(splice(text, changes), new Headers()), protocol, model }
}

function parsed(text: string, file: string): RawRequest {
  try {
    return parseRawRequest(text, new Headers())
  } catch (error) {
    throw new Error(`${file}: ${(error as Error).message.replace(/^body: /, '')}`)
  }
}

function readText(file: string): string {
  try {
    return readFileSync(file === '-' ? 0 : file, 'utf8')
  } catch (error) {
    throw new UsageError(`${file} cannot be read: ${(error as Error).message}`)
  }
}

function protocolOf(named: string | undefined, body: Record<string, unknown>): ProtocolName {
  if (named === undefined) return guess(body)
  const known = Object.hasOwn(PROTOCOLS, named)
    ? PROTOCOLS[named]
    : Object.values(PROTOCOLS).find((protocol) => protocol === named)
  if (known === undefined)
    throw new UsageError(
      `--protocol is one of ${Object.keys(PROTOCOLS).join(', ')}${meant(named, Object.keys(PROTOCOLS))}`,
    )
  return known
}

/** Members that only requests of the messages API have; without any of them, a list of messages is chat completions. */
const OF_MESSAGES =
  /"(?:system|stop_sequences|thinking|top_k|input_schema|tool_use_id|anthropic_version|output_config)":/

function guess(body: Record<string, unknown>): ProtocolName {
  if ('contents' in body) return 'generateContent'
  if ('messages' in body)
    return 'max_tokens' in body && OF_MESSAGES.test(JSON.stringify({ ...body, metadata: undefined }))
      ? 'messages'
      : 'chat.completions'
  if ('prompt' in body && !('input' in body)) return 'images'
  return 'responses'
}

function explainOne(endpoint: Endpoint, context: TranslationContext, strict: boolean): Explained {
  const { protocol, provider, credentials } = endpoint
  const place = { provider: provider.id, protocol }
  try {
    const {
      url,
      headers,
      body,
      losses: { losses },
    } = prepare(endpoint, context, new SchemaCache())
    const hidden = Object.fromEntries(
      [...Object.keys(provider.headers), ...Object.keys(credentials)].map((name) => [name, '(hidden)']),
    )
    const refused =
      strict && losses.length > 0 ? { refused: 'strict is set in the configuration, and something would be lost' } : {}
    return {
      ...place,
      url,
      headers: { ...headers, ...hidden },
      body: parseExact(body),
      translation: losses,
      ...refused,
    }
  } catch (error) {
    if (!(error instanceof GatewayError)) throw error
    return { ...place, refused: error.message }
  }
}

/** Providers of the model that are off. */
function switchedOff(catalogue: Catalogue, [first]: readonly Endpoint[]): string[] {
  const on = new Set(catalogue.providers().map(({ id }) => id))
  const listed = catalogue.list().find(({ id }) => id === first?.listed)
  return [...new Set(listed?.endpoints.map(({ provider }) => provider) ?? [])].filter((id) => !on.has(id))
}

function textOf({ provider, protocol, url, headers, body, translation, refused }: Explained, index: number): string {
  const title = `${index + 1}. ${provider}, asked in ${protocol}`
  const lines = refused === undefined ? [title] : [title, `It is not asked: ${refused.replace(/\.?$/, '.')}`]
  if (url === undefined || headers === undefined || translation === undefined) return lines.join('\n')
  lines.push(
    `POST ${url}`,
    ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
    JSON.stringify(body, null, 2),
  )
  if (translation.length === 0) return [...lines, 'Nothing is lost.'].join('\n')
  return [
    ...lines,
    'Lost:',
    columns(translation.map(({ code, path, effect, reason }) => [path, effect, code, reason])),
  ].join('\n')
}
