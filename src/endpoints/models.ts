import type { Call, Spine } from '../spine.ts'
import { isCounted } from '../config-schema.ts'
import { GatewayError } from '../error.ts'
import type { FeeItem, Price, Rate } from '../ledger/prices.ts'
import { usdOf } from '../money.ts'
import { nearest } from '../nearest.ts'
import { protocols } from '../protocols/index.ts'
import type { Model } from '../providers/catalogue.ts'

/** OpenAI's dialect, with what is known beside it: null, or left out of `capabilities` and `pricings`, is what is not known. */
const openAi = (model: Model, price: Price | undefined): object => ({
  id: model.id, object: 'model', created: model.createdAt, owned_by: model.ownedBy, display_name: model.name,
  capabilities: model.abilities.reasoning === undefined ? {} : { reasoning: model.abilities.reasoning !== 'none' },
  context_length: model.contextLength ?? null,
  max_output_tokens: model.abilities.maxOutputTokens ?? null,
  pricings: Object.fromEntries(Object.entries(price?.rates ?? {}).map(([item, rate]) => [item, pricing(item as FeeItem, rate)])),
  // Any conversation reaches every model, the images API those that make images.
  protocols: Object.keys(protocols).filter((name) => name !== 'images' || model.abilities.output?.includes('image') === true),
})

/** The base, then the tiers, each with the size of prompt that it holds for. */
function pricing(item: FeeItem, { base, tiers }: Rate): object[] {
  const steps = [{ over: undefined, rate: base }, ...tiers]
  return steps.map(({ over, rate }, index) => {
    const next = steps[index + 1]?.over
    const conditions = [...(over === undefined ? [] : [{ field: 'prompt_tokens', operator: 'gt', value: over }]), ...(next === undefined ? [] : [{ field: 'prompt_tokens', operator: 'lte', value: next }])]
    return { value: usdOf(rate), unit: isCounted(item) ? 'perCount' : 'perMTokens', currency: 'USD', conditions }
  })
}

/** What a pay-as-you-go client pays before discounts. */
const priceOf = ({ prices, catalogue }: Spine, { id }: Model): Price | undefined => prices.of(id, catalogue.endpoints(id, 'chat.completions'))

const anthropic = (model: Model): object => ({ type: 'model', id: model.id, display_name: model.name, created_at: new Date(model.createdAt * 1000).toISOString() })

const google = (model: Model): object => ({
  name: `models/${model.id}`, displayName: model.name, supportedGenerationMethods: ['generateContent', 'streamGenerateContent', 'countTokens'],
  ...(model.contextLength === undefined ? {} : { inputTokenLimit: model.contextLength }),
  ...(model.abilities.maxOutputTokens === undefined ? {} : { outputTokenLimit: model.abilities.maxOutputTokens }),
})

const isAnthropic = (call: Call): boolean => call.request.headers.has('anthropic-version')

/** `GET /v1/models`, in Anthropic's dialect when the request carries `anthropic-version`. */
export const listModels = (spine: Spine, call: Call): Response => {
  const models = allowed(spine, call)
  if (!isAnthropic(call)) return Response.json({ object: 'list', data: models.map((model) => openAi(model, priceOf(spine, model))), has_more: false })
  return Response.json({ data: models.map(anthropic), has_more: false, first_id: models[0]?.id ?? null, last_id: models.at(-1)?.id ?? null })
}

/** `GET /v1beta/models`: Google's dialect. */
export const listGoogleModels = (spine: Spine, call: Call): Response => Response.json({ models: allowed(spine, call).map(google) })

/** Models that the asking key may use. */
const allowed = ({ catalogue }: Spine, { identity }: Call): Model[] => catalogue.list().filter(({ id }) => identity.allows(id))

/** `GET /v1/models/{id}`: the slash of the id raw or as `%2F`. */
export const getModel = (spine: Spine, call: Call): Response => {
  const model = find(spine, call.params[0]!)
  return Response.json(isAnthropic(call) ? anthropic(model) : openAi(model, priceOf(spine, model)))
}

export const getGoogleModel = (spine: Spine, call: Call): Response => Response.json(google(find(spine, call.params[0]!)))

function find(spine: Spine, id: string): Model {
  const model = spine.catalogue.list().find((candidate) => candidate.id === id)
  if (model !== undefined) return model
  const near = nearest(id, spine.catalogue.list().map((known) => known.id))
  const advice = near.length === 0 ? 'GET /v1/models lists what there is.' : `Nearest: ${near.join(', ')}.`
  throw new GatewayError('model_not_found', `There is no model '${id.slice(0, 200)}'. ${advice}`, { param: 'model' })
}
