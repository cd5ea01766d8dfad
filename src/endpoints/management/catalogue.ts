import type { FeeItem } from '../../config/terms.ts'
import type { AppContext } from '../../context.ts'
import type { Price, Rate } from '../../ledger/prices.ts'
import { PROVIDER_ROWS } from '../../providers/catalog-rows.ts'
import type { Provider } from '../../providers/catalogue.ts'
import { howToEnable } from '../../providers/configured.ts'
import type { SetKind } from '../../pipeline/settings/set-object.ts'
import { answer, cursorAfter, limitOf, positionOf, timeOrNull, unknown, usd, versioned, type Page } from './answer.ts'
import { flagIn } from './query-names.ts'
import type { ManagementRequest } from './route.ts'
import { type SetAnswer, shownSet, versionOf } from './set-objects.ts'

/**
 * A provider. `found_by`: what switched it on, a variable or `sluice.yaml`; `switched_on_by`: what would switch it on.
 * `models`: the listed ones. `set_in`: where it can be changed alone, `sluice.yaml:12` or a variable; `set`: what the
 * console set.
 */
export type ProviderAnswer = {
  id: string
  name: string
  on: boolean
  found_by: string | null
  switched_on_by: string | null
  protocols: string[]
  base_url: string | null
  models: number
  set_in: string | null
  set: SetAnswer | null
  /** The last characters of its keys, and who set one at run time; null where it has none. */
  key: { set: true; last4: string; count: number; source: string; at: string | null; by: string | null } | null
}

/** A price: USD per million tokens, or per unit. `tiers` hold for the whole request above so many prompt tokens. */
type RateAnswer = { usd: string; tiers: { over: number; usd: string }[] }

/** A model. `on`: one of its providers is. `prices`: null where none is known. */
export type ModelAnswer = {
  id: string
  name: string
  on: boolean
  source: 'sluice.yaml' | 'console' | 'catalogue'
  set_in: string | null
  set: SetAnswer | null
  owned_by: string
  context_length: number | null
  max_output_tokens: number | null
  input: string[] | null
  output: string[] | null
  reasoning: boolean | null
  tools: boolean | null
  endpoints: { provider: string; model: string; protocol: string | null; on: boolean }[]
  price_version: string | null
  prices: Partial<Record<FeeItem, RateAnswer>> | null
}

export type PlanAnswer = {
  tier: string
  set_in: string | null
  set: SetAnswer | null
  price_usd: string
  discount: number
  windows: { name: string; flows: number; value_usd: string }[]
}

/** `GET /v1/management/providers`: those that are on, what would switch the others on, and those that are set up. */
export function listProviders(app: AppContext): Response {
  const on = app.catalogue.providers()
  const known = new Set(on.map(({ id }) => id))
  const off = PROVIDER_ROWS.map(({ id }) => id).filter((id) => !known.has(id))
  const set = app.runTime.list('provider').map(({ name }) => name)
  const body: Page<ProviderAnswer> = {
    data: [
      ...on.map((provider) => shownProvider(app, provider)),
      ...[...new Set([...off, ...set])].filter((id) => !known.has(id)).map((id) => shownOff(app, id)),
    ],
    next: null,
    scanned_to: null,
  }
  return answer(body)
}

/** `GET /v1/management/providers/{id}`. */
export function getProvider(app: AppContext, { params: [id = ''] }: ManagementRequest): Response {
  const provider = app.catalogue.providers().find((one) => one.id === id)
  const isKnown = app.runTime.find('provider', id) !== undefined || PROVIDER_ROWS.some((row) => row.id === id)
  if (provider === undefined && !isKnown) throw unknown('provider')
  const shown = provider === undefined ? shownOff(app, id) : shownProvider(app, provider)
  return versioned(shown, versionOf(app, 'provider', id))
}

const setMembers = (app: AppContext, kind: SetKind, name: string): Pick<ProviderAnswer, 'set_in' | 'set'> => ({
  set_in: app.runTime.setUpBy(kind, name) ?? null,
  set: shownSet(app, kind, name),
})

function shownOff(app: AppContext, id: string): ProviderAnswer {
  const row = PROVIDER_ROWS.find((one) => one.id === id)
  return {
    id,
    name: row?.name ?? id,
    on: false,
    found_by: null,
    switched_on_by: howToEnable(id, app.config) ?? null,
    protocols: row?.protocols.map(({ protocol }) => protocol) ?? [],
    base_url: row?.baseUrl ?? null,
    models: 0,
    ...setMembers(app, 'provider', id),
    key: null,
  }
}

function shownProvider(app: AppContext, provider: Provider): ProviderAnswer {
  const { catalogue, runTime } = app
  const { id, name, foundBy, apis, apiKey, apiKeys } = provider
  const made = foundBy === 'console' ? (runTime.find('provider-key', id) ?? runTime.find('provider', id)) : undefined
  const keys = apiKeys?.map(({ key }) => key) ?? (apiKey === undefined ? [] : [apiKey])
  return {
    id,
    name,
    on: true,
    found_by: foundBy,
    switched_on_by: null,
    protocols: apis.map(({ protocol }) => protocol),
    base_url: apis[0] === undefined || provider.inProcess !== undefined ? null : apis[0].baseUrl,
    models: catalogue.list().filter(({ endpoints }) => endpoints.some(({ provider: of }) => of === id)).length,
    ...setMembers(app, 'provider', id),
    key:
      keys.length === 0
        ? null
        : {
            set: true,
            last4: keys.map(lastOf).join(', '),
            count: keys.length,
            source: foundBy,
            at: timeOrNull(made?.at),
            by: made?.by ?? null,
          },
  }
}

/** Short keys have nothing to show. */
const lastOf = (key: string): string => (key.length < 16 ? '' : key.slice(-4))

/** `GET /v1/management/models`: all, with those that are off; `q` and `provider` narrow, `on=true` or `false` too. */
export function listModels(app: AppContext, inbound: ManagementRequest): Response {
  const limit = limitOf(inbound)
  const after = positionOf<string>(inbound) ?? ''
  const { query } = inbound
  const [text, provider, on] = [query.get('q')?.toLowerCase() ?? '', query.get('provider'), flagIn(query, 'on')]
  const listed = new Set(app.catalogue.list().map(({ id }) => id))
  const matching = allModels(app)
    .filter(
      ({ id, name, endpoints }) =>
        id > after &&
        `${id}\n${name}`.toLowerCase().includes(text) &&
        (provider === null || endpoints.some((endpoint) => endpoint.provider === provider)) &&
        (on === undefined || listed.has(id) === on),
    )
    .sort((a, b) => (a.id < b.id ? -1 : 1))
  const page = matching.slice(0, limit)
  const body: Page<ModelAnswer> = {
    data: page.map((model) => shownModel(app, model, listed.has(model.id))),
    next: matching.length > limit ? cursorAfter(inbound, page.at(-1)?.id) : null,
    scanned_to: null,
  }
  return answer(body)
}

/** `GET /v1/management/models/{name}`. */
export function getModel(app: AppContext, { params: [name = ''] }: ManagementRequest): Response {
  const model = allModels(app).find(({ id }) => id === name)
  if (model === undefined) throw unknown('model')
  const isOn = app.catalogue.list().some(({ id }) => id === name)
  return versioned(shownModel(app, model, isOn), versionOf(app, 'model', name))
}

type Model = ReturnType<AppContext['catalogue']['all']>[number]

/** Those of the catalogue, and those that are set but not in force. */
function allModels({ catalogue, runTime }: AppContext): Model[] {
  const all = catalogue.all()
  const known = new Set(all.map(({ id }) => id))
  const others = runTime.list('model').filter(({ name }) => !known.has(name))
  return [...all, ...others.map(({ name }) => ({ id: name, name, ownedBy: '', endpoints: [], capabilities: {} }))]
}

function sourceOf({ runTime, config }: AppContext, id: string): ModelAnswer['source'] {
  if (!config.models.has(id)) return 'catalogue'
  return runTime.setUpBy('model', id) === undefined ? 'console' : 'sluice.yaml'
}

/** The price of a model whose providers are off: the configured one, else the list price of the first that has one. */
function priceWhenOn({ prices }: AppContext, { id, endpoints }: Model): Price | undefined {
  const listed = endpoints.map(({ provider, model }) => prices.cost(provider, model))
  return prices.of(id, []) ?? listed.find((price) => price !== undefined)
}

function shownModel(app: AppContext, model: Model, on: boolean): ModelAnswer {
  const { catalogue, prices } = app
  const { id, name, ownedBy, contextLength, endpoints, capabilities } = model
  const price = on ? prices.of(id, catalogue.candidates(id)) : priceWhenOn(app, model)
  const active = new Set(catalogue.providers().map((provider) => provider.id))
  const { reasoning, tools, maxOutputTokens } = capabilities
  return {
    id,
    name,
    on,
    source: sourceOf(app, id),
    ...setMembers(app, 'model', id),
    owned_by: ownedBy,
    context_length: contextLength ?? null,
    max_output_tokens: maxOutputTokens ?? null,
    input: capabilities.input === undefined ? null : [...capabilities.input],
    output: capabilities.output === undefined ? null : [...capabilities.output],
    reasoning: reasoning === undefined ? null : reasoning !== 'none',
    tools: tools ?? null,
    endpoints: endpoints.map(({ provider, model: of, protocol }) => ({
      provider,
      model: of,
      protocol: protocol ?? null,
      on: active.has(provider),
    })),
    price_version: price?.version ?? null,
    prices:
      price === undefined
        ? null
        : Object.fromEntries(Object.entries(price.rates).map(([item, rate]) => [item, shownRate(rate)])),
  }
}

const shownRate = ({ base, tiers }: Rate): RateAnswer => ({
  usd: usd(base),
  tiers: tiers.map(({ over, rate }) => ({ over, usd: usd(rate) })),
})

/** `GET /v1/management/plans`. */
export const listPlans = (app: AppContext): Response =>
  answer({ data: shownPlans(app), next: null, scanned_to: null } satisfies Page<PlanAnswer>)

/** `GET /v1/management/plans/{tier}`. */
export function getPlan(app: AppContext, { params: [tier = ''] }: ManagementRequest): Response {
  const plan = shownPlans(app).find((one) => one.tier === tier)
  if (plan === undefined) throw unknown('plan')
  return versioned(plan, versionOf(app, 'plan', tier))
}

const shownPlans = (app: AppContext): PlanAnswer[] =>
  app.ledger.plans.tiers().map(({ tier, usdPerMonth, flows, discount }) => ({
    tier,
    ...setMembers(app, 'plan', tier),
    price_usd: String(usdPerMonth),
    discount: discount / 100,
    windows: Object.entries(flows).map(([name, most]) => ({
      name,
      flows: Number(most) / 1_000_000,
      value_usd: usd((most * app.ledger.plans.usdPerFlow) / 1_000_000n),
    })),
  }))
