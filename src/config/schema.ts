import { accountStatus, key, plan, requestsPerMinute } from './account-settings.ts'
import { capture } from './capture-settings.ts'
import { model, MODEL_NAME, MODEL_NAME_RULE, modelNameProblem } from './model-settings.ts'
import { baseUrlProblem, provider, PROVIDER_ID } from './provider-settings.ts'
import { concurrency, routing } from './routing-settings.ts'
import { boolean, duration, list, located, map, name, number, object, size, string, type Shape } from './shape.ts'
import { store } from './store-settings.ts'
import { FILE_STORE } from './file-store.ts'
import { FILE_STORES, LOG_FORMATS, LOG_LEVELS, LOG_REQUESTS, WHEN_EXHAUSTED } from './terms.ts'

const ID_RULE = 'lower-case letters, digits, dots, - and _, beginning with a letter or digit'

const IPV4 = /^(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)(?:\.(?!$)|$)){4}$/

/** Returns what is wrong with an address or a range in CIDR notation, or undefined. */
const rangeProblem = (text: string): string | undefined => {
  const [address, prefixLength, ...rest] = text.split('/') as [string, string?, ...string[]]
  const isV6 = /^[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*$/.test(address) && URL.canParse(`http://[${address}]`)
  const bits = IPV4.test(address) ? 32 : isV6 ? 128 : -1
  const isLength = prefixLength === undefined || (/^\d{1,3}$/.test(prefixLength) && Number(prefixLength) <= bits)
  return bits > 0 && isLength && rest.length === 0
    ? undefined
    : 'must be an address or a range of addresses, such as 203.0.113.7 or 10.0.0.0/8'
}

const listen = object(
  {
    host: string({
      what: 'a host name or address',
      pattern: /^[A-Za-z0-9.:_%-]+$/,
      description: 'Address to listen on; 0.0.0.0 for every interface',
    }),
    port: number({ min: 0, max: 65535, whole: true, description: 'Port to listen on; 0 for any free port' }),
    publicUrl: string({
      what: 'an http:// or https:// URL',
      description: 'URL of Sluice for clients, used in responses; default: from the Host header',
      check: baseUrlProblem,
    }),
    proxies: list(string({ what: 'an address or a range of addresses', check: rangeProblem }), {
      what: 'addresses',
      description: 'Proxies: addresses and ranges that may have any number of connections; default: private ones',
    }),
  },
  { description: 'Where Sluice listens' },
)

const limits = object(
  {
    requestsPerMinute,
    connectionsPerAddress: number({
      min: 10,
      max: 1_000_000,
      whole: true,
      description: 'Maximum connections from one address that is not a proxy',
    }),
    concurrency: concurrency('Generations at the same time; others wait. Default: no limit'),
    accountConcurrency: concurrency('Generations of one account at the same time; others wait. Default: no limit'),
    body: size('1KiB', '1GiB', 'Maximum request body'),
    elements: number({
      min: 1_000,
      max: 100_000_000,
      whole: true,
      description: 'Maximum number of JSON values in a request body, objects and arrays included',
    }),
    depth: number({ min: 16, max: 256, whole: true, description: 'Maximum levels of nesting in a request body' }),
    parts: number({
      min: 100,
      max: 10_000_000,
      whole: true,
      description: 'Maximum number of messages, parts, items and calls of a conversation together',
    }),
    tools: number({ min: 10, max: 1_000_000, whole: true, description: 'Maximum number of tools of a request' }),
    file: size('1KiB', '16GiB', 'Maximum uploaded file'),
    memory: size('16MiB', '64TiB', 'Memory for large requests in flight together; default: a quarter of the memory'),
    conversations: size('0B', '64GiB', 'Memory for conversations that come again with every turn; 0B: none'),
  },
  { description: 'Limits per client' },
)

const timeouts = object(
  {
    connect: duration('10ms', '10m', 'Connect timeout'),
    firstByte: duration('10ms', '24h', "Until the head of the provider's response"),
    idle: duration('10ms', '24h', "Between two chunks of the provider's response"),
    total: duration('10ms', '24h', 'One whole attempt'),
    clientLeft: duration(
      '0s',
      '24h',
      'For a provider to report the usage of a response whose client has left; 0s: it is cancelled at once',
    ),
    clientStalled: duration('1s', '24h', 'Until a client that takes nothing of its stream counts as one that left'),
    drain: duration('0s', '24h', 'For requests in flight to finish when Sluice is stopped'),
  },
  { description: 'Timeouts' },
)

const USD_MAX = 1_000_000_000

const usd = (description: string): Shape<number> =>
  number({ min: 0, max: USD_MAX, decimals: 9, description: `${description}, in USD` })

/** `unlimited` is an amount that is not spent in a lifetime: the book has no account without a balance. */
const startingCredit: Shape<number> = {
  schema: {
    anyOf: [usd('Credit').schema, { const: 'unlimited' }],
    description: 'Credit of the account that the first start creates, in USD; unlimited: 1,000,000,000',
  },
  read: (location) => (location.scalar === 'unlimited' ? USD_MAX : usd('Credit').read(location)),
}

const billing = object(
  {
    startingCredit,
    overdraft: usd('How far credit may go below zero if a response costs more than was reserved'),
    whenExhausted: object(
      {
        payAsYouGo: name(WHEN_EXHAUSTED, 'For the balance of pay-as-you-go keys'),
        subscription: name(WHEN_EXHAUSTED, 'For the quota windows of subscriptions'),
      },
      { description: 'What streamed responses do when it is used up: end as at their output limit, or go on' },
    ),
    unpriced: name<'auto' | 'refuse' | 'free'>(
      ['auto', 'refuse', 'free'],
      'What to do with models without a known price; auto: free as long as there is one account, else refuse',
    ),
    unpricedClasses: name<'auto' | 'refuse' | 'plain'>(
      ['auto', 'refuse', 'plain'],
      'What to do with service_tier, speed and inference_geo without a known price; auto: as for unpriced',
    ),
    unpricedTools: name<'auto' | 'refuse' | 'free'>(
      ['auto', 'refuse', 'free'],
      'What to do with tools that a provider runs for a fee of its own; auto: as for unpriced',
    ),
    delay: duration('0s', '5m', 'Time after the end of a generation until its costs are shown'),
  },
  { description: 'What accounts may spend' },
)

const quota = (what: string): Shape<number> => size('1KiB', '1PiB', `Total size of the ${what} of one account`)
const count = (what: string): Shape<number> =>
  number({ min: 1, max: 1_000_000_000, whole: true, description: `Maximum number of ${what} of one account` })

const log = object(
  {
    format: name(LOG_FORMATS, 'Lines for people or for programs; default: text on a terminal, json otherwise'),
    level: name(LOG_LEVELS, 'The least severe messages that are logged; requests have a setting of their own'),
    requests: name(LOG_REQUESTS, 'Requests that have a line when they end; errors: those that failed or were cut off'),
  },
  { description: 'The log on stderr' },
)

const metrics = object(
  {
    enabled: boolean('false: nothing is counted, and there is no /metrics'),
    host: string({
      what: 'a host name or address',
      pattern: /^[A-Za-z0-9.:_%-]+$/,
      description: 'Address of the listener for metrics alone',
    }),
    port: number({
      min: 0,
      max: 65535,
      whole: true,
      description: 'Port of a listener for metrics alone, which asks for no key; default: none',
    }),
  },
  { description: 'Metrics for Prometheus' },
)

const files = object(
  {
    store: located(
      string({
        what: `${FILE_STORES.join(', ')} or s3://bucket/prefix`,
        pattern: FILE_STORE,
        description:
          'Where the bytes are: folder (in data), postgres or s3://bucket/prefix; default: postgres with such a store',
      }),
    ),
    quota: quota('files'),
    outputKeep: duration('1m', '30d', 'How long the URL of a generated image or other output is valid'),
  },
  { description: 'Uploaded files and generated outputs' },
)

const predictions = object(
  {
    concurrency: number({
      min: 1,
      max: 1000,
      whole: true,
      description: 'Predictions of one account that run concurrently; others wait',
    }),
    waiting: number({ min: 1, max: 1_000_000, whole: true, description: 'Predictions of one account that may wait' }),
    keepDays: number({ min: 1, max: 3650, whole: true, description: 'Days that predictions are kept' }),
    quota: quota('stored predictions'),
    count: count('stored predictions'),
  },
  { description: 'Predictions' },
)

const fetch = object(
  {
    requestUrls: boolean('true: Sluice fetches the URLs in a request that the provider does not fetch itself'),
    size: size('1KiB', '1GiB', 'Maximum size of one such URL'),
    private: list(
      string({
        what: 'a host, with or without a port',
        pattern: /^(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::\d{1,5})?$/,
        description: 'host or host:port',
      }),
      { what: 'hosts', description: 'Hosts that webhooks and URLs in requests may reach although they are not public' },
    ),
  },
  { description: 'Access to URLs that clients send' },
)

const consoleSettings = object(
  {
    enabled: boolean('false: no console and no sessions; the management API takes keys alone'),
    hosts: list(string({ what: 'a host name or address', pattern: /^(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)$/ }), {
      what: 'hosts',
      description: 'Further host names under which browsers reach the console, without ports',
    }),
    sessionHours: number({
      min: 1,
      max: 168,
      whole: true,
      description: 'Hours without use after which a session ends; on this machine alone: 7 days',
    }),
  },
  { description: 'The console' },
)

/** sluice.yaml. */
export const FILE = object(
  {
    listen,
    workers: located(
      number({
        min: 1,
        max: 256,
        whole: true,
        description: 'Processes that serve on the same port, over PostgreSQL and on Linux; default: 1',
      }),
    ),
    data: string({
      what: 'a folder',
      description: 'Folder of the database; relative to the working directory',
      check: (text) => (text === '' || text.includes('\0') ? 'must be the path of a folder' : undefined),
    }),
    store,
    log,
    metrics,
    limits,
    timeouts,
    keepAlive: duration('100ms', '10m', 'Silence after which a keep-alive is sent to the client'),
    strict: boolean('true: refuse requests that the provider does not support completely; a request can override it'),
    billing,
    files,
    predictions,
    fetch,
    reasoning: object(
      {
        keep: duration(
          '0s',
          '30d',
          'How long reasoning signatures are kept for clients that do not send them back; 0s: not at all',
        ),
      },
      { description: 'Reasoning of earlier turns' },
    ),
    responses: object(
      {
        keepDays: number({ min: 1, max: 3650, whole: true, description: 'Days that stored responses are kept' }),
        quota: quota('stored responses'),
        count: count('stored responses'),
      },
      { description: 'Stored responses' },
    ),
    retention: object(
      {
        records: string({
          what: "a number of months, such as '13 months', or 'forever'",
          description: "Whole months that records of generations are kept, such as '13 months', or 'forever'",
          check: (text) =>
            /^(?:[1-9]\d{0,2} months?|forever)$/.test(text) ? undefined : "must be 'forever' or like '13 months'",
        }),
      },
      { description: 'Records that are removed when they are old' },
    ),
    idempotency: object(
      {
        keep: duration('0s', '30d', 'How long an answer is kept for its Idempotency-Key; 0s: the header is ignored'),
        account: size('1KiB', '1TiB', 'Kept answers of one account; the oldest are removed'),
        total: size('1KiB', '1TiB', 'Kept answers in all; the oldest are removed'),
      },
      { description: 'Requests with an Idempotency-Key' },
    ),
    providers: map(provider, {
      pattern: PROVIDER_ID,
      what: ID_RULE,
      description: 'Providers by id; the id of a built-in provider changes that one',
    }),
    models: map(model, {
      pattern: MODEL_NAME,
      what: MODEL_NAME_RULE,
      description: 'Models by the name that clients use',
      check: modelNameProblem,
    }),
    routing,
    plans: object(
      {
        usdPerFlow: number({
          min: 0.000000001,
          max: 1_000_000,
          decimals: 9,
          description: 'USD at list prices per flow',
        }),
        tiers: map(plan, {
          pattern: PROVIDER_ID,
          what: ID_RULE,
          description: 'Plans by tier; the name of a built-in plan changes that one',
        }),
      },
      { description: 'Subscriptions' },
    ),
    capture,
    accountStatus,
    console: consoleSettings,
    keys: list(key, { what: 'keys', description: 'Fixed keys, besides those created on the command line' }),
  },
  { description: 'Configuration of Sluice' },
)

/** The JSON Schema of sluice.yaml for editors, published as sluice.schema.json. */
export const fileSchema = (): Record<string, unknown> => ({
  $schema: 'http://json-schema.org/draft-07/schema#',
  title: 'sluice.yaml',
  ...FILE.schema,
})
