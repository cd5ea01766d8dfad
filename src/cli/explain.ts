import { readFileSync } from 'node:fs'
import { GatewayError } from '../error.ts'
import { splice } from '../json/edit.ts'
import { parseExact } from '../json/exact.ts'
import type { ProtocolName } from '../generation/request.ts'
import { protocols } from '../protocols/index.ts'
import type { RawRequest, TranslationContext } from '../protocols/protocol.ts'
import { SchemaCache } from '../protocols/schema/cache.ts'
import type { Loss } from '../protocols/translation.ts'
import { parseRawRequest } from '../protocols/raw-request.ts'
import { bodyText } from '../http/encode-request.ts'
import { prepare } from '../providers/attempt.ts'
import type { Catalogue, Endpoint } from '../providers/catalogue.ts'
import { howToEnable } from '../providers/configured.ts'
import { columns, didYouMean, UsageError, type Given } from './command.ts'
import { discoverModels } from './models.ts'
import { configOf } from './serve.ts'

/** The request to one endpoint, or why it is not sent. `body`: parsed, with numbers as they are spelled. */
type EndpointPlan = {
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
  const catalogue = await discoverModels(config)
  const request = protocols[protocol].serve.readRequest(rawRequest)
  const endpoints = catalogue.endpoints(model, protocol)
  const context: TranslationContext = { rawRequest, request, responseIdentity: { id: '', model, createdAt: 0 } }
  const explained = endpoints.map((endpoint) => explainOne(endpoint, context, config.strict))
  const off = switchedOff(catalogue, endpoints).map((provider) => ({
    provider,
    remedy: howToEnable(provider, config) ?? 'it is not configured',
  }))
  const asNamed = [
    ...(protocols[protocol].serve.references?.(rawRequest.body) ?? []).map(({ param }) => param),
    ...('previous_response_id' in rawRequest.body ? ['previous_response_id'] : []),
  ]
  // A server would insert what these refer to, so that the refusals may not apply.
  if (asNamed.length === 0 && explained.every(({ refused }) => refused !== undefined)) process.exitCode = 1
  if (given.on('json'))
    return console.log(JSON.stringify({ model, protocol, endpoints: explained, off, asNamed }, null, 2))
  console.log(
    [
      `${model}, requested in ${protocol}`,
      ...explained.map(planText),
      ...off.map(({ provider, remedy }) => `${provider} is off: ${remedy}`),
      ...(asNamed.length === 0 ? [] : [`Not resolved here, only by a running server: ${asNamed.join(', ')}`]),
    ].join('\n\n'),
  )
}

function readRequest(given: Given, file: string): { rawRequest: RawRequest; protocol: ProtocolName; model: string } {
  const text = readText(file)
  const { body } = parseRequest(text, file)
  const protocol = protocolOf(given.text('protocol'), body)
  const model = given.text('model') ?? (typeof body.model === 'string' ? body.model : undefined)
  if (model === undefined) throw new UsageError(`${file} has no model; use sluice explain ${file} --model NAME`)
  if (protocols[protocol].serve.modelInPath === true)
    return { rawRequest: parseRawRequest(text, new Headers(), { model, stream: given.on('stream') }), protocol, model }
  const changes = { model: JSON.stringify(model), ...(given.on('stream') ? { stream: 'true' } : {}) }
  return { rawRequest: parseRawRequest(splice(text, changes), new Headers()), protocol, model }
}

function parseRequest(text: string, file: string): RawRequest {
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
    throw new UsageError(`cannot read ${file}: ${(error as Error).message}`)
  }
}

function protocolOf(named: string | undefined, body: Record<string, unknown>): ProtocolName {
  const all = Object.values(protocols)
  if (named === undefined) return detectProtocol(body)
  const known = all.find(({ name, alias }) => name === named || alias === named)
  if (known !== undefined) return known.name
  const aliases = all.map(({ alias }) => alias)
  throw new UsageError(`--protocol must be one of ${aliases.join(', ')}${didYouMean(named, aliases)}`)
}

/** The protocol whose fields the body has; responses for a body with a model alone. */
function detectProtocol(body: Record<string, unknown>): ProtocolName {
  const [best] = Object.values(protocols)
    .map(({ name, serve }) => ({ name, score: serve.recognize(body) }))
    .toSorted((a, b) => b.score - a.score)
  return best === undefined || best.score === 0 ? 'responses' : best.name
}

function explainOne(endpoint: Endpoint, context: TranslationContext, strict: boolean): EndpointPlan {
  const { protocol, provider, credentials } = endpoint
  const target = { provider: provider.id, protocol }
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
      strict && losses.length > 0
        ? { refused: 'strict is set in the configuration, and the translation has losses' }
        : {}
    return {
      ...target,
      url,
      headers: { ...headers, ...hidden },
      body: parseExact(bodyText(body)),
      translation: losses,
      ...refused,
    }
  } catch (error) {
    if (!(error instanceof GatewayError)) throw error
    return { ...target, refused: error.message }
  }
}

/** Providers of the model that are switched off. */
function switchedOff(catalogue: Catalogue, [first]: readonly Endpoint[]): string[] {
  const on = new Set(catalogue.providers().map(({ id }) => id))
  const listed = catalogue.list().find(({ id }) => id === first?.listed)
  return [...new Set(listed?.endpoints.map(({ provider }) => provider) ?? [])].filter((id) => !on.has(id))
}

function planText(
  { provider, protocol, url, headers, body, translation, refused }: EndpointPlan,
  index: number,
): string {
  const title = `${index + 1}. ${provider}, over ${protocol}`
  const lines = refused === undefined ? [title] : [title, `Not sent: ${refused.replace(/\.?$/, '.')}`]
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
