import { boolean, duration, list, name, names, number, object, string, values, type Shape } from './shape.ts'
import { QUANTIZATIONS, STRATEGIES } from './terms.ts'

/** A word that clients name, in headers, too. */
const label = (description: string): Shape<string> =>
  string({
    what: '1 to 64 characters of A-Z a-z 0-9 . _ -, beginning with a letter or digit',
    pattern: /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/,
    description,
  })

const count = (max: number, description: string): Shape<number> => number({ min: 1, max, whole: true, description })

export const concurrency = (description: string): Shape<number> => count(1_000_000, description)

const limits = object(
  {
    requestsPerMinute: count(1_000_000, 'Requests per minute'),
    tokensPerMinute: count(1_000_000_000_000, 'Tokens per minute, input and output together'),
    concurrency: concurrency('Requests at the same time; others go elsewhere, or wait'),
  },
  { description: 'Limits that Sluice keeps towards the provider; default: none' },
)

const weight = number({
  min: 0,
  max: 1_000_000,
  decimals: 6,
  description: 'Share of the requests, beside others of the same priority; default: 1',
})

/** Several keys of a provider. */
export const apiKeys = list(
  object(
    {
      name: label('Name of the key in records and headers'),
      key: string({
        what: "the provider's key",
        description: 'Key sent to the provider',
        check: (text) => (/^[\x21-\x7e]+$/.test(text) ? undefined : 'must be printable ASCII without spaces'),
      }),
      weight,
      limits,
    },
    { required: ['name', 'key'] },
  ),
  { what: 'keys', min: 1, description: 'Several keys in place of apiKey, each with its own health and limits' },
)

/** Facts about a provider or an endpoint that requests can demand. */
export const servingFacts = {
  region: label('The region that serves it, as requests name it: eu, us ...'),
  dataPolicy: object(
    {
      retains: boolean('Requests or responses are stored beyond the response'),
      trains: boolean('Models are trained with them'),
    },
    { description: 'Use of the data of requests; unknown where it is not set' },
  ),
  zdr: boolean('true: zero data retention is agreed; default: the opposite of dataPolicy.retains'),
}

/** The members of a model's endpoint that decide about its use. */
export const endpointRouting = {
  weight,
  priority: number({
    min: 0,
    max: 1_000,
    whole: true,
    description: 'Endpoints with a lower number precede others; default: 0',
  }),
  ...servingFacts,
  tags: values(label('A word'), { what: 'words', description: 'Words by which requests can name the endpoint' }),
  quantization: name(QUANTIZATIONS, 'Precision of the weights'),
  limits,
}

const members = {
  strategy: name(STRATEGIES, 'Choice among the endpoints that can serve a request'),
  patience: duration(
    '1s',
    '24h',
    'Time for an endpoint to begin its response while others are left; default: three times its p95, at least 10s',
  ),
  hedge: name(['off', 'p95'] as const, 'p95: another endpoint is asked, too, where the first is slower than its p95'),
  attempts: number({ min: 1, max: 10, whole: true, description: 'Maximum attempts of one request' }),
  fallbackOn: names(['refusal'] as const, {
    what: 'reasons',
    description: 'More reasons to ask another endpoint; refusal: the content policy of the first',
  }),
}

export const modelRouting = object(members, { description: 'Routing of this model; default: that of all' })

export const routing = object(
  {
    ...members,
    retryBudget: object(
      {
        share: number({ min: 0, max: 1, decimals: 4, description: 'Share of the requests to the provider' }),
        perSecond: number({ min: 0, max: 1_000_000, description: 'Repetitions per second beside that' }),
      },
      { description: 'Repetitions that one provider gets at most' },
    ),
    queue: object(
      {
        wait: duration('0s', '10m', 'Maximum time in the queue'),
        requests: number({ min: 0, max: 1_000_000, whole: true, description: 'Maximum number of waiting requests' }),
      },
      { description: 'Requests that wait because of a limit of concurrency' },
    ),
  },
  { description: 'Choice of endpoints' },
)
