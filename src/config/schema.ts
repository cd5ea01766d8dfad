import { boolean, duration, list, map, number, object, oneOf, size, string, name, type Shape } from './shape.ts'
import { FEE_ITEMS, isCounted, KEY_KINDS, LIMIT_PERIODS, type FeeItem, type QuotaWindowName } from './terms.ts'
import {
  EFFORTS,
  MODALITIES,
  QUIRK_VALUES,
  type Capabilities,
  type Modality,
  type Quirks,
  type Api,
} from '../protocols/protocol.ts'

/** The names that `protocol:` takes. */
export const PROTOCOL_NAMES: readonly Api[] = [
  'chat.completions',
  'responses',
  'messages',
  'generateContent',
  'images',
  'predictions',
]

/** How a provider wants its key: the header it travels in. */
export const AUTHS = ['bearer', 'x-api-key', 'x-goog-api-key', 'api-key', 'none'] as const
export type Auth = (typeof AUTHS)[number]

/** Highest rates in USD. With the most that usage can say, no bill passes the 64-bit integers of the database. */
export const MOST_USD = { perMillionTokens: 1_000, perOne: 100 }

/**
 * USD per million tokens or per one: a number, or a base and what holds for the whole request when its prompt has more
 * tokens than `over`.
 */
export type RateText = number | [number, ...{ over: number; rate: number }[]]
export type PriceText = Partial<Record<FeeItem, RateText>>

export const PROVIDER_ID = /^[a-z0-9][a-z0-9._-]*$/
const MODEL_TEXT = /^[A-Za-z0-9._:@/+-]{1,256}$/

/**
 * What is wrong with a model name, or undefined. Segments that a URL would resolve are refused because the name becomes
 * part of a path.
 */
export const wrongModelText = (text: string): string | undefined =>
  !MODEL_TEXT.test(text)
    ? 'must be 1 to 256 characters of A-Z a-z 0-9 . _ : @ / + -'
    : text.split('/').some((segment) => segment === '' || segment === '.' || segment === '..')
      ? "must not hold empty, '.' or '..' segments"
      : undefined

/** What is wrong with a pattern of model names, or undefined. */
export const wrongModelPattern = (text: string): string | undefined =>
  /^[A-Za-z0-9._:@/+*-]{1,256}$/.test(text) ? undefined : "must be a model's name, in which * stands for any text"

/** What is wrong with an account's name, or undefined. */
export const wrongAccountName = (text: string): string | undefined =>
  text.startsWith('acct_')
    ? "must not begin with acct_, as an account's id does"
    : /^[A-Za-z0-9][A-Za-z0-9._@+-]{0,99}$/.test(text)
      ? undefined
      : 'must be 1 to 100 characters of A-Z a-z 0-9 . _ @ + -, beginning with a letter or digit'

/** What is wrong with a base URL, or undefined. */
export const wrongBaseUrl = (text: string): string | undefined => {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url === undefined || (url.protocol !== 'http:' && url.protocol !== 'https:'))
    return 'must be an http:// or https:// URL'
  if (url.username !== '' || url.password !== '') return 'must not hold a user name or password: use apiKey or headers'
  return url.search !== '' || url.hash !== '' ? 'must end with the path, without ? and #' : undefined
}

/** Headers that frame the message itself: another value would break or smuggle requests. */
const FRAMING_HEADERS = new Set([
  'host',
  'connection',
  'content-length',
  'transfer-encoding',
  'te',
  'trailer',
  'upgrade',
  'keep-alive',
  'expect',
  'accept-encoding',
  'content-encoding',
  'content-type',
])

const secret = (what: string, description: string): Shape<string> =>
  string({
    what,
    description,
    check: (text) => (/^[\x21-\x7e]*$/.test(text) ? undefined : 'must be printable ASCII without spaces'),
  })

const modelText = (what: string, description: string): Shape<string> =>
  string({ what, description, check: wrongModelText })

const providerName = (description: string): Shape<string> =>
  string({ what: 'the id of a provider', pattern: PROVIDER_ID, description })

const TOKENS = { min: 1, max: 100_000_000, whole: true }

const words = <T extends string>(known: readonly T[], rule: Parameters<typeof list>[1]): Shape<T[]> => {
  const kinds = list(name(known), rule)
  return { schema: kinds.schema, read: (place) => kinds.read(place)?.map(({ value }) => value) }
}

const modalities = (description: string): Shape<Modality[]> =>
  words(MODALITIES, { what: 'kinds of content', min: 1, description })

const capabilities = object(
  {
    api: name<NonNullable<Capabilities['api']>>(
      ['images', 'predictions'],
      'What else than a conversation the model is asked by',
    ),
    input: modalities('Kinds of content that the model reads'),
    output: modalities('Kinds of content that the model makes'),
    tools: boolean('Whether the model calls tools'),
    structuredOutput: boolean('Whether the model keeps to a JSON schema'),
    maxOutputTokens: number({ ...TOKENS, description: 'Most tokens the model generates in one answer' }),
    reasoning: name<NonNullable<Capabilities['reasoning']>>(
      ['effort', 'budget', 'adaptive', 'level', 'none'],
      'How depth of reasoning is asked for',
    ),
    efforts: words(EFFORTS, {
      what: 'depths of reasoning',
      description: 'Depths of reasoning that can be asked for; none among them: it can be switched off',
    }),
    budget: object(
      {
        min: number({ ...TOKENS, min: 0 }),
        max: number(TOKENS),
        off: boolean('0 switches reasoning off, though it lies below min'),
      },
      { required: ['min', 'max'], description: 'Smallest and largest reasoning budget in tokens' },
    ),
    sampling: oneOf<boolean | 'idle' | 'either'>(
      [true, false, 'idle', 'either'],
      'Whether temperature, top_p and the like are taken; idle: only while the model does not reason; either: a temperature or top_p, not both',
    ),
    penalties: boolean('false: presence and frequency penalties are refused'),
    stops: number({ min: 0, max: 1_000, whole: true, description: 'Most stop sequences' }),
    forcedTools: oneOf<boolean | 'idle'>(
      [true, false, 'idle'],
      'Whether a call can be forced; idle: only while the model does not reason',
    ),
    parallelTools: boolean('chat completions: false: parallel_tool_calls is refused'),
    formats: words(['json_object', 'json_schema'], {
      what: 'formats',
      description: 'chat completions: formats in which an answer can be asked for',
    }),
    system: boolean('false: instructions are refused'),
    base64Only: boolean('images: answers in base64 alone and refuses response_format'),
    systemTurns: boolean('messages: instructions in the middle of a conversation are taken'),
    prefill: boolean('messages: false: the beginning of an answer is refused'),
    cacheBreakpoints: name<NonNullable<Capabilities['cacheBreakpoints']>>(
      ['cache_control', 'prompt_cache_breakpoint'],
      'How the end of a prefix to be cached is marked',
    ),
  } satisfies { [Name in keyof Capabilities]-?: Shape<unknown> },
  { description: 'What the model can do; adds to what the catalogue knows' },
)

/** A kind of content that stands in a request by its address. */
export type MediaKind = Exclude<Modality, 'text'>

const quirks = object(
  Object.fromEntries(
    Object.entries(QUIRK_VALUES).map(([name, values]) => [
      name,
      name === 'refuses' ? words(QUIRK_VALUES.refuses, { what: 'names of fields' }) : oneOf<string | boolean>(values),
    ]),
  ),
  { description: "How the provider differs from its protocol's document" },
) as Shape<Quirks>

const provider = object({
  enabled: boolean('false switches a built-in provider off'),
  name: string({ what: 'a name for people', description: 'Name for people' }),
  protocol: name(PROTOCOL_NAMES, 'The protocol the provider speaks'),
  baseUrl: string({
    what: 'an http:// or https:// URL',
    description: 'Everything before /chat/completions, /responses, /messages or /models/{model}:...',
    check: wrongBaseUrl,
  }),
  apiKey: secret("the provider's key", 'Key sent to the provider; empty: none is sent'),
  auth: name(AUTHS, 'The header the key travels in; by default the one of the protocol'),
  headers: map(
    string({
      what: 'the value of a header',
      check: (text) => (/^[\t\x20-\x7e]*$/.test(text) ? undefined : 'must be printable ASCII'),
    }),
    {
      pattern: /^[A-Za-z0-9!#$%&'*+.^_`|~-]+$/,
      what: 'the name of a header',
      description: 'Headers sent with every request to the provider',
      check: (name) => (FRAMING_HEADERS.has(name.toLowerCase()) ? 'is set by Sluice itself' : undefined),
    },
  ),
  unlisted: boolean('<provider>/<any name> is sent to it as <any name>'),
  fetches: words<MediaKind>(['image', 'audio', 'video', 'file'], {
    what: 'kinds of media',
    description: 'Kinds of media whose URLs the provider opens itself: they are passed on to it',
  }),
  sharedIds: boolean(
    'true: every account may name what the provider keeps under its key, such as vector stores, stored prompts, cached contents and containers',
  ),
  quirks,
})

const endpoint = object(
  {
    provider: providerName('Id of a provider, built in or of this file'),
    model: modelText("the provider's own name of the model", "The provider's own name of the model"),
    protocol: name(PROTOCOL_NAMES, 'Speak this one, where the provider speaks several'),
  },
  { required: ['provider', 'model'] },
)

const perUnit = (max: number): Shape<number> => number({ min: 0, max, decimals: 9 })
const tier = object(
  {
    over: number({ ...TOKENS, description: 'Prompt tokens above which the rate holds' }),
    rate: perUnit(MOST_USD.perMillionTokens),
  },
  { required: ['over', 'rate'] },
)

/** `1.25`, or `[1.25, { over: 200000, rate: 2.5 }]`. */
const tieredRate: Shape<RateText> = {
  schema: {
    anyOf: [
      perUnit(MOST_USD.perMillionTokens).schema,
      { type: 'array', items: { anyOf: [perUnit(MOST_USD.perMillionTokens).schema, tier.schema] }, minItems: 1 },
    ],
  },
  read(place) {
    if (place.kind !== 'a list') return perUnit(MOST_USD.perMillionTokens).read(place)
    const [first, ...rest] = [...place.elements()]
    const base =
      first === undefined
        ? place.fail('must begin with a number, USD per million tokens')
        : perUnit(MOST_USD.perMillionTokens).read(first)
    const tiers = rest.map((element) => tier.read(element))
    if (base === undefined || !tiers.every((read) => read?.over !== undefined && read.rate !== undefined))
      return undefined
    const read = tiers as { over: number; rate: number }[]
    if (read.some(({ over }, index) => index > 0 && over <= read[index - 1]!.over))
      return place.fail('must have its tiers in ascending order of over')
    return [base, ...read.map(({ over, rate }) => ({ over, rate }))]
  },
}

const price = object(
  Object.fromEntries(
    FEE_ITEMS.map((item) => [item, isCounted(item) ? perUnit(MOST_USD.perOne) : tieredRate]),
  ) as Record<FeeItem, Shape<RateText>>,
  { description: 'USD per million tokens; web_search, image and request: USD each' },
)

const model = object(
  {
    name: string({ what: 'a name for people', description: 'Name for people' }),
    endpoints: list(endpoint, { what: 'endpoints', min: 1, description: 'Where the model is, in the order of trying' }),
    price,
    capabilities,
    contextLength: number({ ...TOKENS, description: 'Tokens the model can read and write together' }),
  },
  { required: ['endpoints'] },
)

const FLOWS = { min: 0, max: 1_000_000_000, decimals: 4 }

const plan = object({
  usdPerMonth: number({ min: 0, max: 1_000_000, description: 'Price of a month in USD' }),
  flows: object(
    {
      '5_hour': number({ ...FLOWS, description: 'Flows in five hours' }),
      '7_day': number({ ...FLOWS, description: 'Flows in seven days' }),
      monthly: number({ ...FLOWS, description: 'Flows in a month of the subscription' }),
    } satisfies Record<QuotaWindowName, Shape<number>>,
    { description: 'Most flows that may be used in each window' },
  ),
  discount: number({ min: 0, max: 100, decimals: 2, description: 'Percent off pay-as-you-go bills' }),
})

const requestsPerMinute = number({
  min: 1,
  max: 1_000_000,
  whole: true,
  description: 'Requests per minute, per key and endpoint',
})

const threshold = (description: string): Shape<number> =>
  number({ min: 1, max: 1_000_000_000, whole: true, description })

/**
 * Above which counts of an hour an account changes its status. Generous: a team behind one account must never be taken
 * for abuse.
 */
export const STATUS_RULES = {
  refusals: { monitored: 1_000, abusive: 10_000 },
  addresses: { monitored: 200, abusive: 2_000 },
  concurrency: { monitored: 500, abusive: 2_000 },
}

const rule = (name: keyof typeof STATUS_RULES, description: string): Shape<{ monitored: number; abusive: number }> => {
  const thresholds = object(
    { monitored: threshold('More make an account monitored'), abusive: threshold('More make an account abusive') },
    { description },
  )
  return {
    schema: thresholds.schema,
    read(place) {
      const { monitored, abusive } = { ...STATUS_RULES[name], ...thresholds.read(place) }
      return monitored > abusive
        ? place.fail(`has the threshold of monitored (${monitored}) above that of abusive (${abusive})`)
        : { monitored, abusive }
    },
  }
}

const penalty = (description: string): Shape<number> => number({ min: 1, max: 100, decimals: 4, description })

const accountStatus = object(
  {
    refusals: rule('refusals', 'Requests refused with 402, 403, 422 or 429 in an hour'),
    addresses: rule('addresses', 'Distinct client addresses in an hour'),
    concurrency: rule('concurrency', 'Requests at the same moment'),
    penalty: object(
      { monitored: penalty('For monitored accounts'), abusive: penalty('For abusive accounts') },
      { description: 'How many times its flows a request costs' },
    ),
  },
  { description: 'When accounts become monitored and abusive, and what that costs' },
)

const key = object(
  {
    key: string({
      what: 'the text of a key',
      description: 'The key itself, from the environment: ${NAME}',
      check: (text) =>
        /^[\x21-\x7e]{16,256}$/.test(text) ? undefined : 'must be 16 to 256 printable ASCII characters without spaces',
    }),
    kind: name(KEY_KINDS, 'What the key may do'),
    name: string({ what: 'a name for people', description: 'Name for people' }),
    account: string({
      what: 'the name of an account',
      description: 'Account of the key, made when there is none',
      check: wrongAccountName,
    }),
    requestsPerMinute,
    models: list(string({ what: 'a pattern of model names', check: wrongModelPattern }), {
      what: 'patterns',
      min: 1,
      description: 'Models the key may use; * stands for any text',
    }),
    limit: number({ min: 0, max: 1_000_000_000, decimals: 9, description: 'USD that may be spent with the key' }),
    limitPeriod: name(LIMIT_PERIODS, 'After what the limit is whole again; without it the limit is for ever'),
  },
  { required: ['key'] },
)

const usd = (description: string): Shape<number> =>
  number({ min: 0, max: 1_000_000_000, decimals: 9, description: `${description}, in USD` })

/** sluice.yaml. */
export const FILE = object(
  {
    listen: object(
      {
        host: string({
          what: 'a host name or address',
          pattern: /^[A-Za-z0-9.:_%-]+$/,
          description: 'Address to listen at; 0.0.0.0 for every interface',
        }),
        port: number({ min: 0, max: 65535, whole: true, description: 'Port to listen at; 0 for a free one' }),
        publicUrl: string({
          what: 'an http:// or https:// URL',
          description: 'Where clients find Sluice, for the URLs in its answers; by default what their Host header says',
          check: wrongBaseUrl,
        }),
      },
      { description: 'Where Sluice listens' },
    ),
    data: string({
      what: 'a folder',
      description: 'Folder of the database; relative to the working directory',
      check: (text) => (text === '' || text.includes('\0') ? 'must be the path of a folder' : undefined),
    }),
    limits: object(
      {
        requestsPerMinute,
        body: size('1KiB', '1GiB', 'Largest request body'),
        file: size('1KiB', '16GiB', 'Largest uploaded file'),
      },
      { description: 'What one client may ask' },
    ),
    timeouts: object(
      {
        connect: duration('10ms', '10m', 'Until a connection to the provider stands'),
        firstByte: duration('10ms', '24h', "Until the head of the provider's answer"),
        idle: duration('10ms', '24h', "Between two pieces of the provider's answer"),
        total: duration('10ms', '24h', 'One whole attempt'),
        drain: duration('0s', '24h', 'How long running answers may finish when Sluice is stopped'),
      },
      { description: 'How long is waited for what' },
    ),
    keepAlive: duration('100ms', '10m', 'Silence after which a sign of life is sent to the client'),
    strict: boolean('true: a request of which its provider would not hear all is refused, unless it says otherwise'),
    billing: object(
      {
        startingCredit: usd('Credit of the account that the first start makes'),
        overdraft: usd("How far an account's credit may go below zero when an answer costs more than was held for it"),
        unpriced: name<'refuse' | 'free'>(['refuse', 'free'], 'What becomes of a model whose price nobody knows'),
        delay: duration('0s', '5m', 'Time after the end of a generation from which its costs are shown'),
      },
      { description: 'What accounts may spend' },
    ),
    files: object(
      {
        quota: size('1KiB', '1PiB', 'Bytes that the files of one account may have together'),
        outputKeep: duration(
          '1m',
          '30d',
          'How long the address of a generated image or of another output can be opened',
        ),
      },
      { description: 'Uploaded files, and what models made' },
    ),
    predictions: object(
      {
        concurrency: number({
          min: 1,
          max: 1000,
          whole: true,
          description: 'Predictions of one account that run at the same moment; others wait',
        }),
        waiting: number({
          min: 1,
          max: 1_000_000,
          whole: true,
          description: 'Predictions of one account that may wait',
        }),
        keepDays: number({ min: 1, max: 3650, whole: true, description: 'Days that predictions are kept' }),
      },
      { description: 'Predictions' },
    ),
    fetch: object(
      {
        requestUrls: boolean(
          'true: a URL in a request is fetched by Sluice where the provider does not fetch it itself',
        ),
        size: size('1KiB', '1GiB', 'Most bytes of one such URL'),
        private: list(
          string({
            what: 'a host, with a port or without',
            pattern: /^(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::\d{1,5})?$/,
            description: 'host or host:port',
          }),
          {
            what: 'hosts',
            description: 'Hosts that webhooks and URLs in requests may reach although they are not public',
          },
        ),
      },
      { description: 'What Sluice fetches or calls that clients name' },
    ),
    reasoning: object(
      {
        keep: duration(
          '0s',
          '30d',
          'How long the signatures of reasoning are kept for clients that do not send them back; 0s: not at all',
        ),
      },
      { description: 'Reasoning of earlier turns' },
    ),
    responses: object(
      { keepDays: number({ min: 1, max: 3650, whole: true, description: 'Days that stored responses are kept' }) },
      { description: 'Stored responses' },
    ),
    providers: map(provider, {
      pattern: PROVIDER_ID,
      what: 'lower-case letters, digits, dots, - and _, beginning with a letter or digit',
      description: 'Providers by id; the id of a built-in one sets it up',
    }),
    models: map(model, {
      pattern: MODEL_TEXT,
      what: '1 to 256 characters of A-Z a-z 0-9 . _ : @ / + -',
      description: 'Models by the name clients use',
      check: wrongModelText,
    }),
    plans: object(
      {
        usdPerFlow: number({
          min: 0.000000001,
          max: 1_000_000,
          decimals: 9,
          description: 'USD at list prices that one flow stands for',
        }),
        tiers: map(plan, {
          pattern: PROVIDER_ID,
          what: 'lower-case letters, digits, dots, - and _, beginning with a letter or digit',
          description: 'Plans by tier; the name of a built-in one changes it',
        }),
      },
      { description: 'Subscriptions' },
    ),
    accountStatus,
    keys: list(key, { what: 'keys', description: 'Fixed keys; others are made with the command line or the console' }),
  },
  { description: 'Configuration of Sluice' },
)

/** The JSON Schema that editors complete and check sluice.yaml with; published as sluice.schema.json. */
export const fileSchema = (): Record<string, unknown> => ({
  $schema: 'http://json-schema.org/draft-07/schema#',
  title: 'sluice.yaml',
  ...FILE.schema,
})
