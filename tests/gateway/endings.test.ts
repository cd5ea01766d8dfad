import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { countTokens } from 'gpt-tokenizer/encoding/o200k_base'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { ConversationName } from '../../src/generation/request.ts'
import { completionTokens, promptTokens } from '../../src/generation/usage.ts'
import { readProgress } from '../../src/ledger/open-generation.ts'
import type { Store } from '../../src/store/store.ts'
import type { GenerationRecord } from '../../src/store/store.ts'
import { expectBookRight } from '../audit.ts'
import { startGatewayProcess, type GatewayProcess } from '../server.ts'
import { until, type RawServer } from '../transport/raw-server.ts'
import { COUNTED, scriptedProvider, TALKS, TEXT, type Script } from './scripted.ts'
import { ON_POSTGRES, storeIn, storeOf } from '../stores.ts'

/**
 * The record and the cost of a generation for each outcome, in all four protocols, passed through and translated,
 * streamed and not.
 */

const PROTOCOLS = Object.keys(TALKS) as ConversationName[]
const PROVIDER: Record<ConversationName, string> = {
  'chat.completions': 'up-chat',
  responses: 'up-responses',
  messages: 'up-messages',
  generateContent: 'up-google',
}
/** The protocol to which each client protocol is translated. */
const OTHER: Record<ConversationName, ConversationName> = {
  'chat.completions': 'messages',
  messages: 'generateContent',
  generateContent: 'responses',
  responses: 'chat.completions',
}

const SCRIPTS: Script[] = [
  'metered',
  'unmetered',
  'in-one-piece',
  'impossible',
  'counts-twice',
  'goes-on',
  'silent',
  'silent-after-head',
  'silent-midway',
  'silent-at-last',
  'resets',
  'resets-midway',
  'half',
  'fails',
  'garbage',
  'refuses-400',
  'refuses-429',
  'refuses-500',
]
/** USD per million tokens, and the same in nano-USD a token. */
const PRICE = { prompt: 1, completion: 2 }
const bill = ({ prompt, completion }: typeof COUNTED): bigint => BigInt(prompt * 1000 + completion * 2000)

const priced = (...endpoints: [ConversationName, Script][]): object => ({
  endpoints: endpoints.map(([protocol, model]) => ({ provider: PROVIDER[protocol], model })),
  price: PRICE,
})

const configFor = (provider: RawServer, more: object = {}): string =>
  Object.entries({
    limits: { requestsPerMinute: 1_000_000 },
    billing: { unpriced: 'refuse', startingCredit: 1 },
    // No test may change the status of an account.
    accountStatus: { refusals: { monitored: 1_000_000, abusive: 1_000_000 } },
    providers: Object.fromEntries(
      PROTOCOLS.map((protocol) => [
        PROVIDER[protocol],
        { protocol, baseUrl: `${provider.url}/v1`, apiKey: 'none', unlisted: true },
      ]),
    ),
    models: Object.fromEntries([
      ...PROTOCOLS.flatMap((protocol) =>
        SCRIPTS.map((script) => [`${PROVIDER[protocol]}/${script}`, priced([protocol, script])]),
      ),
      ...PROTOCOLS.map((protocol) => [
        `second-try/${protocol}`,
        priced([protocol, 'refuses-500'], [protocol, 'resets'], [OTHER[protocol], 'metered']),
      ]),
    ]),
    ...more,
  })
    .map(([setting, value]) => `${setting}: ${JSON.stringify(value)}\n`)
    .join('')

type Way = { client: ConversationName; provider: ConversationName; stream: boolean }
const ALL_WAYS: Way[] = PROTOCOLS.flatMap((client) =>
  [client, OTHER[client]].flatMap((provider) => [true, false].map((stream) => ({ client, provider, stream }))),
)
/** The store gets the same from all ways: over PostgreSQL each client has one, and all four are different. */
const WAYS = ON_POSTGRES ? ALL_WAYS.filter((_, index) => index % (PROTOCOLS.length + 1) === 0) : ALL_WAYS
const named = ({ client, provider, stream }: Way): string =>
  `${client}${client === provider ? '' : ` over ${provider}`}${stream ? ', streamed' : ''}`
const ways: [string, Way][] = WAYS.map((way) => [named(way), way])
const streamedWays = ways.filter(([, { stream }]) => stream)

function ask(
  gateway: GatewayProcess,
  { client, stream }: Way,
  model: string,
  signal?: AbortSignal,
  limit = 1000,
  headers: object = {},
): Promise<Response> {
  const messages = [{ role: 'user', content: 'Hello' }]
  const [path, body] = {
    'chat.completions': [
      '/v1/chat/completions',
      { model, stream, max_tokens: limit, messages, ...(stream ? { stream_options: { include_usage: true } } : {}) },
    ],
    responses: ['/v1/responses', { model, stream, max_output_tokens: limit, input: 'Hello', store: false }],
    messages: ['/v1/messages', { model, stream, max_tokens: limit, messages }],
    generateContent: [
      `/v1beta/models/${model}:${stream ? 'streamGenerateContent?alt=sse' : 'generateContent'}`,
      { contents: [{ role: 'user', parts: [{ text: 'Hello' }] }], generationConfig: { maxOutputTokens: limit } },
    ],
  }[client] as [string, object]
  return fetch(gateway.url + path, {
    method: 'POST',
    headers: { authorization: `Bearer ${gateway.key}`, ...headers },
    body: JSON.stringify(body),
    ...(signal === undefined ? {} : { signal }),
  })
}

const modelOf = ({ provider }: Way, script: Script): string => `${PROVIDER[provider]}/${script}`

/** The input as Sluice counts it: its text and four tokens for the turn. */
const INPUT = countTokens('Hello') + 4
const RECEIVED = countTokens(TEXT)
const NOTHING = { prompt: 0, completion: 0 }

/** The usage of a stream that broke off: as far as the provider had reported it, the rest as Sluice counts it. */
const receivedUsage = ({ provider }: Way, completion = RECEIVED): typeof COUNTED => ({
  prompt: TALKS[provider].early?.prompt ?? INPUT,
  completion,
})

/** The usage reported in a response or stream of any protocol; of several reports the last value of each field. */
function reportedUsage(text: string, { client }: Way): typeof COUNTED | undefined {
  const datas = text.startsWith('{')
    ? [JSON.parse(text)]
    : [...text.matchAll(/^data: (\{.*)$/gm)].map(([, data]) => JSON.parse(data!))
  const reported = datas
    .map((data) => data.usageMetadata ?? data.response?.usage ?? data.message?.usage ?? data.usage ?? undefined)
    .filter((one) => one !== undefined)
  if (reported.length === 0) return undefined
  const usage = Object.assign({}, ...reported)
  switch (client) {
    case 'chat.completions':
      return { prompt: usage.prompt_tokens, completion: usage.completion_tokens }
    case 'generateContent':
      return { prompt: usage.promptTokenCount, completion: usage.candidatesTokenCount }
    default:
      return { prompt: usage.input_tokens, completion: usage.output_tokens }
  }
}

/** The records and balances in the data folder of a running gateway. */
class Books {
  readonly #gateway: GatewayProcess
  readonly #store: Store
  #last: string | undefined

  constructor(gateway: GatewayProcess, store: Store) {
    this.#gateway = gateway
    this.#store = store
  }

  /** The records that were written since the last call. */
  async fresh(count: number): Promise<GenerationRecord[]> {
    let found: GenerationRecord[] = []
    const deadline = performance.now() + 30_000
    while (
      (found = await this.#store.ledger.generations(this.#last, 1000)).length < count &&
      performance.now() < deadline
    )
      await Bun.sleep(5)
    this.#last = found.at(-1)?.id ?? this.#last
    return found
  }

  async balance(): Promise<bigint> {
    const { balances } = await this.#store.ledger.state()
    return balances
      .filter(({ kind }) => kind === 'credit' || kind === 'bonus')
      .reduce((sum, { balance }) => sum + balance, 0n)
  }

  /** Asserts that nothing is reserved: a request that needs the whole balance is admitted. */
  async expectNothingHeld(): Promise<void> {
    const most = async (tokens: bigint): Promise<number> => {
      const response = await ask(
        this.#gateway,
        { client: 'chat.completions', provider: 'chat.completions', stream: true },
        'up-chat/metered',
        undefined,
        Number(tokens),
        // The output of a stream whose client accepts no loss is held whole.
        { 'x-sluice-strict': 'true' },
      )
      await response.text()
      return response.status
    }
    // An output token costs 2000 nano-USD; for the input one token per two bytes of the body is reserved.
    const whole = (await this.balance()) / 2000n
    expect(await most(whole)).toBe(402)
    expect(await most(whole - 100n)).toBe(200)
    await this.fresh(1)
  }

  close(): Promise<void> {
    return this.#store.close()
  }
}

type Expected = { ending: string; usage: typeof COUNTED; estimated: boolean }

function expectEnding(record: GenerationRecord, way: Way, { ending, usage, estimated }: Expected): void {
  expect({
    way: named(way),
    ending: record.ending,
    prompt: promptTokens(record.usage),
    completion: completionTokens(record.usage),
    estimated: record.estimated,
    bill: record.bill,
  }).toEqual({ way: named(way), ending, ...usage, estimated, bill: bill(usage) })
  expect([record.api, record.streamed, record.kind]).toEqual([way.client, way.stream, 'pay-as-you-go'])
}

const recordOf = (records: GenerationRecord[], way: Way, script: Script): GenerationRecord =>
  records.find(
    (record) => record.api === way.client && record.streamed === way.stream && record.model === modelOf(way, script),
  )!

/** Asserts one record, its bill and the debit of the account, and that no reservation remains. */
async function expectRecord(books: Books, before: bigint, way: Way, expected: Expected): Promise<GenerationRecord> {
  const [record, ...others] = await books.fresh(1)
  expect(others).toEqual([])
  expectEnding(record!, way, expected)
  expect(before - (await books.balance())).toBe(record!.bill)
  expect(record!.held).toBeGreaterThanOrEqual(bill({ prompt: 0, completion: 1000 }))
  await books.expectNothingHeld()
  return record!
}

let provider: RawServer
beforeAll(() => {
  provider = scriptedProvider()
})
afterAll(() => provider.stop())

/** One gateway for the tests of a block. */
function withGateway(more: object = {}): { gateway: GatewayProcess; books: Books } {
  const here = {} as { gateway: GatewayProcess; books: Books }
  beforeAll(async () => {
    here.gateway = await startGatewayProcess({ config: configFor(provider, more) })
    here.books = new Books(here.gateway, await storeOf(here.gateway))
  })
  afterAll(async () => {
    await here.books?.close()
    await here.gateway?.stop()
  })
  return here
}

describe('completed generations', () => {
  const here = withGateway()

  async function completes(way: Way, script: Script, usage: typeof COUNTED, estimated: boolean): Promise<void> {
    const before = await here.books.balance()
    const response = await ask(here.gateway, way, modelOf(way, script))
    const text = await response.text()
    expect(response.status, text).toBe(200)
    const record = await expectRecord(here.books, before, way, { ending: 'completed', usage, estimated })
    expect(reportedUsage(text, way)).toEqual(usage)
    expect([record.finish, record.retries, record.attempts, record.provider]).toEqual([
      'stop',
      0,
      null,
      PROVIDER[way.provider],
    ])
  }

  test.each(ways)('a completed generation is charged as reported: %s', (_, way) =>
    completes(way, 'metered', COUNTED, false),
  )
  test.each(ways)('usage is estimated and marked when the provider reports none: %s', (_, way) =>
    completes(way, 'unmetered', { prompt: INPUT, completion: RECEIVED }, true),
  )
  test.each(streamedWays)('usage is estimated and marked when the response came in one piece: %s', (_, way) =>
    completes(way, 'in-one-piece', { prompt: INPUT, completion: RECEIVED }, true),
  )
  test.each(ways)('usage is estimated and marked when the reported usage is impossible: %s', (_, way) =>
    completes(way, 'impossible', { prompt: INPUT, completion: RECEIVED }, true),
  )
  test.each(streamedWays)('the last of several reported usages is charged: %s', (_, way) =>
    completes(way, 'counts-twice', COUNTED, false),
  )
  // Google's streams have no terminal frame, so nothing can follow it.
  test.each(streamedWays.filter(([, way]) => way.provider !== 'generateContent'))(
    'without what comes behind the end: %s',
    (_, way) => completes(way, 'goes-on', COUNTED, false),
  )

  test.each(ways)('a generation that succeeds on the third attempt is charged once: %s', async (_, way) => {
    const before = await here.books.balance()
    expect(await (await ask(here.gateway, way, `second-try/${way.client}`)).text()).toContain('three')
    const record = await expectRecord(here.books, before, way, {
      ending: 'completed',
      usage: COUNTED,
      estimated: false,
    })
    expect(record).toMatchObject({ retries: 2, provider: PROVIDER[OTHER[way.client]] })
    const times = { startedMs: expect.any(Number), milliseconds: expect.any(Number), model: expect.any(String) }
    const failed = { ...times, provider: PROVIDER[way.client], protocol: way.client, error: 'upstream_error' }
    expect(JSON.parse(record.attempts!)).toMatchObject([
      failed,
      failed,
      { ...times, provider: PROVIDER[OTHER[way.client]], protocol: OTHER[way.client] },
    ])
  })

  test('the book balances afterwards', () => expectBookRight(here.gateway.data))
})

describe('failed generations', () => {
  const here = withGateway()

  async function fails(way: Way, script: Script, expected: Omit<Expected, 'ending'>): Promise<GenerationRecord> {
    const before = await here.books.balance()
    await (await ask(here.gateway, way, modelOf(way, script))).text()
    return expectRecord(here.books, before, way, { ending: 'failed', ...expected })
  }

  for (const script of ['resets', 'refuses-400', 'refuses-429', 'refuses-500'] as const) {
    test.each(ways)(`a provider that fails with ${script} fails the generation: %s`, async (_, way) => {
      const record = await fails(way, script, { usage: NOTHING, estimated: false })
      const attempts = JSON.parse(record.attempts!) as { error: string }[]
      expect([record.finish, record.retries]).toEqual(['failed', attempts.length - 1])
      // Until its breaker opens, the only endpoint is tried again, unless the request is at fault.
      const most = script === 'resets' || script === 'refuses-500' ? 4 : 1
      expect(attempts.length).toBeWithin(1, most + 1)
      expect(new Set(attempts.map(({ error }) => error)).size).toBe(1)
    })
  }
  test.each(ways)(
    'a provider that sends garbage fails the generation: %s',
    async (_, way) => void (await fails(way, 'garbage', { usage: NOTHING, estimated: false })),
  )
  for (const script of ['resets-midway', 'half', 'fails'] as const) {
    test.each(ways)(
      `a provider that fails with ${script} fails the generation: %s`,
      async (_, way) =>
        void (await fails(
          way,
          script,
          way.stream ? { usage: receivedUsage(way), estimated: true } : { usage: NOTHING, estimated: false },
        )),
    )
  }

  test('the book balances afterwards', () => expectBookRight(here.gateway.data))
})

describe('timed-out generations', () => {
  const here = withGateway({ timeouts: { firstByte: '250ms', idle: '250ms' } })

  // Concurrently, because each takes as long as its timeout.
  async function timeOut(script: Script, ways: Way[], expected: (way: Way) => Omit<Expected, 'ending'>): Promise<void> {
    const before = await here.books.balance()
    await Promise.all(ways.map(async (way) => (await ask(here.gateway, way, modelOf(way, script))).text()))
    const records = await here.books.fresh(ways.length)
    expect(records.length).toBe(ways.length)
    for (const way of ways) expectEnding(recordOf(records, way, script), way, { ending: 'timed-out', ...expected(way) })
    expect(before - (await here.books.balance())).toBe(records.reduce((sum, record) => sum + record.bill, 0n))
    await here.books.expectNothingHeld()
  }

  const nothing = (): Omit<Expected, 'ending'> => ({ usage: NOTHING, estimated: false })
  test('a timeout before the response head is recorded and costs nothing', () => timeOut('silent', WAYS, nothing))
  test('a timeout after the response head is recorded', () => timeOut('silent-after-head', WAYS, nothing))
  test('a timeout in mid-stream is recorded', () =>
    timeOut('silent-midway', WAYS, (way) => (way.stream ? { usage: receivedUsage(way), estimated: true } : nothing())))

  test('the book balances afterwards', () => expectBookRight(here.gateway.data))
})

describe('generations whose client left, with a provider that is cancelled then', () => {
  const here = withGateway({ timeouts: { clientLeft: '0s' } })

  /** Leaves when the provider was called and, if a text is given, when that text was received. */
  async function leaves(
    way: Way,
    script: Script,
    seen: string | undefined,
    expected: Omit<Expected, 'ending'>,
  ): Promise<void> {
    const before = await here.books.balance()
    const begun = performance.now()
    const requests = provider.requests.length
    const leave = new AbortController()
    const answer = ask(here.gateway, way, modelOf(way, script), leave.signal)
    void answer.catch(() => {})
    await until(() => provider.requests.length > requests)
    if (seen !== undefined) await readUntil(await answer, seen)
    leave.abort()
    const [record, ...others] = await here.books.fresh(1)
    expect(others).toEqual([])
    // The output of an answer in one piece is estimated by its time, at 50 tokens a second.
    const completion = way.stream ? expected.usage.completion : record!.usage.outputTokens
    expectEnding(record!, way, { ending: 'client-left', ...expected, usage: { ...expected.usage, completion } })
    expect(completion * 20).toBeLessThanOrEqual(performance.now() - begun + 20 + expected.usage.completion * 20)
    expect(before - (await here.books.balance())).toBe(record!.bill)
    await here.books.expectNothingHeld()
  }

  test.each(ways)('a client that leaves before the response head is recorded: %s', (_, way) =>
    leaves(way, 'silent', undefined, { usage: { prompt: INPUT, completion: 0 }, estimated: true }),
  )
  test.each(streamedWays)('a client that leaves after the response head is recorded: %s', (_, way) =>
    leaves(way, 'silent-after-head', undefined, { usage: { prompt: INPUT, completion: 0 }, estimated: true }),
  )
  test.each(ways.filter(([, { stream }]) => !stream))(
    'a client that leaves in mid-response is recorded: %s',
    (_, way) => leaves(way, 'silent-midway', undefined, { usage: { prompt: INPUT, completion: 0 }, estimated: true }),
  )
  test.each(streamedWays)('a client that leaves in mid-stream is recorded: %s', (_, way) =>
    leaves(way, 'silent-midway', 'three', { usage: receivedUsage(way), estimated: true }),
  )
  // The provider has reported its usage, but not the end that makes it final.
  test.each(streamedWays)('a client that leaves before the last frame is recorded: %s', (_, way) =>
    leaves(way, 'silent-at-last', 'three', {
      usage: receivedUsage(way, TALKS[way.provider].early === undefined ? RECEIVED : COUNTED.completion),
      estimated: true,
    }),
  )

  test('the book balances afterwards', () => expectBookRight(here.gateway.data))
})

async function readUntil(response: Response, seen: string): Promise<void> {
  const reader = response.body!.getReader()
  const decoder = new TextDecoder()
  for (let text = ''; !text.includes(seen); ) {
    const { done, value } = await reader.read()
    if (done) throw new Error(`ended before ${seen}: ${text}`)
    text += decoder.decode(value, { stream: true })
  }
}

/**
 * All cases concurrently, each stopped when its provider goes silent. Returns the records after `stop` has ended the
 * gateway.
 */
async function stopped(
  stop: (gateway: GatewayProcess) => Promise<GatewayProcess | void>,
): Promise<{ record: GenerationRecord; way: Way; midway: boolean }[]> {
  const data = mkdtempSync(join(tmpdir(), 'sluice-test-'))
  const gateway = await startGatewayProcess({ data, config: configFor(provider, { timeouts: { drain: '100ms' } }) })
  try {
    const before = provider.requests.length
    const all = WAYS.flatMap((way) =>
      (['silent', 'silent-midway'] as const).map((script) => ({
        way,
        script,
        answer: ask(gateway, way, modelOf(way, script)),
      })),
    )
    await until(() => provider.requests.length === before + all.length)
    await Promise.all(
      all.map(async ({ way, script, answer }) => {
        if (way.stream && script === 'silent-midway') await readUntil(await answer, 'three')
        else void answer.then((response) => response.text()).catch(() => {})
      }),
    )
    const after = await stop(gateway)
    const store = await storeIn(data)
    const records = await store.ledger.generations(undefined, 1000)
    await store.close()
    await expectBookRight(data)
    await after?.stop()
    expect(records.length).toBe(all.length)
    return all.map(({ way, script }) => ({
      way,
      midway: way.stream && script === 'silent-midway',
      record: recordOf(records, way, script),
    }))
  } finally {
    await gateway.stop()
    rmSync(data, { recursive: true, force: true })
  }
}

/** Resolves when all are stored as open, and those whose response has begun with all that was received. */
async function allStored({ data }: GatewayProcess): Promise<void> {
  type Stored = { ask: { model: string; streamed: boolean }; heard: { text: number } }
  const store = await storeIn(data)
  const isWhole = (id: string, state: string): boolean => {
    const { ask, heard } = JSON.parse(state) as Stored
    if (!ask.streamed || !ask.model.endsWith('/silent-midway')) return true
    return Math.max(heard.text, readProgress(store.progress.read()).get(id)?.[2] ?? 0) === TEXT.length
  }
  for (;;) {
    const open = await store.ledger.openGenerations()
    if (open.length === 2 * WAYS.length && open.every(({ id, state }) => isWhole(id, state))) break
    await Bun.sleep(20)
  }
  await store.close()
}

describe('the end of the server', () => {
  test('a generation that outlasts the drain is recorded as shutdown', async () => {
    const ended = await stopped(async (gateway) => {
      gateway.kill('SIGTERM')
      expect(await gateway.exited).toBe(0)
    })
    for (const { record, way, midway } of ended) {
      expectEnding(record, way, { ending: 'shutdown', usage: midway ? receivedUsage(way) : NOTHING, estimated: midway })
    }
  }, 20_000)

  test('a generation found open at the next start is recorded as crashed', async () => {
    const ended = await stopped(async (gateway) => {
      await allStored(gateway)
      gateway.kill('SIGKILL')
      await gateway.exited
      return startGatewayProcess({ data: gateway.data, config: configFor(provider) })
    })
    for (const { record, way, midway } of ended) {
      expect([named(way), record.ending, record.estimated]).toEqual([named(way), 'crashed', midway])
      if (!midway) expect([promptTokens(record.usage), completionTokens(record.usage), record.bill]).toEqual([0, 0, 0n])
      // Only lengths are stored, so its tokens are an upper bound and not a count.
      else
        expect([record.bill > 0n, record.bill <= record.held, completionTokens(record.usage)]).toEqual([
          true,
          true,
          Math.ceil(TEXT.length / 4),
        ])
    }
  }, 20_000)
})
