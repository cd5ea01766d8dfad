import { afterAll, beforeAll, expect } from 'bun:test'
import { countTokens } from 'gpt-tokenizer/encoding/o200k_base'
import type { ConversationName } from '../../src/generation/request.ts'
import { completionTokens, promptTokens } from '../../src/generation/usage.ts'
import type { Store } from '../../src/store/store.ts'
import type { GenerationRecord } from '../../src/store/store.ts'
import { startGatewayProcess, type GatewayProcess } from '../server.ts'
import type { RawServer } from '../transport/raw-server.ts'
import { PROTOCOLS } from './asking.ts'
import { COUNTED, RESPONSE_PIECES, scriptedProvider, TEXT, type Script } from './scripted.ts'
import { ON_POSTGRES, storeOf } from '../stores.ts'

/**
 * The record and the cost of a generation for each outcome, in all four protocols, passed through and translated,
 * streamed and not.
 */

export const PROVIDER: Record<ConversationName, string> = {
  'chat.completions': 'up-chat',
  responses: 'up-responses',
  messages: 'up-messages',
  generateContent: 'up-google',
}
/** The protocol to which each client protocol is translated. */
export const OTHER: Record<ConversationName, ConversationName> = {
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
export const bill = ({ prompt, completion }: typeof COUNTED): bigint => BigInt(prompt * 1000 + completion * 2000)

const priced = (...endpoints: [ConversationName, Script][]): object => ({
  endpoints: endpoints.map(([protocol, model]) => ({ provider: PROVIDER[protocol], model })),
  price: PRICE,
})

export const configFor = (provider: RawServer, more: object = {}): string =>
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

export type Way = { client: ConversationName; provider: ConversationName; stream: boolean }
const ALL_WAYS: Way[] = PROTOCOLS.flatMap((client) =>
  [client, OTHER[client]].flatMap((provider) => [true, false].map((stream) => ({ client, provider, stream }))),
)
/** The store gets the same from all ways: over PostgreSQL each client has one, and all four are different. */
export const WAYS = ON_POSTGRES ? ALL_WAYS.filter((_, index) => index % (PROTOCOLS.length + 1) === 0) : ALL_WAYS
export const named = ({ client, provider, stream }: Way): string =>
  `${client}${client === provider ? '' : ` over ${provider}`}${stream ? ', streamed' : ''}`
export const ways: [string, Way][] = WAYS.map((way) => [named(way), way])
export const streamedWays = ways.filter(([, { stream }]) => stream)

export function ask(
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

export const modelOf = ({ provider }: Way, script: Script): string => `${PROVIDER[provider]}/${script}`

/** The input as Sluice counts it: its text and four tokens for the turn. */
export const INPUT = countTokens('Hello') + 4
export const RECEIVED = countTokens(TEXT)
export const NOTHING = { prompt: 0, completion: 0 }

/** The usage of a stream that broke off: as far as the provider had reported it, the rest as Sluice counts it. */
export const receivedUsage = ({ provider }: Way, completion = RECEIVED): typeof COUNTED => ({
  prompt: RESPONSE_PIECES[provider].early?.prompt ?? INPUT,
  completion,
})

/** The usage reported in a response or stream of any protocol; of several reports the last value of each field. */
export function reportedUsage(text: string, { client }: Way): typeof COUNTED | undefined {
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

export type Expected = { ending: string; usage: typeof COUNTED; estimated: boolean }

export function expectEnding(record: GenerationRecord, way: Way, { ending, usage, estimated }: Expected): void {
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

export const recordOf = (records: GenerationRecord[], way: Way, script: Script): GenerationRecord =>
  records.find(
    (record) => record.api === way.client && record.streamed === way.stream && record.model === modelOf(way, script),
  )!

/** Asserts one record, its bill and the debit of the account, and that no reservation remains. */
export async function expectRecord(
  books: Books,
  before: bigint,
  way: Way,
  expected: Expected,
): Promise<GenerationRecord> {
  const [record, ...others] = await books.fresh(1)
  expect(others).toEqual([])
  expectEnding(record!, way, expected)
  expect(before - (await books.balance())).toBe(record!.bill)
  expect(record!.held).toBeGreaterThanOrEqual(bill({ prompt: 0, completion: 1000 }))
  await books.expectNothingHeld()
  return record!
}

export let provider: RawServer

/** Starts the provider for the tests of a file. */
export function useProvider(): void {
  beforeAll(() => {
    provider = scriptedProvider()
  })
  afterAll(() => provider.stop())
}

/** One gateway for the tests of a block. */
export function withGateway(more: object = {}): { gateway: GatewayProcess; books: Books } {
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

export async function readUntil(response: Response, seen: string): Promise<void> {
  const reader = response.body!.getReader()
  const decoder = new TextDecoder()
  for (let text = ''; !text.includes(seen); ) {
    const { done, value } = await reader.read()
    if (done) throw new Error(`ended before ${seen}: ${text}`)
    text += decoder.decode(value, { stream: true })
  }
}
