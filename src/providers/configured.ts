import { ConfigError, type Config, type ProviderConfig, type ServingFacts } from '../config/load.ts'
import { type Auth, baseUrlProblem } from '../config/provider-settings.ts'
import { KEY_PREFIXES } from '../config/terms.ts'
import { hideSecret } from '../log/secrets.ts'
import { present } from '../protocols/fields.ts'
import { protocols } from '../protocols/index.ts'
import type { Api } from '../config/provider-terms.ts'
import type { Provider } from './catalogue.ts'
import { PROVIDER_ROWS, quirksOf, type MediaFacts, type ProviderRow } from './catalog-rows.ts'

/** Predictions are not a wire protocol of generations, so they are not in the registry. */
const authOf = (api: Api): Auth => (api === 'predictions' ? 'bearer' : protocols[api].call.auth)

/**
 * A provider that only the configuration file defines; undefined if it is disabled. It accepts unlisted model names
 * unless the file lists models for it.
 */
export function configuredProvider(own: ProviderConfig, config: Config): Provider | undefined {
  if (!own.enabled || own.protocol === undefined || own.baseUrl === undefined) return undefined
  const listed = [...config.models.values()].some(({ endpoints }) =>
    endpoints.some(({ provider }) => provider === own.id),
  )
  return withHiddenSecrets({
    id: own.id,
    name: own.name ?? own.id,
    headers: own.headers,
    quirks: own.quirks,
    unlisted: own.unlisted ?? !listed,
    buckets: own.buckets ?? [],
    sharedIds: own.sharedIds ?? false,
    foundBy: own.setBy ?? 'sluice.yaml',
    apis: [
      { protocol: own.protocol, baseUrl: withoutTrailingSlashes(own.baseUrl), auth: own.auth ?? authOf(own.protocol) },
    ],
    ...keysOf(own),
    facts: servingFacts(own),
    ...mediaOf(undefined, own),
  })
}

const NO_KEYS = {}

const keysOf = ({ apiKey, apiKeys }: Partial<ProviderConfig>): Pick<Provider, 'apiKey' | 'apiKeys'> =>
  apiKeys !== undefined ? { apiKeys } : apiKey !== undefined ? { apiKey } : NO_KEYS

const servingFacts = ({ region, dataPolicy, zdr }: Partial<ProviderConfig>): ServingFacts => ({
  ...present('region', region),
  ...present('dataPolicy', dataPolicy),
  ...present('zdr', zdr),
})

/** Nothing leaves the process. */
const IN_PROCESS: ServingFacts = { dataPolicy: { retains: false, trains: false } }

const SECRET_HEADER = /auth|cookie|key|secret|token/

/** Has the provider's credentials hidden in every error that quotes the provider. */
function withHiddenSecrets(provider: Provider): Provider {
  const { apiKey, apiKeys = [], headers } = provider
  if (apiKey !== undefined) hideSecret(apiKey)
  for (const { key } of apiKeys) hideSecret(key)
  for (const [name, value] of Object.entries(headers)) if (SECRET_HEADER.test(name)) hideSecret(value)
  return provider
}

/** The media facts of a row; `fetches` of the configuration file replaces that of the row. */
function mediaOf(row: ProviderRow | undefined, own: ProviderConfig | undefined): { media?: MediaFacts } {
  const { fetches } = own ?? {}
  if (fetches === undefined) return row?.media === undefined ? {} : { media: row.media }
  const apis = row?.protocols.map(({ protocol }) => protocol) ?? [own!.protocol!]
  return {
    media: {
      ...row?.media,
      ...Object.fromEntries(
        apis.flatMap((api) => (api === 'predictions' ? [] : [[api, { ...row?.media?.[api], fetches }]])),
      ),
    },
  }
}

/**
 * A provider of the catalogue with its configuration; undefined if it is disabled. Throws ConfigError for an invalid
 * base URL in the environment.
 */
export function builtInProvider(row: ProviderRow, config: Config): Provider | undefined {
  const own = config.providers.get(row.id)
  const foundBy = enabledBy(row, own, config)
  const baseUrl = foundBy === undefined ? undefined : baseUrlOf(row, own, config)
  if (foundBy === undefined || baseUrl === undefined) return undefined
  const keys = keysOf(own ?? {})
  const apiKey = keys === NO_KEYS ? variableKey(row, config, baseUrl) : undefined
  return withHiddenSecrets({
    id: row.id,
    name: own?.name ?? row.name,
    headers: own?.headers ?? {},
    quirks: { ...quirksOf(row), ...own?.quirks },
    unlisted: own?.unlisted ?? row.unlisted ?? true,
    buckets: own?.buckets ?? [],
    sharedIds: own?.sharedIds ?? row.inProcess !== undefined,
    foundBy,
    apis: row.protocols
      .filter(({ protocol }) => own?.protocol === undefined || own.protocol === protocol)
      .map(({ protocol, path, auth }) => ({
        protocol,
        baseUrl: baseUrl + (path ?? ''),
        auth: own?.auth ?? auth ?? row.auth,
      })),
    ...keys,
    ...(apiKey === undefined ? {} : { apiKey }),
    facts: row.inProcess === undefined ? servingFacts(own ?? {}) : IN_PROCESS,
    ...(row.inProcess === undefined ? {} : { inProcess: row.inProcess }),
    ...mediaOf(row, own),
  })
}

/** The setting that enables a provider: a key or a base URL. A provider that requires a key needs more than the URL. */
function enabledBy(row: ProviderRow, own: ProviderConfig | undefined, config: Config): string | undefined {
  if (own?.enabled === false) return undefined
  if (row.inProcess !== undefined) return 'built in'
  if (own?.apiKey !== undefined || own?.apiKeys !== undefined || own?.baseUrl !== undefined)
    return own.setBy ?? 'sluice.yaml'
  const key = variable(config, row.keyVariables)?.name
  if (row.baseUrl !== undefined) return key
  return row.baseUrlVariable === undefined ? undefined : variable(config, [row.baseUrlVariable.name])?.name
}

/** The base URL of the file, the environment or the catalogue, without a slash at the end. */
function baseUrlOf(row: ProviderRow, own: ProviderConfig | undefined, config: Config): string | undefined {
  if (own?.baseUrl !== undefined) return withoutTrailingSlashes(own.baseUrl)
  const { name, append = '' } = row.baseUrlVariable ?? { name: '' }
  const set = variable(config, [name])
  if (set === undefined) return row.baseUrl
  const wrong = baseUrlProblem(set.value)
  if (wrong !== undefined) throw new ConfigError([`${name}: ${wrong}`])
  if (isOwnAddress(new URL(set.value), config))
    throw new ConfigError([
      `${name}: is the address of Sluice itself; unset it for this process, or set providers.${row.id}.baseUrl`,
    ])
  const url = withoutTrailingSlashes(set.value)
  return url.endsWith(append) ? url : url + append
}

/**
 * True for the address of this server: the variables that direct clients to Sluice also direct Sluice to its providers,
 * so in a shell that exports them it would call itself.
 */
const isOwnAddress = (url: URL, { listen }: Config): boolean =>
  listen.port !== 0 &&
  Number(url.port) === listen.port &&
  ['localhost', '127.0.0.1', '[::1]', listen.host].includes(url.hostname)

/** A base URL without slashes at its end. */
export const withoutTrailingSlashes = (url: string): string => url.replace(/\/+$/, '')

/**
 * The key in the environment. Throws ConfigError for a key of Sluice, as a shell with settings for clients has it; at a
 * configured address there may be another Sluice.
 */
function variableKey(row: ProviderRow, config: Config, baseUrl: string): string | undefined {
  const { id, name, keyVariables } = row
  const set = variable(config, keyVariables)
  if (
    set !== undefined &&
    baseUrl === row.baseUrl &&
    Object.values(KEY_PREFIXES).some((prefix) => set.value.startsWith(prefix))
  )
    throw new ConfigError([
      `${set.name}: is a key of Sluice, not of ${name}; unset it for this process, or set providers.${id}.apiKey`,
    ])
  return set?.value
}

function variable(config: Pick<Config, 'env'>, names: string[]): { name: string; value: string } | undefined {
  for (const name of names) {
    const value = config.env[name]?.trim()
    if (value !== undefined && value !== '') return { name, value }
  }
  return undefined
}

/** The variable that sets up a built-in provider, or gives its key alone; undefined without one. */
export function variableOf(id: string, config: Pick<Config, 'env'>, ofKey: boolean): string | undefined {
  const row = PROVIDER_ROWS.find((one) => one.id === id)
  if (row === undefined) return undefined
  const address = ofKey || row.baseUrlVariable === undefined ? [] : [row.baseUrlVariable.name]
  return variable(config, [...row.keyVariables, ...address])?.name
}

/** The reason why an enabled provider may lack a model's protocol; undefined where the file does not restrict it. */
export function restrictionOf(id: string, config: Config): string | undefined {
  const protocol = config.providers.get(id)?.protocol
  return protocol === undefined ? undefined : `${id} is used over ${protocol} only (providers.${id}.protocol)`
}

/** An instruction to enable a provider; undefined for an unknown one. */
export function howToEnable(id: string, config: Config): string | undefined {
  if (config.providers.get(id)?.enabled === false)
    return `${id} is disabled in the configuration (providers.${id}.enabled)`
  const row = PROVIDER_ROWS.find((candidate) => candidate.id === id)
  if (row === undefined) return undefined
  if (row.hint !== undefined) return row.hint
  const key = row.keyVariables[0]
  if (row.baseUrl !== undefined) return `set ${row.keyVariables.join(' or ')}`
  const variableName = row.baseUrlVariable!.name
  return row.auth === 'api-key' && key !== undefined ? `set ${variableName} and ${key}` : `set ${variableName}`
}
