import { ConfigError } from '../../config/config.ts'
import { object, string } from '../../config/shape.ts'
import type { AppContext } from '../../context.ts'
import { GatewayError, invalid } from '../../error.ts'
import { PROVIDER_ROWS } from '../../providers/catalog-rows.ts'
import { builtInProvider, howToEnable } from '../../providers/configured.ts'
import type { Endpoint } from '../../providers/catalogue.ts'
import { testCall } from '../../providers/test-call.ts'
import { answer, nothing, unknown } from './answer.ts'
import { bodyOf } from './body.ts'
import type { ManagementRequest } from './route.ts'
import { changeObject } from './set-objects.ts'

export const KEY = object(
  {
    key: string({
      what: 'a key',
      check: (text) =>
        /^[\x21-\x7e]{8,500}$/.test(text) ? undefined : 'must be 8 to 500 printable characters without spaces',
    }),
  },
  { required: ['key'] },
)
export const TEST = object({ model: string({ what: 'the name of a model' }) })

/** One small call of a provider. `error`: null where it answered. */
export type ProviderTestAnswer = {
  model: string
  protocol: string
  status: number | null
  first_byte_ms: number | null
  total_ms: number
  error: string | null
}

/** `PUT /v1/management/providers/{id}/key`: switches a built-in provider on, on all servers. It is never read back. */
export async function setProviderKey(app: AppContext, inbound: ManagementRequest): Promise<Response> {
  const id = settable(app, inbound)
  const { key = '' } = await bodyOf(inbound, KEY)
  checkKey(app, id, key)
  return changeKey(app, inbound, id, key)
}

/** `DELETE /v1/management/providers/{id}/key`: switches it off again. */
export const removeProviderKey = async (app: AppContext, inbound: ManagementRequest): Promise<Response> =>
  changeKey(app, inbound, settable(app, inbound), undefined)

async function changeKey(
  app: AppContext,
  inbound: ManagementRequest,
  name: string,
  value: string | undefined,
): Promise<Response> {
  const kind = 'provider-key'
  await changeObject(app, inbound, { kind, name, action: 'provider.key', edits: () => [{ kind, name, value }] })
  return nothing()
}

/** Throws invalid_request (400) for a key with which a built-in provider would not be on. */
export function checkKey({ config }: Pick<AppContext, 'config'>, id: string, key: string): void {
  const row = PROVIDER_ROWS.find((one) => one.id === id)
  if (row === undefined) return
  const [variable] = row.keyVariables
  if (variable === undefined) throw invalid('key', howToEnable(id, config) ?? `${id} takes no key`)
  try {
    const provider = builtInProvider(row, { ...config, env: { ...config.env, [variable]: key } })
    if (provider === undefined) throw invalid('key', howToEnable(id, config) ?? `${id} takes no key`)
  } catch (error) {
    throw error instanceof ConfigError ? invalid('key', error.message) : error
  }
}

/** The id of a provider whose key is set in the console alone. Throws set_in_file (409), not_found (404). */
function settable({ catalogue, config, runTime }: AppContext, { params: [id = ''] }: ManagementRequest): string {
  const row = PROVIDER_ROWS.find((one) => one.id === id)
  const on = catalogue.providers().find((one) => one.id === id)
  if (row === undefined && on === undefined && runTime.find('provider', id) === undefined) throw unknown('provider')
  const { foundBy = 'console' } = on ?? {}
  if (foundBy !== 'console') {
    const where = runTime.file.whereIs(`providers.${id}`) ?? foundBy
    throw new GatewayError('set_in_file', `${id} is set up by ${where}: change it there.`)
  }
  const own = config.providers.get(id)
  if (own?.enabled === false && own.setBy === undefined)
    throw new GatewayError('set_in_file', `${howToEnable(id, config)}: change it there.`)
  return id
}

/** `POST /v1/management/providers/{id}/test`: one small call, which the provider may charge. */
export async function testProvider(app: AppContext, inbound: ManagementRequest): Promise<Response> {
  const [id = ''] = inbound.params
  if (!app.catalogue.providers().some((one) => one.id === id)) throw notActive(app, id)
  const { model } = await bodyOf(inbound, TEST)
  const endpoint = endpointFor(app, id, model)
  const { status, firstByteMs, totalMs, error } = await testCall(endpoint, app.config.timeouts)
  const tested: ProviderTestAnswer = {
    model: `${id}/${endpoint.target.model}`,
    protocol: endpoint.protocol,
    status,
    first_byte_ms: firstByteMs,
    total_ms: totalMs,
    error,
  }
  return answer(tested)
}

/** Both an unknown provider and one that is off are not found; the message has what turns the latter on. */
function notActive({ config }: Pick<AppContext, 'config'>, id: string): GatewayError {
  const remedy = howToEnable(id, config)
  return remedy === undefined ? unknown('provider') : new GatewayError('not_found', `${id} is off: ${remedy}.`)
}

/** Without a model: that of the provider whose output costs least. */
function endpointFor({ catalogue, prices }: AppContext, id: string, model: string | undefined): Endpoint {
  const costOf = (name: string): bigint => prices.of(name, catalogue.candidates(name))?.rates.completion?.base ?? COSTLY
  const [cheapest] = catalogue
    .list()
    .filter(
      ({ endpoints, capabilities: { api, output } }) =>
        endpoints[0]?.provider === id && api === undefined && output?.includes('text') !== false,
    )
    .map(({ id: name }) => ({ name, cost: costOf(name) }))
    .sort((a, b) => (a.cost < b.cost ? -1 : a.cost > b.cost ? 1 : 0))
  const name = model === undefined ? cheapest?.name : model.startsWith(`${id}/`) ? model : `${id}/${model}`
  if (name === undefined) throw invalid('model', `is required: no model of ${id} is known`)
  const endpoint = catalogue.endpoints(name, 'chat.completions').find(({ provider }) => provider.id === id)
  if (endpoint === undefined) throw unknown(`model of ${id}`, 'model')
  return endpoint
}

/** Models without a price come last. */
const COSTLY = 10n ** 18n
