import type { Capabilities } from '../protocols/protocol.ts'
import { PROVIDER_ID } from './provider-settings.ts'
import { API_NAMES, EFFORTS, MODALITIES, type Modality } from './provider-terms.ts'
import { endpointRouting, modelRouting } from './routing-settings.ts'
import { boolean, list, map, name, names, number, object, oneOf, string, type Shape } from './shape.ts'
import { FEE_ITEMS, isCounted, type FeeItem } from './terms.ts'

/** Highest rates in USD. With the highest possible usage, no bill exceeds the 64-bit integers of the database. */
export const MAX_USD = { perMillionTokens: 1_000, perOne: 100 }

/**
 * USD per million tokens or per unit: a number, or a base rate and the rates that apply to the whole request if its
 * prompt has more tokens than `over`.
 */
export type RateText = number | [number, ...{ over: number; rate: number }[]]
export type PriceText = Partial<Record<FeeItem, RateText>>

export const MODEL_NAME = /^[A-Za-z0-9._:@/+-]{1,256}$/
export const MODEL_NAME_RULE = '1 to 256 characters of A-Z a-z 0-9 . _ : @ / + -'

/**
 * Returns what is wrong with a model name, or undefined. Segments that a URL would resolve are refused, because the
 * name becomes part of a path.
 */
export const modelNameProblem = (text: string): string | undefined =>
  !MODEL_NAME.test(text)
    ? `must be ${MODEL_NAME_RULE}`
    : text.split('/').some((segment) => segment === '' || segment === '.' || segment === '..')
      ? "must not contain empty, '.' or '..' segments"
      : undefined

/** Returns what is wrong with a pattern of model names, or undefined. */
export const modelPatternProblem = (text: string): string | undefined =>
  /^[A-Za-z0-9._:@/+*-]{1,256}$/.test(text) ? undefined : 'must be a model name with optional * wildcards'

export const TOKENS = { min: 1, max: 100_000_000, whole: true }

const modalities = (description: string): Shape<Modality[]> =>
  names(MODALITIES, { what: 'kinds of content', min: 1, description })

const capabilities = object(
  {
    api: name<NonNullable<Capabilities['api']>>(
      ['images', 'predictions'],
      'The API of a model that is not used in conversations',
    ),
    input: modalities('Kinds of content that the model reads'),
    output: modalities('Kinds of content that the model generates'),
    tools: boolean('The model supports tool calls'),
    structuredOutput: boolean('The model supports JSON Schema output'),
    maxOutputTokens: number({ ...TOKENS, description: 'Maximum output tokens of one response' }),
    reasoning: name<NonNullable<Capabilities['reasoning']>>(
      ['effort', 'budget', 'adaptive', 'level', 'none'],
      'How the reasoning effort is set',
    ),
    efforts: names(EFFORTS, {
      what: 'reasoning efforts',
      description: 'Supported reasoning efforts; with none among them, reasoning can be switched off',
    }),
    budget: object(
      {
        min: number({ ...TOKENS, min: 0 }),
        max: number(TOKENS),
        off: boolean('0 switches reasoning off, although it is below min'),
      },
      { required: ['min', 'max'], description: 'Minimum and maximum reasoning budget in tokens' },
    ),
    sampling: oneOf<boolean | 'idle' | 'either'>(
      [true, false, 'idle', 'either'],
      'Support of temperature, top_p and similar; idle: only without reasoning; ' +
        'either: temperature or top_p, not both',
    ),
    penalties: boolean('false: presence and frequency penalties are refused'),
    stops: number({ min: 0, max: 1_000, whole: true, description: 'Maximum number of stop sequences' }),
    forcedTools: oneOf<boolean | 'idle'>(
      [true, false, 'idle'],
      'Support of forced tool calls; idle: only without reasoning',
    ),
    parallelTools: boolean('chat completions: false: parallel_tool_calls is refused'),
    formats: names(['json_object', 'json_schema'], {
      what: 'formats',
      description: 'chat completions: supported response formats',
    }),
    system: boolean('false: system instructions are refused'),
    base64Only: boolean('images: responses are always base64, and response_format is refused'),
    systemTurns: boolean('messages: system instructions are allowed within the conversation'),
    prefill: boolean('messages: false: a prefilled assistant turn is refused'),
    cacheBreakpoints: name<NonNullable<Capabilities['cacheBreakpoints']>>(
      ['cache_control', 'prompt_cache_breakpoint'],
      'How the end of a cached prefix is marked',
    ),
  } satisfies { [Name in keyof Capabilities]-?: Shape<unknown> },
  { description: 'What the model supports; added to what the catalogue says' },
)

const endpoint = object(
  {
    provider: string({
      what: 'the id of a provider',
      pattern: PROVIDER_ID,
      description: 'Id of a provider, built in or from this file',
    }),
    model: string({
      what: "the provider's name of the model",
      description: "The provider's name of the model",
      check: modelNameProblem,
    }),
    protocol: name(API_NAMES, 'The protocol to use, if the provider supports several'),
    ...endpointRouting,
  },
  { required: ['provider', 'model'] },
)

const modelName = string({ what: 'the name of a model', check: modelNameProblem })

const perUnit = (max: number): Shape<number> => number({ min: 0, max, decimals: 9 })
const perMillionTokens = perUnit(MAX_USD.perMillionTokens)
const tier = object(
  {
    over: number({ ...TOKENS, description: 'The rate applies to prompts of more tokens than this' }),
    rate: perMillionTokens,
  },
  { required: ['over', 'rate'] },
)

/** `1.25`, or `[1.25, { over: 200000, rate: 2.5 }]`. */
const tieredRate: Shape<RateText> = {
  schema: {
    anyOf: [
      perMillionTokens.schema,
      { type: 'array', items: { anyOf: [perMillionTokens.schema, tier.schema] }, minItems: 1 },
    ],
  },
  read(location) {
    if (location.kind !== 'a list') return perMillionTokens.read(location)
    const [first, ...rest] = [...location.elements()]
    const base =
      first === undefined
        ? location.fail('must begin with a number, USD per million tokens')
        : perMillionTokens.read(first)
    const tiers = rest.map((element) => tier.read(element))
    if (base === undefined || !tiers.every((read) => read?.over !== undefined && read.rate !== undefined))
      return undefined
    const read = tiers as { over: number; rate: number }[]
    if (read.some(({ over }, index) => index > 0 && over <= read[index - 1]!.over))
      return location.fail('must have its tiers in ascending order of over')
    return [base, ...read.map(({ over, rate }) => ({ over, rate }))]
  },
}

const price = object(
  Object.fromEntries(FEE_ITEMS.map((item) => [item, isCounted(item) ? perUnit(MAX_USD.perOne) : tieredRate])) as Record<
    FeeItem,
    Shape<RateText>
  >,
  { description: 'USD per million tokens; web_search, search_request, image and request: USD each' },
)

export const model = object({
  name: string({ what: 'a display name', description: 'Display name' }),
  endpoints: list(endpoint, {
    what: 'endpoints',
    min: 1,
    description:
      'Endpoints of the model, in the order in which they are tried; default: the provider and model that it names',
  }),
  price,
  classes: map(number({ min: 0, max: 1_000, decimals: 9, description: 'Factor on the token prices' }), {
    pattern: /^(service_tier|speed|inference_geo)=[a-z0-9_-]{1,64}$/,
    what: 'service_tier=, speed= or inference_geo= with a value in lower case, such as service_tier=priority',
    description: 'Prices of service classes, as factors on the token prices',
  }),
  capabilities,
  contextLength: number({ ...TOKENS, description: 'Maximum tokens of prompt and output together' }),
  fallbacks: list(modelName, { what: 'names of models', description: 'Models to ask where this one fails, in order' }),
  contextFallback: string({
    what: 'the name of a model',
    description: 'Model to ask where a request is too long for this one',
    check: modelNameProblem,
  }),
  routing: modelRouting,
})
