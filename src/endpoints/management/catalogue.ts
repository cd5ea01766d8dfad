import type { FeeItem } from '../../config/terms.ts'
import { Plans } from '../../accounts/plans.ts'
import type { AppContext } from '../../context.ts'
import type { Rate } from '../../ledger/prices.ts'
import { PROVIDER_ROWS } from '../../providers/catalog-rows.ts'
import type { Provider } from '../../providers/catalogue.ts'
import { howToEnable } from '../../providers/configured.ts'
import { answer, cursorAfter, limitOf, positionOf, timeOrNull, unknown, usd, type Page } from './answer.ts'
import type { ManagementRequest } from './route.ts'

/**
 * A provider. `found_by`: what switched it on, a variable or `sluice.yaml`; `switched_on_by`: what would switch it on.
 * `models`: the listed ones.
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
  source: 'sluice.yaml' | 'catalogue'
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
  price_usd: string
  discount: number
  windows: { name: string; flows: number; value_usd: string }[]
}

/** `GET /v1/management/providers`: those that are on, and what would switch the others on. */
export function listProviders(app: AppContext): Response {
  const on = app.catalogue.providers()
  const known = new Set(on.map(({ id }) => id))
  const off = PROVIDER_ROWS.filter(({ id }) => !known.has(id)).map(
    ({ id, name, protocols, baseUrl }): ProviderAnswer => ({
      id,
      name,
      on: false,
      found_by: null,
      switched_on_by: howToEnable(id, app.config) ?? null,
      protocols: protocols.map(({ protocol }) => protocol),
      base_url: baseUrl ?? null,
      models: 0,
      key: null,
    }),
  )
  const body: Page<ProviderAnswer> = {
    data: [...on.map((provider) => shownProvider(app, provider)), ...off],
    next: null,
    scanned_to: null,
  }
  return answer(body)
}

/** `GET /v1/management/providers/{id}`. */
export function getProvider(app: AppContext, { params: [id] }: ManagementRequest): Response {
  const provider = app.catalogue.providers().find((one) => one.id === id)
  if (provider === undefined) throw unknown('provider')
  return answer(shownProvider(app, provider))
}

function shownProvider({ catalogue, providerKeys }: AppContext, provider: Provider): ProviderAnswer {
  const { id, name, foundBy, apis, apiKey, apiKeys } = provider
  const made = foundBy === 'console' ? providerKeys.find(id) : undefined
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
  const [text, provider, on] = [query.get('q')?.toLowerCase() ?? '', query.get('provider'), query.get('on')]
  const listed = new Set(app.catalogue.list().map(({ id }) => id))
  const matching = app.catalogue
    .all()
    .filter(
      ({ id, name, endpoints }) =>
        id > after &&
        `${id}\n${name}`.toLowerCase().includes(text) &&
        (provider === null || endpoints.some((endpoint) => endpoint.provider === provider)) &&
        (on === null || String(listed.has(id)) === on),
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

type Model = ReturnType<AppContext['catalogue']['all']>[number]

function shownModel({ catalogue, prices, config }: AppContext, model: Model, on: boolean): ModelAnswer {
  const { id, name, ownedBy, contextLength, endpoints, capabilities } = model
  const price = on ? prices.of(id, catalogue.candidates(id)) : undefined
  const active = new Set(catalogue.providers().map((provider) => provider.id))
  const { reasoning, tools, maxOutputTokens } = capabilities
  return {
    id,
    name,
    on,
    source: config.models.has(id) ? 'sluice.yaml' : 'catalogue',
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
export function listPlans({ config }: AppContext): Response {
  const plans = new Plans(config)
  const data = plans.tiers().map(
    ({ tier, usdPerMonth, flows, discount }): PlanAnswer => ({
      tier,
      price_usd: String(usdPerMonth),
      discount: discount / 100,
      windows: Object.entries(flows).map(([name, most]) => ({
        name,
        flows: Number(most) / 1_000_000,
        value_usd: usd((most * plans.usdPerFlow) / 1_000_000n),
      })),
    }),
  )
  return answer({ data, next: null, scanned_to: null } satisfies Page<PlanAnswer>)
}
