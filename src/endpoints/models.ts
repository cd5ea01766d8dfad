import { setImmediate } from 'node:timers/promises'
import type { AuthenticatedRequest, AppContext } from '../context.ts'
import { isCounted } from '../config/schema.ts'
import { GatewayError, invalid } from '../error.ts'
import type { FeeItem, Rate, TimedPrice } from '../ledger/prices.ts'
import { usdOf } from '../money.ts'
import { protocols } from '../protocols/index.ts'
import type { Capabilities } from '../protocols/protocol.ts'
import type { Model } from '../providers/catalogue.ts'

/**
 * OpenAI's dialect, with what is known beside it: null, or left out of `capabilities` and `pricings`, is what is not
 * known.
 */
export const describe = (
  { catalogue, prices }: Pick<AppContext, 'catalogue' | 'prices'>,
  { id, createdAt, ownedBy, name, capabilities, contextLength }: Model,
): object => ({
  id,
  object: 'model',
  created: createdAt,
  owned_by: ownedBy,
  display_name: name,
  input_modalities: capabilities.input ?? null,
  output_modalities: capabilities.output ?? null,
  capabilities: capabilitiesOf(capabilities),
  context_length: contextLength ?? null,
  max_output_tokens: capabilities.maxOutputTokens ?? null,
  supported_parameters: parametersOf(capabilities),
  pricings: pricingsOf(prices.timed(id, catalogue.candidates(id))),
  protocols: spokenTo(capabilities),
})

const capabilitiesOf = ({ reasoning, tools, structuredOutput }: Capabilities): object => ({
  ...(reasoning === undefined ? {} : { reasoning: reasoning !== 'none' }),
  ...(tools === undefined ? {} : { tools }),
  ...(structuredOutput === undefined ? {} : { structured_output: structuredOutput }),
})

/** What the model is known to take, by the names of chat completions; null where too little is known to say. */
function parametersOf({ api, reasoning, tools, structuredOutput, sampling }: Capabilities): string[] | null {
  if (api !== undefined || [reasoning, tools, structuredOutput, sampling].every((one) => one === undefined)) return null
  return [
    'max_tokens',
    'stream',
    ...(sampling === true || sampling === 'either' ? ['temperature', 'top_p'] : []),
    ...(tools === true ? ['tools', 'tool_choice'] : []),
    ...(structuredOutput === true ? ['response_format'] : []),
    ...(reasoning === undefined || reasoning === 'none' ? [] : ['reasoning', 'reasoning_effort']),
  ]
}

const CONVERSATIONS = Object.keys(protocols).filter((name) => name !== 'images')

/**
 * Whatever a provider speaks, its models are asked in any protocol; only those that make images over the images API,
 * and jobs only as predictions.
 */
function spokenTo({ api, output }: Capabilities): string[] {
  if (api === 'predictions') return ['predictions']
  return [...CONVERSATIONS, ...(output?.includes('image') === true ? ['images'] : []), 'predictions']
}

type Condition = { field: string; operator: string; value: number | string }

function pricingsOf(prices: readonly TimedPrice[]): Record<string, object[]> {
  const pricings: Record<string, object[]> = {}
  for (const [index, { price }] of prices.entries()) {
    const when = timesOf(prices[index]!, prices.slice(index + 1))
    for (const [item, rate] of Object.entries(price.rates) as [FeeItem, Rate][])
      (pricings[item] ??= []).push(...pricing(item, rate, when))
  }
  return pricings
}

/** The base, then the tiers, each with the size of prompt that it holds for. */
function pricing(item: FeeItem, { base, tiers }: Rate, when: Condition[]): object[] {
  const steps = [{ over: undefined, rate: base }, ...tiers]
  return steps.map(({ over, rate }, index) => {
    const next = steps[index + 1]?.over
    const conditions = [
      ...(over === undefined ? [] : [{ field: 'prompt_tokens', operator: 'gt', value: over }]),
      ...(next === undefined ? [] : [{ field: 'prompt_tokens', operator: 'lte', value: next }]),
      ...when,
    ]
    return { value: usdOf(rate), unit: isCounted(item) ? 'perCount' : 'perMTokens', currency: 'USD', conditions }
  })
}

/** When a price holds: from its day, in its hours, and while none that comes after it does. All in UTC. */
function timesOf({ from, hours }: TimedPrice, later: readonly TimedPrice[]): Condition[] {
  const until = later.map((other) => other.from).find((day) => day !== undefined)
  return [
    ...(from === undefined ? [] : [{ field: 'date', operator: 'gte', value: from }]),
    ...(until === undefined ? [] : [{ field: 'date', operator: 'lt', value: until }]),
    ...(hours === undefined ? [] : [{ field: 'time', operator: 'in', value: hours }]),
    ...later.flatMap((other) =>
      other.hours === undefined ? [] : [{ field: 'time', operator: 'not_in', value: other.hours }],
    ),
  ]
}

/** Anthropic's dialect. What a model can do is null, since its object must say all of that or nothing. */
const anthropic = ({ id, name, createdAt, contextLength, capabilities }: Model): object => ({
  type: 'model',
  id,
  display_name: name,
  created_at: new Date(createdAt * 1000).toISOString(),
  max_input_tokens: contextLength ?? null,
  max_tokens: capabilities.maxOutputTokens ?? null,
  capabilities: null,
  lifecycle: 'active',
  deprecated_at: null,
  retires_at: null,
  line: null,
})

const google = ({ id, name, contextLength, capabilities: { maxOutputTokens, reasoning } }: Model): object => ({
  name: `models/${id}`,
  displayName: name,
  supportedGenerationMethods: ['generateContent', 'streamGenerateContent', 'countTokens'],
  ...(contextLength === undefined ? {} : { inputTokenLimit: contextLength }),
  ...(maxOutputTokens === undefined ? {} : { outputTokenLimit: maxOutputTokens }),
  ...(reasoning === undefined ? {} : { thinking: reasoning !== 'none' }),
})

/** Google's dialect of Vertex AI. The name is one that its clients send back as it stands. */
function publisher({ id, name }: Model): object {
  const [owner = '', ...model] = id.split('/')
  return {
    name: model.length === 0 ? `models/${id}` : `publishers/${owner}/models/${model.join('/')}`,
    displayName: name,
  }
}

const isAnthropic = ({ request: { headers } }: AuthenticatedRequest): boolean => headers.has('anthropic-version')
/** Google's own clients ask at `/v1/models`, too. */
const isGoogle = ({ request: { headers } }: AuthenticatedRequest): boolean =>
  headers.has('x-goog-api-client') || headers.has('x-goog-api-key')

/** `describe` as text, made once for each model as the catalogue lists it. */
const TEXTS = new WeakMap<Model, string>()

function textOf(app: AppContext, model: Model): string {
  let text = TEXTS.get(model)
  if (text === undefined) TEXTS.set(model, (text = JSON.stringify(describe(app, model))))
  return text
}

/** Texts that are made at once: nobody's stream is to stand still while hundreds are. */
const TEXTS_AT_ONCE = 20

async function textsOf(app: AppContext, models: readonly Model[]): Promise<string[]> {
  let made = 0
  const texts: string[] = []
  for (const model of models) {
    if (!TEXTS.has(model) && ++made % TEXTS_AT_ONCE === 0) await setImmediate()
    texts.push(textOf(app, model))
  }
  return texts
}

const JSON_HEADERS = { headers: { 'content-type': 'application/json' } }

/** `GET /v1/models`, in the dialect of who asks. */
export const listModels = async (app: AppContext, call: AuthenticatedRequest): Promise<Response> => {
  if (isAnthropic(call)) return listAnthropic(app, call)
  if (isGoogle(call)) return listGoogleModels(app, call)
  return new Response(
    `{"object":"list","data":[${(await textsOf(app, allowed(app, call))).join(',')}],"has_more":false}`,
    JSON_HEADERS,
  )
}

function listAnthropic(app: AppContext, { query, ...call }: AuthenticatedRequest): Response {
  const all = conversational(app, call)
  const limit = readCount(query, 'limit', all.length)
  const [after, before] = ['after_id', 'before_id'].map((name) => placeOf(all, query, name))
  const rest = all.slice(after === undefined ? 0 : after + 1, before)
  const page = before === undefined ? rest.slice(0, limit) : rest.slice(-limit)
  return Response.json({
    data: page.map(anthropic),
    has_more: page.length < rest.length,
    first_id: page[0]?.id ?? null,
    last_id: page.at(-1)?.id ?? null,
  })
}

/** `GET /v1beta/models`: Google's dialect. */
export const listGoogleModels = (app: AppContext, call: AuthenticatedRequest): Response =>
  listGoogle(call, 'models', conversational(app, call), google)

/**
 * `GET /v1/publishers/{publisher}/models`: that of Vertex AI. Its clients can ask for one publisher only, so that every
 * list holds all models.
 */
export const listPublisherModels = (app: AppContext, call: AuthenticatedRequest): Response =>
  listGoogle(call, 'publisherModels', conversational(app, call), publisher)

function listGoogle(
  { query }: AuthenticatedRequest,
  member: string,
  all: Model[],
  say: (model: Model) => object,
): Response {
  const size = readCount(query, 'pageSize', all.length)
  const rest = all.slice((placeOf(all, query, 'pageToken') ?? -1) + 1)
  const page = rest.slice(0, size)
  return Response.json({
    [member]: page.map(say),
    ...(page.length < rest.length ? { nextPageToken: page.at(-1)!.id } : {}),
  })
}

/** Models on a page: as many as asked for, or all. */
function readCount(query: URLSearchParams, name: string, all: number): number {
  const text = query.get(name)
  if (text === null) return Math.max(all, 1)
  if (!/^\d{1,6}$/.test(text) || Number(text) === 0) throw invalid(name, 'must be a whole number from 1 on')
  return Number(text)
}

function placeOf(all: Model[], query: URLSearchParams, name: string): number | undefined {
  const id = query.get(name)
  if (id === null || id === '') return undefined
  const index = all.findIndex((model) => model.id === id)
  if (index < 0) throw invalid(name, 'must be what an earlier page of this list said')
  return index
}

/** Models that the asking key may use. */
const allowed = ({ catalogue }: AppContext, { identity }: Pick<AuthenticatedRequest, 'identity'>): Model[] =>
  catalogue.list().filter(({ id }) => identity.allows(id))

/** Those of them that answer in the protocol of the dialect: predictions are no part of it. */
const conversational = (app: AppContext, call: Pick<AuthenticatedRequest, 'identity'>): Model[] =>
  allowed(app, call).filter(({ capabilities }) => capabilities.api !== 'predictions')

/** `GET /v1/models/{id}`: the slash of the id raw or as `%2F`. */
export const getModel = (app: AppContext, call: AuthenticatedRequest): Response => {
  const model = find(app, call, call.params[0]!)
  return isGoogle(call)
    ? Response.json(google(model))
    : isAnthropic(call)
      ? Response.json(anthropic(model))
      : new Response(textOf(app, model), JSON_HEADERS)
}

export const getGoogleModel = (app: AppContext, call: AuthenticatedRequest): Response =>
  Response.json(google(find(app, call, call.params[0]!)))

export const getPublisherModel = (app: AppContext, call: AuthenticatedRequest): Response =>
  Response.json(publisher(find(app, call, `${call.params[0]}/${call.params[1]}`)))

/** What a request for this name would reach. A key hears nothing of models that it may not use. */
function find({ catalogue }: AppContext, { identity }: AuthenticatedRequest, name: string): Model {
  if (!identity.allows(name))
    throw new GatewayError(
      'model_not_found',
      'There is no such model for this key. GET /v1/models lists what there is.',
      { param: 'model' },
    )
  return catalogue.model(name)
}
