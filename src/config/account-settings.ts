import { modelPatternProblem } from './model-settings.ts'
import { concurrency } from './routing-settings.ts'
import { boolean, list, name, number, object, string, type Shape } from './shape.ts'
import { KEY_KINDS, LIMIT_PERIODS, type QuotaWindowName } from './terms.ts'

/** Returns what is wrong with an account's name, or undefined. */
export const accountNameProblem = (text: string): string | undefined =>
  text.startsWith('acct_')
    ? 'must not begin with acct_, which is the prefix of account ids'
    : /^[A-Za-z0-9][A-Za-z0-9._@+-]{0,99}$/.test(text)
      ? undefined
      : 'must be 1 to 100 characters of A-Z a-z 0-9 . _ @ + -, beginning with a letter or digit'

const FLOWS = { min: 0, max: 1_000_000_000, decimals: 4 }

/** A subscription plan. */
export const plan = object({
  usdPerMonth: number({ min: 0, max: 1_000_000, description: 'Price per month in USD' }),
  flows: object(
    {
      '5_hour': number({ ...FLOWS, description: 'Flows in five hours' }),
      '7_day': number({ ...FLOWS, description: 'Flows in seven days' }),
      monthly: number({ ...FLOWS, description: 'Flows in a month of the subscription' }),
    } satisfies Record<QuotaWindowName, Shape<number>>,
    { description: 'Maximum flows in each quota window' },
  ),
  discount: number({ min: 0, max: 100, decimals: 2, description: 'Percent off pay-as-you-go bills' }),
  concurrency: concurrency('Generations of one account at the same time; default: limits.accountConcurrency'),
})

/** The highest rate limit that can be set. */
export const REQUESTS_MAX = 1_000_000

export const requestsPerMinute = number({
  min: 1,
  max: REQUESTS_MAX,
  whole: true,
  description: 'Requests per minute, per key and route',
})

const threshold = (description: string): Shape<number> =>
  number({ min: 1, max: 1_000_000_000, whole: true, description })

/**
 * Default counts per hour above which an account changes its status. They are generous: a team that shares an account
 * must not be mistaken for abuse.
 */
export const STATUS_THRESHOLDS = {
  refusals: { monitored: 1_000, abusive: 10_000 },
  addresses: { monitored: 200, abusive: 2_000 },
  concurrency: { monitored: 500, abusive: 2_000 },
}

type Thresholds = { monitored: number; abusive: number }

const statusRule = (rule: keyof typeof STATUS_THRESHOLDS, description: string): Shape<Thresholds> => {
  const thresholds = object(
    {
      monitored: threshold('Above this, an account becomes monitored'),
      abusive: threshold('Above this, an account becomes abusive'),
    },
    { description },
  )
  return {
    schema: thresholds.schema,
    read(location) {
      const { monitored, abusive } = { ...STATUS_THRESHOLDS[rule], ...thresholds.read(location) }
      return monitored > abusive
        ? location.fail(`has a threshold of monitored (${monitored}) above that of abusive (${abusive})`)
        : { monitored, abusive }
    },
  }
}

const penalty = (description: string): Shape<number> => number({ min: 1, max: 100, decimals: 4, description })

export const accountStatus = object(
  {
    refusals: statusRule('refusals', 'Requests refused with 402, 403, 422 or 429 in an hour'),
    addresses: statusRule('addresses', 'Distinct client addresses in an hour'),
    concurrency: statusRule('concurrency', 'Concurrent requests'),
    penalty: object(
      { monitored: penalty('For monitored accounts'), abusive: penalty('For abusive accounts') },
      { description: 'Factor by which the flows of a request are multiplied' },
    ),
    requestsPerMinute: number({
      min: 1,
      max: 1_000_000,
      whole: true,
      description: 'Requests per minute and route of each pay-as-you-go key of an abusive account',
    }),
  },
  { description: 'When accounts become monitored and abusive, and what follows' },
)

/** A fixed API key. */
export const key = object(
  {
    key: string({
      what: 'the text of a key',
      description: 'The key, from the environment: ${NAME}',
      check: (text) =>
        /^[\x21-\x7e]{16,256}$/.test(text) ? undefined : 'must be 16 to 256 printable ASCII characters without spaces',
    }),
    kind: name(KEY_KINDS, 'What the key may be used for'),
    name: string({ what: 'a display name', description: 'Display name' }),
    account: string({
      what: 'the name of an account',
      description: 'Account of the key, created if it does not exist',
      check: accountNameProblem,
    }),
    requestsPerMinute,
    models: list(string({ what: 'a pattern of model names', check: modelPatternProblem }), {
      what: 'patterns',
      min: 1,
      description: 'Models the key may use; * is a wildcard',
    }),
    limit: number({ min: 0, max: 1_000_000_000, decimals: 9, description: 'Spending limit of the key in USD' }),
    idempotency: boolean('false: the Idempotency-Key of requests is ignored'),
    limitPeriod: name(LIMIT_PERIODS, 'Period after which the limit resets; default: never'),
  },
  { required: ['key'] },
)
