import { setImmediate } from 'node:timers/promises'
import type { AuthenticatedRequest, AppContext } from '../context.ts'
import { type FeeItem, isCounted } from '../config/terms.ts'
import { GatewayError, invalid } from '../error.ts'
import { servesUnpriced } from '../ledger/admission.ts'
import type { Rate, TimedPrice } from '../ledger/prices.ts'
import { usdOf } from '../money.ts'
import { protocols } from '../protocols/index.ts'
import type { Capabilities } from '../protocols/protocol.ts'
import type { Model } from '../providers/model.ts'

/**
 * A model in OpenAI's format with additional fields. Unknown values are null, or absent in objects; an unknown date is
 * 0, since clients with typed languages read no list in which it is null.
 */
export const describe = (
  { catalogue, prices }: Pick<AppContext, 'catalogue' | 'prices'>,
  { id, createdAt, ownedBy, name, capabilities, contextLength }: Model,
): object => ({
  id,
  object: 'model',
  created: createdAt ?? 0,
  owned_by: ownedBy,
  display_name: name,
  input_modalities: capabilities.input ?? null,
  output_modalities: capabilities.output ?? null,
  capabilities: capabilitiesOf(capabilities),
  context_length: contextLength ?? null,
  max_output_tokens: capabilities.maxOutputTokens ?? null,
  supported_parameters: parametersOf(capabilities),
  pricings: pricingsOf(prices.timed(id, catalogue.candidates(id))),
  protocols: protocolsOf(capabilities),
})

const capabilitiesOf = ({ reasoning, tools, structuredOutput }: Capabilities): Record<string, boolean> => ({
  ...(reasoning === undefined ? {} : { reasoning: reasoning !== 'none' }),
  ...(tools === undefined ? {} : { tools }),
  ...(structuredOutput === undefined ? {} : { structured_output: structuredOutput }),
})

/** The parameters of chat completions that the model is known to support; null if too little is known. */
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
 * The protocols in which a model can be requested: any conversation protocol, whatever the provider's; images only for
 * models that generate them; prediction models only as predictions.
 */
function protocolsOf({ api, output }: Capabilities): string[] {
  if (api === 'predictions') return ['predictions']
  return [...CONVERSATIONS, ...(output?.includes('image') === true ? ['images'] : []), 'predictions']
}

type Condition = { field: string; operator: string; value: number | string }

function pricingsOf(prices: readonly TimedPrice[]): Record<string, object[]> {
  const pricings: Record<string, object[]> = {}
  for (const [index, { price }] of prices.entries()) {
    const when = timeConditions(prices[index]!, prices.slice(index + 1))
    for (const [item, rate] of Object.entries(price.rates) as [FeeItem, Rate][])
      (pricings[item] ??= []).push(...pricing(item, rate, when))
  }
  return pricings
}

/** The base rate and the tiers, each with the prompt sizes it applies to. */
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

/** When a price applies, in UTC: from its day, in its hours, and unless a later price applies. */
function timeConditions(price: TimedPrice, later: readonly TimedPrice[]): Condition[] {
  const { from, hours } = price
  const until = later.map((other) => other.from).find((day) => day !== undefined)
  return [
    ...(from === undefined ? [] : [{ field: 'date', operator: 'gte', value: from }]),
    ...(until === undefined ? [] : [{ field: 'date', operator: 'lt', value: until }]),
    ...(hours === undefined ? [] : [{ field: 'time', operator: 'in', value: hoursText(price) }]),
    ...later.flatMap((other) =>
      other.hours === undefined ? [] : [{ field: 'time', operator: 'not_in', value: hoursText(other) }],
    ),
  ]
}

/** `Mon-Fri 01:00-04:00 except 2027-01-01, 2027-10-01`: one value, since all conditions of an entry must hold. */
const hoursText = ({ hours = '', days, except = [] }: TimedPrice): string =>
  `${days === undefined ? '' : `${days} `}${hours}${except.length === 0 ? '' : ` except ${except.join(', ')}`}`

/**
 * A model in Anthropic's format, which requires every member: what is unknown is null, and an unknown date the epoch.
 * `capabilities` would have to be complete.
 */
const toAnthropic = ({ id, name, createdAt, contextLength, capabilities }: Model): object => ({
  type: 'model',
  id,
  display_name: name,
  created_at: new Date((createdAt ?? 0) * 1000).toISOString(),
  max_input_tokens: contextLength ?? null,
  max_tokens: capabilities.maxOutputTokens ?? null,
  capabilities: null,
  allowed_fallback_models: null,
})

const toGoogle = ({ id, name, contextLength, capabilities: { maxOutputTokens, reasoning } }: Model): object => ({
  name: `models/${id}`,
  displayName: name,
  supportedGenerationMethods: ['generateContent', 'streamGenerateContent', 'countTokens'],
  ...(contextLength === undefined ? {} : { inputTokenLimit: contextLength }),
  ...(maxOutputTokens === undefined ? {} : { outputTokenLimit: maxOutputTokens }),
  ...(reasoning === undefined ? {} : { thinking: reasoning !== 'none' }),
})

/** A model in the format of Vertex AI, whose clients send the name back unchanged. */
function toPublisherModel({ id, name }: Model): object {
  const [owner = '', ...model] = id.split('/')
  return {
    name: model.length === 0 ? `models/${id}` : `publishers/${owner}/models/${model.join('/')}`,
    displayName: name,
  }
}

const isAnthropic = ({ request: { headers } }: AuthenticatedRequest): boolean =>
  protocols.messages.serve.ownsHeaders!(headers)
/** Google's clients request `/v1/models`, too. */
const isGoogle = ({ request: { headers } }: AuthenticatedRequest): boolean =>
  protocols.generateContent.serve.ownsHeaders!(headers)

/** The JSON of each model in the catalogue. */
const TEXTS = new WeakMap<Model, string>()

function modelText(app: AppContext, model: Model): string {
  let text = TEXTS.get(model)
  if (text === undefined) TEXTS.set(model, (text = JSON.stringify(describe(app, model))))
  return text
}

/** Models serialized per event-loop turn, so that a long list does not delay streams. */
const TEXTS_PER_TURN = 20

async function modelTexts(app: AppContext, models: readonly Model[]): Promise<string[]> {
  let made = 0
  const texts: string[] = []
  for (const model of models) {
    if (!TEXTS.has(model) && ++made % TEXTS_PER_TURN === 0) await setImmediate()
    texts.push(modelText(app, model))
  }
  return texts
}

const JSON_HEADERS = { headers: { 'content-type': 'application/json' } }

/** `GET /v1/models`, in the format of the client's API. */
export const listModels = async (app: AppContext, call: AuthenticatedRequest): Promise<Response> => {
  if (isAnthropic(call)) return listAnthropic(app, call)
  if (isGoogle(call)) return listGoogleModels(app, call)
  return new Response(
    `{"object":"list","data":[${(await modelTexts(app, allowed(app, call))).join(',')}],"has_more":false}`,
    JSON_HEADERS,
  )
}

function listAnthropic(app: AppContext, call: AuthenticatedRequest): Response {
  const { query } = call
  const all = conversational(app, call)
  const limit = readCount(query, 'limit', all.length)
  const [after, before] = ['after_id', 'before_id'].map((name) => indexOf(all, query, name))
  const rest = all.slice(after === undefined ? 0 : after + 1, before)
  const page = before === undefined ? rest.slice(0, limit) : rest.slice(-limit)
  return Response.json({
    data: page.map(toAnthropic),
    has_more: page.length < rest.length,
    first_id: page[0]?.id ?? null,
    last_id: page.at(-1)?.id ?? null,
  })
}

/** `GET /v1beta/models`: Google's format. */
export const listGoogleModels = (app: AppContext, call: AuthenticatedRequest): Response =>
  listGoogle(call, 'models', conversational(app, call), toGoogle)

/**
 * `GET /v1/publishers/{publisher}/models`: the format of Vertex AI. Its clients can list only one publisher, so that
 * each list has all models.
 */
export const listPublisherModels = (app: AppContext, call: AuthenticatedRequest): Response =>
  listGoogle(call, 'publisherModels', conversational(app, call), toPublisherModel)

function listGoogle(
  { query }: AuthenticatedRequest,
  member: string,
  all: Model[],
  write: (model: Model) => object,
): Response {
  const size = readCount(query, 'pageSize', all.length)
  const rest = all.slice((indexOf(all, query, 'pageToken') ?? -1) + 1)
  const page = rest.slice(0, size)
  return Response.json({
    [member]: page.map(write),
    ...(page.length < rest.length ? { nextPageToken: page.at(-1)!.id } : {}),
  })
}

/** The page size: the one requested, or all models. */
function readCount(query: URLSearchParams, name: string, all: number): number {
  const text = query.get(name)
  if (text === null) return Math.max(all, 1)
  if (!/^\d{1,6}$/.test(text) || Number(text) === 0) throw invalid(name, 'must be a whole number of at least 1')
  return Number(text)
}

function indexOf(all: Model[], query: URLSearchParams, name: string): number | undefined {
  const id = query.get(name)
  if (id === null || id === '') return undefined
  const index = all.findIndex((model) => model.id === id)
  if (index < 0) throw invalid(name, 'must be a value from an earlier page of this list')
  return index
}

/** Models that the key may use, that can be billed, and that pass the filters of the query. */
function allowed(app: AppContext, { identity, query }: ListRequest): Model[] {
  const matches = readFilter(query)
  const isServed = (model: Model): boolean => !isUnpriced(app, model)
  const all = app.catalogue.list()
  return (servesUnpriced(app.config, app.keys, 'unpriced') ? all : all.filter(isServed)).filter(
    (model) => identity.allows(model.id) && matches(model),
  )
}

const isUnpriced = ({ catalogue, prices }: Pick<AppContext, 'catalogue' | 'prices'>, { id }: Model): boolean =>
  prices.timed(id, catalogue.candidates(id)).length === 0

type ListRequest = Pick<AuthenticatedRequest, 'identity' | 'query'>

const CAPABILITIES = ['reasoning', 'tools', 'structured_output']

/** `owned_by`, `capability` (once or several times), and `q`: a part of the id or name in any case. */
function readFilter(query: URLSearchParams): (model: Model) => boolean {
  const owner = query.get('owned_by')
  const wanted = query.getAll('capability')
  const part = query.get('q')?.toLowerCase() ?? ''
  if (wanted.some((name) => !CAPABILITIES.includes(name)))
    throw invalid('capability', `must be one of ${CAPABILITIES.join(', ')}`)
  return ({ id, name, ownedBy, capabilities }) => {
    const known = capabilitiesOf(capabilities)
    return (
      (owner === null || ownedBy === owner) &&
      `${id} ${name}`.toLowerCase().includes(part) &&
      wanted.every((capability) => known[capability] === true)
    )
  }
}

/** Those that can be requested in Anthropic's and Google's protocols: all but prediction models. */
const conversational = (app: AppContext, call: ListRequest): Model[] =>
  allowed(app, call).filter(({ capabilities }) => capabilities.api !== 'predictions')

/** `GET /v1/models/{id}`: the slash in the id may be encoded as `%2F`. */
export const getModel = (app: AppContext, call: AuthenticatedRequest): Response => {
  const model = findModel(app, call, call.params[0]!)
  return isGoogle(call)
    ? Response.json(toGoogle(model))
    : isAnthropic(call)
      ? Response.json(toAnthropic(model))
      : new Response(modelText(app, model), JSON_HEADERS)
}

export const getGoogleModel = (app: AppContext, call: AuthenticatedRequest): Response =>
  Response.json(toGoogle(findModel(app, call, call.params[0]!)))

export const getPublisherModel = (app: AppContext, call: AuthenticatedRequest): Response =>
  Response.json(toPublisherModel(findModel(app, call, `${call.params[0]}/${call.params[1]}`)))

/** The model that a request with this name would use. A key cannot see models that it may not use. */
function findModel({ catalogue }: AppContext, { identity }: AuthenticatedRequest, name: string): Model {
  if (!identity.allows(name))
    throw new GatewayError('model_not_found', 'No such model for this key; GET /v1/models lists the models.', {
      param: 'model',
    })
  return catalogue.model(name)
}
