import { type Loss } from '../../src/protocols/translation.ts'
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { ConversationName } from '../../src/generation/request.ts'
import { schemaValidator } from '../recorded/vendor-schemas.ts'
import { frameDataOf, type Any } from '../recorded/response-content.ts'
import { startGateway, type Gateway } from '../server.ts'
import { framed } from '../gateway/scripted.ts'
import { errorOf, failureOf, TOOL, wholeFailureOf, wireOf, type Reply } from './answering.ts'
import { bodyOf, type Ask } from './asking.ts'
import { heard, messageOf, sent, type Heard, type Sent } from './reading.ts'
import { BIG, FAILURE, REFUSAL, SCENARIOS, SMALL, WAIT_SECONDS, type Scenario } from './scenarios.ts'
import { printTable, worst, type Cell, type Route, type Verdict } from './table.ts'

/**
 * Every scenario on every route, streamed and not, through a running gateway to a provider that answers as real ones
 * do. What the provider
 * said and what the client heard are read from the wire by the same plain reader, and so is what was asked at both
 * ends. UPDATE=1 writes the table.
 */

const NAMES: ConversationName[] = ['chat.completions', 'responses', 'messages', 'generateContent']
const UP: Record<ConversationName, string> = {
  'chat.completions': 'up-chat',
  responses: 'up-responses',
  messages: 'up-messages',
  generateContent: 'up-gemini',
}
const PAGE = join(import.meta.dir, '../../docs/translation.md')

let gateway: Gateway
let upstream: ReturnType<typeof Bun.serve>
/** What the provider was asked last, and answers. */
let got: Any = {}
let answer: { status: number; whole: object; frames: (object | string)[] } = { status: 200, whole: {}, frames: [] }

/** The name under which the client and the provider know the tool. */
let names: { client: string; provider: string } = { client: TOOL, provider: TOOL }

const thick = (text: string, side: 'client' | 'provider'): string =>
  text.replaceAll(SMALL, BIG).replaceAll(TOOL, names[side])
const thin = (text: string, side: 'client' | 'provider'): string =>
  text.replaceAll(BIG, SMALL).replaceAll(names[side], TOOL)

/** Names as the strictest provider takes them. */
const NAME = /^[a-zA-Z0-9_-]{1,64}$/

const declared = (text: string): string =>
  /"(?:tools|functionDeclarations)":.*?"name":"([^"]*)"/.exec(text)?.[1] ?? TOOL

beforeAll(async () => {
  upstream = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    idleTimeout: 0,
    fetch: async (request) => {
      const text = await request.text()
      names.provider = declared(text)
      got = JSON.parse(thin(text, 'provider')) as Any
      const streams = answer.status === 200 && (got.stream === true || request.url.includes(':stream'))
      const headers = {
        'content-type': streams ? 'text/event-stream' : 'application/json',
        ...(answer.status === 200 ? {} : { 'retry-after': String(WAIT_SECONDS) }),
      }
      return new Response(thick(streams ? framed(answer.frames) : JSON.stringify(answer.whole), 'provider'), {
        status: answer.status,
        headers,
      })
    },
  })
  const providers = NAMES.map(
    (protocol) =>
      `  ${UP[protocol]}: { protocol: ${protocol}, baseUrl: "http://127.0.0.1:${upstream.port}/v1", apiKey: none, unlisted: true${protocol === 'chat.completions' ? ', quirks: { reasoningField: reasoning_details }' : ''} }\n`,
  )
  gateway = await startGateway({ config: `limits: { requestsPerMinute: 1000000 }\nproviders:\n${providers.join('')}` })
})

afterAll(async () => {
  await gateway?.stop()
  await upstream?.stop(true)
})

type Answered = { status: number; text: string; losses: Loss[]; retryAfter: string | null; asked: Any }

async function ask({ client, provider, stream }: Route, what: Ask, name = 'm'): Promise<Answered> {
  const model = `${UP[provider]}/${name}`
  const body = { ...(client === 'generateContent' ? {} : { model }), ...bodyOf(client, what, stream) }
  const path = {
    'chat.completions': '/v1/chat/completions',
    responses: '/v1/responses',
    messages: '/v1/messages',
    generateContent: `/v1beta/models/${model}:${stream ? 'streamGenerateContent?alt=sse' : 'generateContent'}`,
  }[client]
  got = {}
  const response = await fetch(gateway.url + path, {
    method: 'POST',
    headers: { authorization: `Bearer ${gateway.key}`, 'content-type': 'application/json', 'x-sluice-report': 'body' },
    body: thick(JSON.stringify(body), 'client'),
  })
  const { text, losses } = unreported(thin(await response.text(), 'client'), stream && response.status === 200)
  return { status: response.status, text, retryAfter: response.headers.get('retry-after'), losses, asked: body }
}

/** The report of what was lost, and the answer as it would be without. */
function unreported(text: string, stream: boolean): { text: string; losses: Loss[] } {
  const losses: Loss[] = []
  // A response in its last event holds it, every other protocol says it at the top.
  const strip = (json: string): string => {
    const { sluice, response, ...rest } = JSON.parse(json) as Any
    const { sluice: inner, ...plain } = response ?? {}
    losses.push(...(((sluice ?? inner)?.translation ?? []) as Loss[]))
    return JSON.stringify({ ...rest, ...(response === undefined ? {} : { response: plain }) })
  }
  if (!text.includes('"sluice"')) return { text, losses }
  const left = stream
    ? text.replace(/^data: (\{.*"sluice".*\})$/gm, (_, json: string) => `data: ${strip(json)}`)
    : strip(text)
  return { text: left, losses }
}

/** Where earlier reasoning and signatures stand in a request. */
const OF_THOUGHTS =
  /^(messages|input|contents)\[\d*\](\.reasoning_details|\.tool_calls\[\d*\]\.extra_content|\.encrypted_content|\.content\[\d*\](\.data|\.signature)?|\.parts\[\d*\](\.thoughtSignature)?)?$/

/** One thing that had to arrive, and whether what was said of losses names it. */
type Fact = { fact: string; want: unknown; got: unknown; told?: RegExp }

const judges = new Map(NAMES.map((name) => [name, schemaValidator(name)]))

async function play(scenario: Scenario, route: Route): Promise<Cell> {
  const { provider, client, stream } = route
  const rawRequest =
    scenario.reply === undefined ? { whole: errorOf(provider, REFUSAL), frames: [] } : wireOf(provider, scenario.reply)
  answer = { ...rawRequest, status: scenario.reply === undefined ? 429 : 200 }
  if (scenario.beyond !== undefined && provider === 'responses' && client !== 'responses')
    answer = { ...wireOf(provider, writtenOn(scenario.reply!, scenario.beyond)), status: 200 }
  names = { client: scenario.tool ?? TOOL, provider: TOOL }
  if (scenario.breaks === true)
    answer = {
      status: 200,
      whole: wholeFailureOf(provider, FAILURE),
      frames: [...rawRequest.frames.slice(0, Math.floor(rawRequest.frames.length / 2)), failureOf(provider, FAILURE)],
    }
  const first = await ask(route, scenario.ask)
  if (scenario.reply === undefined || (scenario.breaks === true && !stream))
    return cellOf(scenario, route, first, refusalFacts(scenario, first))
  // A 400 of ours says which field cannot be carried: nothing is lost silently.
  if (first.status === 400) return { verdict: 'refused', why: [messageOf(first.text)] }
  if (first.status !== 200) throw new Error(`${first.status} ${first.text}`)
  const told = heard(client, first.text, stream)
  if (scenario.breaks === true)
    return cellOf(scenario, route, first, [
      { fact: 'ending', want: 'failed', got: told.ending },
      { fact: 'message', want: true, got: first.text.includes(FAILURE) },
    ])
  checkShape(route, first.text)
  if (client !== provider) expect(names.provider).toMatch(NAME)
  const facts = [
    ...askedFacts(scenario.ask, sent(client, first.asked), sent(provider, got)),
    ...answerFacts(
      heard(provider, stream ? framed(rawRequest.frames) : JSON.stringify(rawRequest.whole), stream),
      told,
    ),
  ]
  if (scenario.then === undefined) return cellOf(scenario, route, first, facts)
  answer = {
    ...wireOf(provider, { parts: [{ type: 'text', text: 'done' }], ending: 'stop', usage: scenario.reply.usage }),
    status: 200,
  }
  const next = scenario.then(told)
  // Of a provider of the client's own protocol the signatures are plain, and its own affair.
  const other = scenario.another === true && client !== provider
  const second = await ask(route, next, other ? 'n' : 'm')
  if (second.status !== 200) throw new Error(`${second.status} ${second.text}`)
  const again = askedFacts(next, sent(client, second.asked), sent(provider, got))
  const { signatures } = sent(provider, got)
  const proofs: Fact[] =
    scenario.proofs === undefined || (scenario.another === true && !other)
      ? []
      : // Whatever is told of the depth of its thoughts, their maker gets them back.
        other
        ? [{ fact: 'signature', want: scenario.proofs, got: signatures, told: OF_THOUGHTS }]
        : [
            { fact: 'signature', want: scenario.proofs, got: signatures },
            { fact: 'depth', want: true, got: true, told: /reasoning|thinking|effort/i },
          ]
  if (other) expect(signatures).toEqual([])
  return cellOf(scenario, route, { ...second, losses: [...first.losses, ...second.losses] }, [
    ...facts,
    ...again,
    ...proofs,
  ])
}

const writtenOn = (reply: Reply, beyond: string): Reply => ({
  ...reply,
  parts: reply.parts.map((part) => (part.type === 'text' ? { ...part, text: part.text + beyond } : part)),
})

/** The vendors' own documents of answers and requests. */
function checkShape({ client, provider, stream }: Route, text: string): void {
  const verdict = judges.get(client)!
  if (client !== provider) {
    const flaws = stream
      ? frameDataOf(text)
          .filter((frame) => frame !== '[DONE]')
          .map((frame) => verdict('frame', frame))
      : [verdict('response', JSON.parse(text))]
    expect(flaws.filter((flaw) => flaw !== '')).toEqual([])
    expect(judges.get(provider)!('request', got)).toBe('')
  }
}

const refusalFacts = (scenario: Scenario, { status, text, retryAfter }: Answered): Fact[] =>
  scenario.breaks === true
    ? // A failed response is an answer of its own protocol with its own status.
      [
        { fact: 'status', want: true, got: status >= 500 || (JSON.parse(text) as Any).status === 'failed' },
        { fact: 'message', want: true, got: messageOf(text).includes(FAILURE) },
      ]
    : [
        { fact: 'status', want: 429, got: status },
        { fact: 'message', want: true, got: messageOf(text).includes(REFUSAL) },
        { fact: 'retry-after', want: String(WAIT_SECONDS), got: retryAfter },
      ]

const trim = (text: string): string => text.trim()

const askedFacts = (what: Ask, from: Sent, to: Sent): Fact[] => [
  // Neighbouring texts may become one, and what is sent beside them is another fact.
  {
    fact: 'texts',
    want: from.asked.texts,
    got: from.asked.texts.filter((text) => to.asked.texts.join('').includes(text)),
    told: /^(messages|input|contents)(\[\d*\])?$/,
  },
  { fact: 'failure', want: from.failed, got: to.failed, told: /\.is_error$|\.functionResponse\.response\.error$/ },
  { fact: 'calls', want: JSON.stringify(from.asked.calls), got: JSON.stringify(to.asked.calls) },
  {
    fact: 'results',
    want: from.asked.results.map(trim),
    got: to.asked.results.map((result, index) =>
      result.includes(from.asked.results[index]?.trim() ?? '') ? from.asked.results[index]!.trim() : result,
    ),
  },
  { fact: 'tools', want: from.asked.tools, got: to.asked.tools },
  {
    fact: 'images',
    want: from.asked.media,
    got: to.asked.media,
    told: /\.(content|output|functionResponse\.(parts|response))$/,
  },
  {
    fact: 'stop sequences',
    want: from.stop,
    got: to.stop,
    told: /^(stop|stop_sequences|generationConfig\.stopSequences)$/,
  },
  { fact: 'schema', want: from.schema, got: to.schema, told: /schema$/i },
  ...(what.maxTokens === undefined
    ? []
    : [
        {
          fact: 'limit',
          want: from.maxTokens,
          got: to.maxTokens,
          told: /^max_(output_|completion_)?tokens$|maxOutputTokens$/,
        },
      ]),
]

const answerFacts = (from: Heard, to: Heard): Fact[] => [
  { fact: 'text', want: from.said.text, got: to.said.text },
  { fact: 'reasoning', want: from.said.reasoning, got: to.said.reasoning },
  {
    fact: 'calls',
    want: JSON.stringify(from.said.calls),
    got: JSON.stringify(to.said.calls),
    told: /^response.tool_calls.arguments$/,
  },
  { fact: 'ending', want: from.ending, got: to.ending },
  // Sluice may know of one that the provider does not.
  {
    fact: 'stop sequence',
    want: from.stopSequence,
    got: from.stopSequence === undefined ? undefined : to.stopSequence,
    told: /^response.stop_sequence$/,
  },
  { fact: 'citations', want: from.citations, got: to.citations, told: /^response.citations$/ },
  { fact: 'usage', want: from.said.usage, got: to.said.usage },
  { fact: 'cache writes', want: from.cacheWritten, got: to.cacheWritten, told: /^response.usage$/ },
]

function cellOf(scenario: Scenario, route: Route, { losses }: Answered, facts: Fact[]): Cell {
  const verdicts: Cell[] = facts.map(({ fact, want, got: arrived, told }): Cell => {
    const same = Bun.deepEquals(want, arrived)
    const said = told === undefined ? undefined : losses.find(({ path }) => told.test(path))
    if (said !== undefined && (!same || said.effect === 'approximated'))
      return { verdict: said.effect === 'dropped' ? 'dropped (reported)' : 'approximated', why: [said.reason] }
    if (same) return { verdict: 'carried', why: [] }
    return {
      verdict: 'lost',
      why: [
        `${scenario.name}, ${route.client} -> ${route.provider}${route.stream ? ', streamed' : ''}: ${fact} was ${JSON.stringify(want)}, is ${JSON.stringify(arrived)}`,
      ],
    }
  })
  return worst(verdicts)
}

const cells = new Map<string, Cell>()
const keyOf = (scenario: Scenario, route: Route): string =>
  [scenario.name, route.client, route.provider, route.stream].join()

for (const client of NAMES)
  for (const provider of NAMES)
    describe(`${client} -> ${provider}`, () => {
      for (const scenario of SCENARIOS)
        for (const stream of [false, true])
          test(`${scenario.name}${stream ? ', streamed' : ''}`, async () => {
            const route = { client, provider, stream }
            const cell = await play(scenario, route)
            cells.set(keyOf(scenario, route), cell)
            expect(cell.verdict === 'lost' ? cell.why : []).toEqual([])
            // A provider of the client's own protocol gets and gives everything as it is.
            if (client === provider) expect(cell.verdict).toBe('carried' satisfies Verdict)
          })
    })

test('the table in docs/translation.md says what was found', () => {
  const table = printTable(
    NAMES,
    SCENARIOS.map(({ name }) => name),
    (name, route) => cells.get(keyOf(SCENARIOS.find((one) => one.name === name)!, route))!,
  )
  const page = readFileSync(PAGE, 'utf8')
  const updated = page.replace(
    /(<!-- matrix -->\n)[\s\S]*?(<!-- \/matrix -->)/,
    (_, head: string, tail: string) => `${head}${table}${tail}`,
  )
  if (process.env.UPDATE === '1') writeFileSync(PAGE, updated)
  else expect(page).toBe(updated)
})
