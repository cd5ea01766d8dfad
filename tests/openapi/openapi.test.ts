import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import Ajv2020 from 'ajv/dist/2020'
import { openApiDocument } from '../../src/openapi/document.ts'
import { unmatched } from '../../src/openapi/management.ts'
import { match, routes, type Route } from '../../src/routes.ts'
import { answerSchemas } from '../../scripts/answer-schemas.ts'
import { ownerOf, type Browser } from '../management/browser.ts'
import { startGateway, type Gateway } from '../server.ts'

/** The OpenAPI document against the routes, the types and a running server. */

type Content = Record<string, { schema?: object; example?: unknown }>
type Documented = {
  operationId: string
  security: object[]
  parameters?: { name: string; schema: { enum?: string[] } }[]
  requestBody?: { content: Content }
  responses: Record<string, { content?: Content }>
}

const document = openApiDocument() as {
  paths: Record<string, Record<string, Documented>>
  components: { schemas: Record<string, object> }
}
const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => ({ path, method: method.toUpperCase(), operation })),
)
const named = operations.map((one) => [`${one.method} ${one.path}`, one] as const)

/** A path with its parameters: those of a model and a publisher exist. */
const pathOf = (template: string): string =>
  template
    .replace('publishers/{publisher}/models/{model}', 'publishers/sandbox/models/chat')
    .replace('{model}', 'sandbox/chat')
    .replace('{publisher}', 'sandbox')
    .replace(/\{\w+\}/g, 'none')

describe('the document', () => {
  test('has every route, and nothing else', () => {
    const found = new Set<Route>(operations.map(({ method, path }) => match(method, pathOf(path)).route))
    // The console is no API.
    const api = routes.filter(({ name }) => name !== 'console')
    expect(api.filter((route) => !found.has(route)).map(({ method, path }) => `${method} ${path}`)).toEqual([])
  })

  test('says more than the path of each row of the management API', () => {
    expect(unmatched()).toEqual([])
  })

  test('has an id of its own for every operation', () => {
    expect(new Set(operations.map(({ operation }) => operation.operationId)).size).toBe(operations.length)
  })

  test('has the answers as the types of the management API have them', () => {
    const file = join(import.meta.dir, '../../src/openapi/answers.json')
    const text = `${JSON.stringify(answerSchemas(), null, 2)}\n`
    if (process.env.UPDATE === '1') writeFileSync(file, text)
    expect(readFileSync(file, 'utf8')).toBe(text)
  })
})

const ajv = new Ajv2020({ strict: false, validateFormats: false })
ajv.addSchema({ $id: 'sluice', components: document.components })

/** The errors of a value; empty where it is valid. */
function problems(schema: object, value: unknown): string {
  const absolute = JSON.parse(JSON.stringify(schema).replaceAll('"#/components', '"sluice#/components')) as object
  return ajv.validate(absolute, value) ? '' : ajv.errorsText()
}

/** The errors of a response, as far as its operation is documented. */
async function misfit({ operation }: (typeof operations)[number], response: Response): Promise<string> {
  const { status, headers } = response
  const documented = operation.responses[status] ?? (status >= 400 ? operation.responses.default : undefined)
  const text = await response.text()
  if (documented === undefined) return `status ${status}: ${text.slice(0, 200)}`
  const type = (headers.get('content-type') ?? '').split(';')[0]!
  const { content = {} } = documented
  const documentedBody = content[type] ?? content['*/*']
  const schema = documentedBody?.schema ?? (documentedBody && {})
  if (schema === undefined) return text === '' && Object.keys(content).length === 0 ? '' : `type ${type} of ${status}`
  return type === 'application/json' ? problems(schema, JSON.parse(text)) : ''
}

/** The formats of which a client may choose one. */
const formatsOf = ({ operation: { parameters = [] } }: (typeof operations)[number]): string[] =>
  parameters.flatMap(({ name, schema }) => (name === 'format' ? (schema.enum ?? []) : []))

describe('a running server', () => {
  let gateway: Gateway
  let owner: Browser
  beforeAll(async () => {
    gateway = await startGateway({ config: 'limits: { requestsPerMinute: 100000 }\n' })
    owner = await ownerOf(gateway)
  })
  afterAll(() => gateway.stop())

  async function send({ method, path, operation }: (typeof operations)[number], key?: string): Promise<Response> {
    const [type, body] = Object.entries(operation.requestBody?.content ?? {})[0] ?? []
    const isJson = type === 'application/json'
    return fetch(gateway.url + pathOf(path), {
      method,
      headers: {
        ...(key === undefined ? {} : { authorization: `Bearer ${key}` }),
        ...(isJson ? { 'content-type': type } : {}),
        via: 'proxy',
      },
      ...(isJson && method !== 'GET' ? { body: JSON.stringify(body?.example ?? {}) } : {}),
    })
  }

  test('answers /openapi.json without a key', async () => {
    const response = await fetch(`${gateway.url}/openapi.json`)
    expect(response.headers.get('content-type')).toBe('application/json')
    expect(await response.json()).toEqual(JSON.parse(JSON.stringify(document)))
    // The version of the interface, not that of the program.
    expect(document).toMatchObject({ info: { version: '1.0.0' } })
  })

  test.each(named)('answers %s without a key as documented', async (_, one) => {
    if (one.path.endsWith('/requests/stream')) return
    expect(await misfit(one, await send(one))).toBe('')
  })

  test.each(named)('answers %s with a key as documented', async (_, one) => {
    const isOfManagement = one.path.startsWith('/v1/management') || one.path === '/metrics'
    const key = isOfManagement ? gateway.createdKeys.management : gateway.key
    if (!one.path.endsWith('/requests/stream')) expect(await misfit(one, await send(one, key))).toBe('')
  })

  test('answers an owner as documented', async () => {
    await send(named.find(([name]) => name === 'POST /v1/chat/completions')![1], gateway.key)
    const lists = named.filter(([name]) => /^GET \/v1\/management\/[^{]*$/.test(name) && !name.endsWith('stream'))
    const isRecord = /generation$|balance$|detail$/
    const wrong: string[] = []
    for (const [name, one] of lists.filter(([name]) => !isRecord.test(name))) {
      const { status, headers, text } = await owner.get(one.path.replace('/v1/management', ''))
      const body = status === 200 && text === '' ? undefined : new Response(text, { status, headers })
      if (status !== 200) wrong.push(`${name}: ${status}`)
      const problem = body === undefined ? '' : await misfit(one, body)
      if (problem !== '') wrong.push(`${name}: ${problem}`)
    }
    expect(lists.length).toBeGreaterThan(10)
    expect(wrong).toEqual([])
    const formats = named.flatMap(([, one]) => formatsOf(one).map((format) => [one, format] as const))
    expect(formats.length).toBe(4)
    for (const [one, format] of formats) {
      const { status, headers, text } = await owner.get(`${one.path.replace('/v1/management', '')}?format=${format}`)
      expect([one.path, format, await misfit(one, new Response(text, { status, headers }))]).toEqual([
        one.path,
        format,
        '',
      ])
    }
    const making = named.filter(([name]) => ['POST /v1/management/keys', 'POST /v1/management/accounts'].includes(name))
    const bodies = [{ kind: 'pay-as-you-go', name: 'x' }, { name: 'team' }]
    for (const [at, [, one]] of making.entries()) {
      const { status, headers, text } = await owner.post(one.path.replace('/v1/management', ''), bodies[at]!)
      expect([status, await misfit(one, new Response(text, { status, headers }))]).toEqual([201, ''])
    }
  })

  test('takes no variable of sluice.yaml in a body, as documented', async () => {
    const bodies: Record<string, [good: object, withVariable: object]> = {
      'POST /keys': [{ kind: 'pay-as-you-go' }, { kind: '${KIND}' }],
      'PUT /models/{name}': [{ contextLength: 5 }, { contextLength: '${LENGTH}' }],
      'PUT /plans/{tier}': [{ usdPerMonth: 5 }, { usdPerMonth: '${PRICE}' }],
      'PUT /providers/{id}': [{ protocol: 'messages' }, { protocol: '${PROTOCOL}' }],
    }
    for (const [name, [good, bad]] of Object.entries(bodies)) {
      const [method, path] = name.split(' ') as [string, string]
      const [, one] = named.find(([documented]) => documented === `${method} /v1/management${path}`)!
      const schema = one.operation.requestBody!.content['application/json']!.schema as { required?: string[] }
      const optional = { ...schema, required: [] }
      expect([name, problems(optional, good), problems(optional, bad) === '']).toEqual([name, '', false])
      const { status } = await owner.ask(method, pathOf(path), bad)
      expect([name, status]).toEqual([name, 400])
    }
  })

  const examples = named.filter(
    ([, { operation }]) => operation.requestBody?.content['application/json']?.example !== undefined,
  )

  test.each(examples)('serves the example of %s', async (_, one) => {
    const { schema, example } = one.operation.requestBody!.content['application/json']!
    expect(problems(schema!, example)).toBe('')
    const response = await send(one, gateway.key)
    expect([200, 201]).toContain(response.status)
    expect(await misfit(one, response)).toBe('')
  })
})
