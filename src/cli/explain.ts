import type { ProtocolName } from '../generation/request.ts'
import { protocols } from '../protocols/index.ts'
import { explainedRequest, explainRequest, type EndpointPlan, type ExplainedRequest } from '../providers/explain.ts'
import { columns, didYouMean, UsageError, type Given } from './command.ts'
import { readInput } from './input.ts'
import { discoverModels } from './models.ts'
import { configOf } from './serve.ts'

export async function explain(given: Given, file: string): Promise<void> {
  const requested = readRequest(given, file)
  const config = configOf(given)
  const catalogue = await discoverModels(config)
  const { model, protocol, endpoints, off, asNamed } = explainRequest(catalogue, config, requested)
  // A server would insert what these refer to, so that the refusals may not apply.
  if (asNamed.length === 0 && endpoints.every(({ refused }) => refused !== undefined)) process.exitCode = 1
  if (given.on('json')) return console.log(JSON.stringify({ model, protocol, endpoints, off, asNamed }, null, 2))
  console.log(
    [
      `${model}, requested in ${protocol}`,
      ...endpoints.map(planText),
      ...off.map(({ provider, remedy }) => `${provider} is off: ${remedy}`),
      ...(asNamed.length === 0 ? [] : [`Not resolved here, only by a running server: ${asNamed.join(', ')}`]),
    ].join('\n\n'),
  )
}

function readRequest(given: Given, file: string): ExplainedRequest {
  const text = readInput(file)
  const request = parsing(file, () =>
    explainedRequest(text, {
      protocol: protocolOf(given.text('protocol')),
      model: given.text('model'),
      stream: given.on('stream'),
    }),
  )
  if (request === undefined) throw new UsageError(`${file} has no model; use sluice explain ${file} --model NAME`)
  return request
}

function parsing<T>(file: string, read: () => T): T {
  try {
    return read()
  } catch (error) {
    if (error instanceof UsageError) throw error
    throw new Error(`${file}: ${(error as Error).message.replace(/^body: /, '')}`)
  }
}

function protocolOf(named: string | undefined): ProtocolName | undefined {
  if (named === undefined) return undefined
  const all = Object.values(protocols)
  const known = all.find(({ name, alias }) => name === named || alias === named)
  if (known !== undefined) return known.name
  const aliases = all.map(({ alias }) => alias)
  throw new UsageError(`--protocol must be one of ${aliases.join(', ')}${didYouMean(named, aliases)}`)
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
