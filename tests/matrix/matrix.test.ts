import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { ConversationName } from '../../src/generation/request.ts'
import type { Loss } from '../../src/protocols/translation.ts'
import { schemaValidator } from '../recorded/vendor-schemas.ts'
import { frameDataOf, type Any } from '../recorded/response-content.ts'
import { startGateway, type Gateway } from '../server.ts'
import { framed } from '../gateway/scripted.ts'
import { errorBodyOf, failureFrameOf, TOOL, failureBodyOf, responseOf, type Reply } from './provider-replies.ts'
import { bodyOf, type ClientRequest } from './client-requests.ts'
import { EARLIER_REASONING, REASONING_SETTING, requestFacts, responseFacts, verdictOf, type Fact } from './facts.ts'
import { readWireResponse, errorMessageOf, readWireRequest } from './wire-reader.ts'
import { NAMES } from './routes.ts'
import {
  BIG_NUMBER,
  FAILURE_MESSAGE,
  RATE_LIMIT_MESSAGE,
  SCENARIOS,
  SMALL_NUMBER,
  RETRY_AFTER_SECONDS,
  type Scenario,
} from './scenarios.ts'
import { tableOf, type Cell, type Route, type Verdict } from './table.ts'

/**
 * Every scenario on every route, streamed and not, through a running gateway to a provider that responds as real ones
 * do. Requests and responses of both ends are read by the same readers, which share no code with the project.
 * UPDATE=1 writes the table of docs/translation.md.
 */

const PROVIDERS: Record<ConversationName, string> = {
  'chat.completions': 'up-chat',
  responses: 'up-responses',
  messages: 'up-messages',
  generateContent: 'up-gemini',
}
const PAGE = join(import.meta.dir, '../../docs/translation.md')

let gateway: Gateway
let provider: ReturnType<typeof Bun.serve>
/** The last request that the provider received. */
let received: Any = {}
/** The provider's next response. */
let scripted: { status: number; whole: object; frames: (object | string)[] } = { status: 200, whole: {}, frames: [] }

/** The names under which the client and the provider know the tool. */
let toolNames: { client: string; provider: string } = { client: TOOL, provider: TOOL }

/** Puts in the values that scenarios abbreviate: the big number and the tool's name at this end. */
const toWire = (text: string, end: 'client' | 'provider'): string =>
  text.replaceAll(SMALL_NUMBER, BIG_NUMBER).replaceAll(TOOL, toolNames[end])
const fromWire = (text: string, end: 'client' | 'provider'): string =>
  text.replaceAll(BIG_NUMBER, SMALL_NUMBER).replaceAll(toolNames[end], TOOL)

/** Tool names that every provider accepts. */
const TOOL_NAME = /^[a-zA-Z0-9_-]{1,64}$/

const declaredToolName = (body: string): string =>
  /"(?:tools|functionDeclarations)":.*?"name":"([^"]*)"/.exec(body)?.[1] ?? TOOL

beforeAll(async () => {
  provider = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    idleTimeout: 0,
    fetch: async (request) => {
      const text = await request.text()
      toolNames.provider = declaredToolName(text)
      received = JSON.parse(fromWire(text, 'provider')) as Any
      const streams = scripted.status === 200 && (received.stream === true || request.url.includes(':stream'))
      const body = streams ? framed(scripted.frames) : JSON.stringify(scripted.whole)
      return new Response(toWire(body, 'provider'), {
        status: scripted.status,
        headers: {
          'content-type': streams ? 'text/event-stream' : 'application/json',
          ...(scripted.status === 200 ? {} : { 'retry-after': String(RETRY_AFTER_SECONDS) }),
        },
      })
    },
  })
  const providers = NAMES.map((protocol) => {
    const quirks = protocol === 'chat.completions' ? ', quirks: { reasoningField: reasoning_details }' : ''
    const url = `"http://127.0.0.1:${provider.port}/v1"`
    const entry = `protocol: ${protocol}, baseUrl: ${url}, apiKey: none, unlisted: true${quirks}`
    return `  ${PROVIDERS[protocol]}: { ${entry} }\n`
  })
  gateway = await startGateway({ config: `limits: { requestsPerMinute: 1000000 }\nproviders:\n${providers.join('')}` })
})

afterAll(async () => {
  await gateway?.stop()
  await provider?.stop(true)
})

/** A response as the client received it. `request`: the body that it sent. */
type Received = { status: number; text: string; losses: Loss[]; retryAfter: string | null; request: Any }

async function send(route: Route, request: ClientRequest, modelName = 'm'): Promise<Received> {
  const { client, stream } = route
  const model = `${PROVIDERS[route.provider]}/${modelName}`
  const body = { ...(client === 'generateContent' ? {} : { model }), ...bodyOf(client, request, stream) }
  const path = {
    'chat.completions': '/v1/chat/completions',
    responses: '/v1/responses',
    messages: '/v1/messages',
    generateContent: `/v1beta/models/${model}:${stream ? 'streamGenerateContent?alt=sse' : 'generateContent'}`,
  }[client]
  received = {}
  const response = await fetch(gateway.url + path, {
    method: 'POST',
    headers: { authorization: `Bearer ${gateway.key}`, 'content-type': 'application/json', 'x-sluice-report': 'body' },
    body: toWire(JSON.stringify(body), 'client'),
  })
  const { text, losses } = withoutReport(fromWire(await response.text(), 'client'), stream && response.status === 200)
  return { status: response.status, text, retryAfter: response.headers.get('retry-after'), losses, request: body }
}

/** The report of losses, and the response without it. */
function withoutReport(text: string, stream: boolean): { text: string; losses: Loss[] } {
  const losses: Loss[] = []
  // A stream of responses has it in the response of its last event, every other protocol at the top level.
  const strip = (json: string): string => {
    const { sluice, response, ...rest } = JSON.parse(json) as Any
    const { sluice: inner, ...plain } = response ?? {}
    losses.push(...(((sluice ?? inner)?.translation ?? []) as Loss[]))
    return JSON.stringify({ ...rest, ...(response === undefined ? {} : { response: plain }) })
  }
  if (!text.includes('"sluice"')) return { text, losses }
  const stripped = stream
    ? text.replace(/^data: (\{.*"sluice".*\})$/gm, (_, json: string) => `data: ${strip(json)}`)
    : strip(text)
  return { text: stripped, losses }
}

const validators = new Map(NAMES.map((name) => [name, schemaValidator(name)]))

async function run(scenario: Scenario, route: Route): Promise<Cell> {
  const { client, stream } = route
  const where = `${scenario.name}, ${client} -> ${route.provider}${stream ? ', streamed' : ''}`
  const response = script(scenario, route)
  toolNames = { client: scenario.toolName ?? TOOL, provider: TOOL }
  const first = await send(route, scenario.request)
  if (scenario.reply === undefined || (scenario.failsMidway === true && !stream))
    return verdictOf(where, first.losses, errorFacts(scenario, first))
  // A 400 names the field that cannot be carried, so nothing is lost silently.
  if (first.status === 400) return { verdict: 'refused', reasons: [errorMessageOf(first.text)] }
  if (first.status !== 200) throw new Error(`${first.status} ${first.text}`)
  const arrived = readWireResponse(client, first.text, stream)
  if (scenario.failsMidway === true)
    return verdictOf(where, first.losses, [
      { fact: 'outcome', want: 'failed', got: arrived.outcome },
      { fact: 'message', want: true, got: first.text.includes(FAILURE_MESSAGE) },
    ])
  checkShape(route, first.text)
  if (client !== route.provider) expect(toolNames.provider).toMatch(TOOL_NAME)
  const facts = [
    ...requestFacts(
      scenario.request,
      readWireRequest(client, first.request),
      readWireRequest(route.provider, received),
    ),
    ...responseFacts(
      readWireResponse(route.provider, stream ? framed(response.frames) : JSON.stringify(response.whole), stream),
      arrived,
    ),
  ]
  if (scenario.followUp === undefined) return verdictOf(where, first.losses, facts)
  const next = await runFollowUp(scenario, route, scenario.followUp(arrived))
  return verdictOf(where, [...first.losses, ...next.losses], [...facts, ...next.facts])
}

/** Has the provider respond as the scenario says. Returns the response that the client should receive. */
function script(scenario: Scenario, { client, provider: name }: Route): { whole: object; frames: (object | string)[] } {
  if (scenario.reply === undefined) {
    const refusal = { whole: errorBodyOf(name, RATE_LIMIT_MESSAGE), frames: [] }
    scripted = { ...refusal, status: 429 }
    return refusal
  }
  const response = responseOf(name, scenario.reply)
  scripted = { ...response, status: 200 }
  if (scenario.textAfterStop !== undefined && name === 'responses' && client !== 'responses')
    scripted = { ...responseOf(name, withMoreText(scenario.reply, scenario.textAfterStop)), status: 200 }
  if (scenario.failsMidway === true)
    scripted = {
      status: 200,
      whole: failureBodyOf(name, FAILURE_MESSAGE),
      frames: [
        ...response.frames.slice(0, Math.floor(response.frames.length / 2)),
        failureFrameOf(name, FAILURE_MESSAGE),
      ],
    }
  return response
}

const withMoreText = (reply: Reply, more: string): Reply => ({
  ...reply,
  parts: reply.parts.map((part) => (part.type === 'text' ? { ...part, text: part.text + more } : part)),
})

/** Sends the next request of a conversation, to which the provider only replies "done". */
async function runFollowUp(
  scenario: Scenario,
  route: Route,
  next: ClientRequest,
): Promise<{ losses: Loss[]; facts: Fact[] }> {
  const { client, provider: name } = route
  const { usage } = scenario.reply!
  scripted = { ...responseOf(name, { parts: [{ type: 'text', text: 'done' }], finish: 'stop', usage }), status: 200 }
  // A provider of the client's protocol gets signatures as they are and decides about them itself.
  const toAnotherModel = scenario.otherModel === true && client !== name
  const response = await send(route, next, toAnotherModel ? 'n' : 'm')
  if (response.status !== 200) throw new Error(`${response.status} ${response.text}`)
  const to = readWireRequest(name, received)
  if (toAnotherModel) expect(to.signatures).toEqual([])
  const facts = requestFacts(next, readWireRequest(client, response.request), to)
  if (scenario.signatures === undefined || (scenario.otherModel === true && !toAnotherModel))
    return { losses: response.losses, facts }
  const signatures = { fact: 'signatures', want: scenario.signatures, got: to.signatures }
  const more: Fact[] = toAnotherModel
    ? [{ ...signatures, explainedBy: EARLIER_REASONING }]
    : // A change of the reasoning effort must not cost the signatures.
      [signatures, { fact: 'reasoning effort', want: true, got: true, explainedBy: REASONING_SETTING }]
  return { losses: response.losses, facts: [...facts, ...more] }
}

/** Asserts that translated requests and responses are valid by the schemas that the vendors publish. */
function checkShape({ client, provider: name, stream }: Route, text: string): void {
  if (client === name) return
  const validate = validators.get(client)!
  const problems = stream
    ? frameDataOf(text)
        .filter((frame) => frame !== '[DONE]')
        .map((frame) => validate('frame', frame))
    : [validate('response', JSON.parse(text))]
  expect(problems.filter((problem) => problem !== '')).toEqual([])
  expect(validators.get(name)!('request', received)).toBe('')
}

const errorFacts = (scenario: Scenario, { status, text, retryAfter }: Received): Fact[] =>
  scenario.failsMidway === true
    ? [
        // The responses protocol reports a failure in a response of status 200.
        { fact: 'status', want: true, got: status >= 500 || (JSON.parse(text) as Any).status === 'failed' },
        { fact: 'message', want: true, got: errorMessageOf(text).includes(FAILURE_MESSAGE) },
      ]
    : [
        { fact: 'status', want: 429, got: status },
        { fact: 'message', want: true, got: errorMessageOf(text).includes(RATE_LIMIT_MESSAGE) },
        { fact: 'retry-after', want: String(RETRY_AFTER_SECONDS), got: retryAfter },
      ]

const cells = new Map<string, Cell>()
const keyOf = (scenario: string, { client, provider: name, stream }: Route): string =>
  [scenario, client, name, stream].join()

for (const client of NAMES)
  for (const name of NAMES)
    describe(`${client} -> ${name}`, () => {
      for (const scenario of SCENARIOS)
        for (const stream of [false, true])
          test(`${scenario.name}${stream ? ', streamed' : ''}: nothing is lost without a report`, async () => {
            const route = { client, provider: name, stream }
            const cell = await run(scenario, route)
            cells.set(keyOf(scenario.name, route), cell)
            expect(cell.verdict === 'lost' ? cell.reasons : []).toEqual([])
            // A provider of the client's own protocol receives and sends everything as it is.
            if (client === name) expect(cell.verdict).toBe('carried' satisfies Verdict)
          })
    })

test('the table in docs/translation.md lists the verdicts of this run', () => {
  const table = tableOf(
    NAMES,
    SCENARIOS.map(({ name }) => name),
    (scenario, route) => cells.get(keyOf(scenario, route))!,
  )
  const page = readFileSync(PAGE, 'utf8')
  const updated = page.replace(
    /(<!-- matrix -->\n)[\s\S]*?(<!-- \/matrix -->)/,
    (_, head: string, tail: string) => `${head}${table}${tail}`,
  )
  if (process.env.UPDATE === '1') writeFileSync(PAGE, updated)
  else expect(page).toBe(updated)
})
