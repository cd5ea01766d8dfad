import { afterAll, beforeAll, expect, test } from 'bun:test'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { startGateway, type Gateway } from '../server.ts'
import { formatJson, parseScenario, printScenario, withoutIds, type Scenario, type Section } from './scenario.ts'

/**
 * Every `*.scenario` beside this file, played against a running gateway and a provider on a socket. UPDATE=1 writes the
 * requests that the provider received and the responses that the client received into the files.
 */

const UPDATE = process.env.UPDATE === '1'
const folder = import.meta.dir
const files = readdirSync(folder).filter((file) => file.endsWith('.scenario'))
const scenarios = new Map(
  files.map((file) => [file.replace('.scenario', ''), parseScenario(readFileSync(join(folder, file), 'utf8'))]),
)

/** Requests that the provider received, by scenario. */
const received = new Map<string, { path: string; body: string }[]>()
let gateway: Gateway
let provider: ReturnType<typeof Bun.serve>

const sectionsOf = ({ sections }: Scenario, name: string): Section[] =>
  sections.filter((section) => section.name === name)

/** The provider's side: the model is named after the scenario, whose n-th provider response serves the n-th request. */
async function respond(request: Request): Promise<Response> {
  const path = new URL(request.url).pathname.replace(/^\/v1/, '') + new URL(request.url).search
  const body = await request.text()
  const name = /models\/([^:]+):/.exec(path)?.[1] ?? (JSON.parse(body) as { model: string }).model
  const scenario = scenarios.get(name)
  if (scenario === undefined) return Response.json({ error: { message: `no scenario ${name}` } }, { status: 404 })
  const requests = received.get(name) ?? []
  requests.push({ path, body })
  received.set(name, requests)
  const responses = sectionsOf(scenario, 'provider response')
  const response = responses[requests.length - 1] ?? responses.at(-1)!
  const [status = '200', type = 'application/json', ...headers] = response.detail.split(' ')
  return new Response(response.body.replaceAll('\\r\\n', '\r\n') + '\n', {
    status: Number(status),
    headers: { 'content-type': type, ...headersIn(headers) },
  })
}

const headersIn = (pairs: string[]): Record<string, string> =>
  Object.fromEntries(pairs.map((pair) => pair.split('=') as [string, string]))

beforeAll(async () => {
  provider = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: respond })
  const providers = ['chat.completions', 'responses', 'messages', 'generateContent'].map((protocol) => {
    const id = `acme-${protocol.split('.')[0]!.toLowerCase()}`
    const baseUrl = `http://127.0.0.1:${provider.port}/v1`
    return `  ${id}: { protocol: ${protocol}, baseUrl: "${baseUrl}", apiKey: secret, unlisted: true }\n`
  })
  gateway = await startGateway({ config: `providers:\n${providers.join('')}` })
})

afterAll(async () => {
  await gateway?.stop()
  await provider?.stop(true)
})

for (const [name, scenario] of scenarios) {
  test(`${name}: ${scenario.intent.replaceAll('\n', ' ')}`, async () => {
    received.delete(name)
    const [request] = sectionsOf(scenario, 'client request')
    const [method = 'POST', path = '/', ...headers] = request!.detail.split(' ')
    const response = await fetch(gateway.url + path, {
      method,
      headers: {
        authorization: `Bearer ${gateway.key}`,
        'content-type': 'application/json',
        ...headersIn(headers),
      },
      body: request!.body,
    })
    check(scenario, received.get(name) ?? [], response, await response.text())
    if (UPDATE) writeFileSync(join(folder, `${name}.scenario`), printScenario(scenario))
  })
}

function check(scenario: Scenario, requests: { path: string; body: string }[], response: Response, body: string): void {
  const expected = sectionsOf(scenario, 'provider request')
  expect(requests).toHaveLength(expected.length)
  for (const [index, section] of expected.entries())
    compare(section, requests[index]!.path, formatJson(requests[index]!.body))
  const [client] = sectionsOf(scenario, 'client response')
  compare(client!, String(response.status), withoutIds(formatJson(body)))
  for (const section of sectionsOf(scenario, 'client response headers')) {
    const names = [...section.body.matchAll(/^([a-z-]+): /gm)].map(([, name]) => name!)
    const values = names.map((name) => withoutIds(formatJson(response.headers.get(name) ?? 'absent')))
    compare(section, '', names.map((name, index) => `${name}: ${values[index]}`).join('\n'))
  }
  if (!UPDATE) return
  for (const name of ['client request', 'provider response'])
    for (const section of sectionsOf(scenario, name)) section.body = formatJson(section.body)
}

function compare(section: Section, detail: string, body: string): void {
  if (UPDATE) {
    Object.assign(section, { detail, body: body.trim() })
    return
  }
  expect(detail).toBe(section.detail)
  expect(body.trim()).toBe(section.body)
}
