import { resolve } from 'node:path'
import builtInPlans from '../../catalog/plans.json'
import builtIn from '../../catalog/providers.json'
import { nanoOf } from '../money.ts'
import { nearest } from '../nearest.ts'
import type { Capabilities } from '../protocols/protocol.ts'
import { STATUS_THRESHOLDS } from './account-settings.ts'
import { readCapture } from './capture-settings.ts'
import type {
  Config,
  CredentialConfig,
  Environment,
  KeyConfig,
  ModelConfig,
  PlanConfig,
  ProviderConfig,
  ServingFacts,
} from './config.ts'
import { fileStoreOf } from './file-store.ts'
import type { ConfigLocation } from './location.ts'
import type { PriceText } from './model-settings.ts'
import { PROVIDER_ID } from './provider-settings.ts'
import type { Api } from './provider-terms.ts'
import type { FILE } from './schema.ts'
import type { Shape } from './shape.ts'
import { KEY_PREFIXES, kindOfText, WINDOW_NAMES } from './terms.ts'

export type ReadFile = typeof FILE extends Shape<infer T> ? T : never

/** The configuration from the values in the file, with defaults. Contradictory values are reported as problems. */
export function toConfig(read: ReadFile, env: Environment): Config {
  const { timeouts = {} } = read
  const providers = readProviders(read.providers)
  return {
    listen: {
      host: read.listen?.host ?? '127.0.0.1',
      port: read.listen?.port ?? 4310,
      proxies: read.listen?.proxies?.map(({ value }) => value) ?? LOCAL_RANGES,
      ...(read.listen?.publicUrl === undefined ? {} : { publicUrl: read.listen.publicUrl.replace(/\/+$/, '') }),
    },
    workers: readWorkers(read),
    data: resolve(read.data ?? './data'),
    store: readStore(read.store),
    log: {
      format: read.log?.format,
      level: read.log?.level ?? 'info',
      requests: read.log?.requests ?? 'all',
    },
    metrics: { enabled: true, host: '127.0.0.1', port: undefined, ...read.metrics },
    limits: limitsOf(read.limits ?? {}),
    timeouts: {
      connectMs: timeouts.connect ?? 10_000,
      firstByteMs: timeouts.firstByte ?? 600_000,
      idleMs: timeouts.idle ?? 300_000,
      totalMs: timeouts.total ?? 3_600_000,
      clientLeftMs: timeouts.clientLeft ?? 60_000,
      clientStalledMs: timeouts.clientStalled ?? 120_000,
      drainMs: timeouts.drain ?? 30_000,
    },
    keepAliveMs: read.keepAlive ?? 10_000,
    strict: read.strict ?? false,
    billing: readBilling(read.billing),
    reasoning: { keepMs: read.reasoning?.keep ?? 86_400_000 },
    responses: { keepDays: read.responses?.keepDays ?? 30, ...readKept(read.responses) },
    retention: { recordMonths: monthsOf(read.retention?.records) },
    idempotency: readIdempotency(read.idempotency),
    files: readFiles(read),
    predictions: {
      concurrency: read.predictions?.concurrency ?? 8,
      waiting: read.predictions?.waiting ?? 1_000,
      keepDays: read.predictions?.keepDays ?? 30,
      ...readKept(read.predictions),
    },
    fetch: {
      requestUrls: read.fetch?.requestUrls ?? false,
      bytes: read.fetch?.size ?? 20 * 2 ** 20,
      private: (read.fetch?.private ?? []).map(({ value }) => value.toLowerCase()),
    },
    capture: readCapture(read.capture),
    accountStatus: {
      ...STATUS_THRESHOLDS,
      ...read.accountStatus,
      penalty: { monitored: 1, abusive: 1.5, ...read.accountStatus?.penalty },
      requestsPerMinute: read.accountStatus?.requestsPerMinute ?? 60,
    },
    console: {
      enabled: read.console?.enabled ?? true,
      hosts: (read.console?.hosts ?? []).map(({ value }) => value),
      sessionHours: read.console?.sessionHours ?? 12,
    },
    providers,
    models: readModels(read.models, providers),
    routing: readRouting(read.routing),
    plans: { usdPerFlow: read.plans?.usdPerFlow ?? builtInPlans.usdPerFlow, tiers: readTiers(read.plans?.tiers) },
    keys: readKeys(read.keys ?? []),
    env,
  }
}

const monthsOf = (text: string | undefined): number | undefined =>
  text === undefined || text === 'forever' ? undefined : Number.parseInt(text, 10)

function readWorkers({ workers, store }: ReadFile): number {
  if (workers !== undefined && workers.value > 1 && store?.url === undefined)
    workers.location.fail('requires PostgreSQL (store: postgres://...): SQLite belongs to one process')
  return workers?.value ?? 1
}

const readStore = (read: NonNullable<ReadFile['store']> = {}): Config['store'] => ({
  quotaBytes: read.quota ?? Infinity,
  quotaWithoutCreditBytes: read.quotaWithoutCredit ?? 16 * 2 ** 20,
  ...(read.url === undefined
    ? {
        durability: read.durability?.value ?? 'power',
        reserve: read.reserve?.value ?? { share: 0.05, bytes: 2 ** 30 },
      }
    : {
        postgres: {
          url: read.url,
          connections: read.connections?.value ?? 10,
          patienceMs: read.patience?.value ?? 10_000,
          deadAfterMs: read.deadAfter?.value ?? 15_000,
        },
      }),
})

function readFiles({ files = {}, store }: ReadFile): Config['files'] {
  const isPostgres = store?.url !== undefined
  if (files.store?.value === 'postgres' && !isPostgres)
    files.store.location.fail('is postgres, which requires store: postgres://...')
  return {
    store: fileStoreOf(files.store?.value ?? (isPostgres ? 'postgres' : 'folder')),
    quotaBytes: files.quota ?? 10 * 2 ** 30,
    outputKeepMs: files.outputKeep ?? 3_600_000,
  }
}

const readKept = (read: { quota?: number; count?: number } = {}): { quotaBytes: number; count: number } => ({
  quotaBytes: read.quota ?? 10 * 2 ** 30,
  count: read.count ?? 1_000_000,
})

const readBilling = (read: NonNullable<ReadFile['billing']> = {}): Config['billing'] => ({
  startingCredit: nanoOf(read.startingCredit ?? 100),
  overdraft: nanoOf(read.overdraft ?? 0),
  whenExhausted: { payAsYouGo: 'cut', subscription: 'finish', ...read.whenExhausted },
  unpriced: read.unpriced ?? 'auto',
  unpricedClasses: read.unpricedClasses ?? 'auto',
  unpricedTools: read.unpricedTools ?? 'auto',
  delayMs: read.delay ?? 180_000,
})

const readIdempotency = ({
  keep,
  account,
  total,
}: NonNullable<ReadFile['idempotency']> = {}): Config['idempotency'] => ({
  keepMs: keep ?? 86_400_000,
  accountBytes: account ?? 64 * 2 ** 20,
  totalBytes: total ?? 2 ** 30,
})

/** Loopback and private addresses, which proxies and load balancers have. */
const LOCAL_RANGES = ['127.0.0.0/8', '::1', '10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', 'fc00::/7']

const limitsOf = (limits: NonNullable<ReadFile['limits']>): Config['limits'] => ({
  requestsPerMinute: limits.requestsPerMinute ?? 600,
  connectionsPerAddress: limits.connectionsPerAddress ?? 1_000,
  bodyBytes: limits.body ?? 32 * 2 ** 20,
  elements: limits.elements ?? 200_000,
  depth: limits.depth ?? 64,
  parts: limits.parts ?? 20_000,
  tools: limits.tools ?? 2_000,
  fileBytes: limits.file ?? 512 * 2 ** 20,
  conversationBytes: limits.conversations ?? 64 * 2 ** 20,
  ...(limits.memory === undefined ? {} : { memoryBytes: limits.memory }),
  ...(limits.concurrency === undefined ? {} : { concurrency: limits.concurrency }),
  ...(limits.accountConcurrency === undefined ? {} : { accountConcurrency: limits.accountConcurrency }),
})

const readRouting = ({ queue, retryBudget, ...read }: NonNullable<ReadFile['routing']> = {}): Config['routing'] => ({
  strategy: 'order',
  hedge: 'off',
  attempts: 4,
  fallbackOn: [],
  ...readModelRouting(read),
  retryBudget: { share: 0.2, perSecond: 10, ...retryBudget },
  queue: { waitMs: queue?.wait ?? 10_000, requests: queue?.requests ?? 1_000 },
})

const readModelRouting = ({
  patience,
  ...read
}: Omit<NonNullable<ReadFile['routing']>, 'queue' | 'retryBudget'>): ModelRouting => ({
  ...read,
  ...(patience === undefined ? {} : { patienceMs: patience }),
})

type ModelRouting = NonNullable<ModelConfig['routing']>

function readProviders(read: ReadFile['providers']): Map<string, ProviderConfig> {
  const providers = new Map<string, ProviderConfig>()
  for (const [id, { value, location }] of read ?? []) {
    checkProvider(id, value, location)
    const headers: Record<string, string> = Object.create(null)
    for (const [name, header] of value.headers ?? []) headers[name.toLowerCase()] = header.value
    const { enabled, headers: _, quirks, apiKeys, ...rest } = value
    checkFacts(value, location)
    providers.set(id, {
      id,
      enabled: enabled ?? true,
      ...rest,
      ...(apiKeys === undefined ? {} : { apiKeys: readCredentials(apiKeys) }),
      headers,
      quirks: quirks ?? {},
    })
    if (apiKeys !== undefined && value.apiKey !== undefined)
      location.fail('has apiKey and apiKeys: add the one key to the list')
  }
  return providers
}

/** A name or key that is given twice is a problem. */
function readCredentials(read: NonNullable<ReadProvider['apiKeys']>): CredentialConfig[] {
  const credentials: CredentialConfig[] = []
  for (const {
    value: { name, key, ...rest },
    location,
  } of read) {
    if (name === undefined || key === undefined) continue
    if (credentials.some((other) => other.name === name)) location.fail(`has the name of an earlier key, ${name}`)
    if (credentials.some((other) => other.key === key)) location.fail('is the same key as an earlier one')
    credentials.push({ name, key, ...rest })
  }
  return credentials
}

function checkFacts({ zdr, dataPolicy }: ServingFacts, location: ConfigLocation): void {
  if (zdr === true && dataPolicy?.retains === true) location.fail('has zdr: true, but dataPolicy.retains: true')
}

type ReadProvider = NonNullable<ReadFile['providers']> extends Map<string, { value: infer T }> ? T : never

/** A new provider requires a protocol and a URL. A built-in one keeps its protocols. */
function checkProvider(id: string, value: ReadProvider, location: ConfigLocation): void {
  const row = BUILT_IN.get(id)
  if (row?.inProcess !== undefined) {
    const set = Object.keys(value).filter((name) => name !== 'enabled')
    if (set.length > 0)
      location.fail(`is built in: it can only be switched off with enabled: false; ${set.join(', ')} cannot be set`)
    return
  }
  if (row !== undefined) {
    const supported = row.protocols.map(({ protocol }) => protocol)
    if (value.protocol !== undefined && !supported.includes(value.protocol))
      location.fail(
        `is built in and supports ${supported.join(', ')}, not ${value.protocol}; ` +
          'choose another id for a provider of your own',
      )
    return
  }
  const missing = (['protocol', 'baseUrl'] as const).filter((name) => value[name] === undefined)
  if (
    missing.length === 0 ||
    location.source.problems.some((problem) => missing.some((name) => problem.path === `${location.path}.${name}`))
  )
    return
  const [near] = nearest(id, BUILT_IN.keys(), 1)
  location.fail(
    `requires ${missing.join(' and ')}${near === undefined ? '' : ` (did you mean the built-in provider ${near}?)`}`,
  )
}

type BuiltIn = { id: string; inProcess?: string; protocols: { protocol: string }[] }
const BUILT_IN: Map<string, BuiltIn> = new Map((builtIn.providers as BuiltIn[]).map((row) => [row.id, row]))

function readModels(read: ReadFile['models'], providers: Map<string, ProviderConfig>): Map<string, ModelConfig> {
  const models = new Map<string, ModelConfig>()
  for (const [id, { value, location }] of read ?? []) {
    const endpoints: ModelConfig['endpoints'] = []
    for (const {
      value: { provider, model, ...rest },
      location: at,
    } of value.endpoints ?? []) {
      if (provider === undefined || model === undefined) continue
      checkEndpoint(provider, rest.protocol, providers, at)
      checkFacts(rest, at)
      endpoints.push({ provider, model, ...rest })
    }
    if (value.endpoints === undefined) checkNamed(id, providers, location)
    const { endpoints: _, capabilities, price, classes, fallbacks, routing, ...rest } = value
    const budget = capabilities?.budget
    if (budget?.min !== undefined && budget.max !== undefined && budget.min > budget.max)
      location.fail('has a reasoning budget whose min is above its max')
    models.set(id, {
      id,
      ...rest,
      endpoints,
      capabilities: (capabilities ?? {}) as Capabilities,
      ...(price === undefined ? {} : { price: { ...price } as PriceText }),
      ...(fallbacks === undefined ? {} : { fallbacks: fallbacks.map((fallback) => fallback.value) }),
      ...(routing === undefined ? {} : { routing: readModelRouting(routing) }),
      ...(classes === undefined
        ? {}
        : { classes: Object.fromEntries([...classes].map(([name, of]) => [name, of.value])) }),
    })
  }
  return models
}

/** A model without endpoints names its provider and the provider's model. */
function checkNamed(id: string, providers: Map<string, ProviderConfig>, location: ConfigLocation): void {
  const [provider = '', ...rest] = id.split('/')
  if (rest.length > 0 && (BUILT_IN.has(provider) || providers.has(provider))) return
  if (location.source.problems.some(({ path }) => path.startsWith(`${location.path}.`))) return
  location.fail('requires endpoints, unless its name is that of a provider and a model: <provider>/<model>')
}

function checkEndpoint(
  provider: string,
  protocol: Api | undefined,
  providers: Map<string, ProviderConfig>,
  at: ConfigLocation,
): void {
  const row = BUILT_IN.get(provider)
  const own = providers.get(provider)
  if (row === undefined && own === undefined) {
    if (!PROVIDER_ID.test(provider)) return
    const [near] = nearest(provider, [...providers.keys(), ...BUILT_IN.keys()], 1)
    at.fail(
      `refers to the provider ${provider}, which is neither built in nor under providers` +
        (near === undefined ? '' : ` (did you mean ${near}?)`),
    )
    return
  }
  const supported: string[] =
    own?.protocol !== undefined ? [own.protocol] : (row?.protocols ?? []).map((api) => api.protocol)
  if (protocol !== undefined && supported.length > 0 && !supported.includes(protocol))
    at.fail(`sets protocol ${protocol}, but ${provider} supports ${supported.join(', ')}`)
}

type ReadTiers = NonNullable<ReadFile['plans']>['tiers']

/** A tier in the file changes a built-in one, or must be complete. */
function readTiers(read: ReadTiers): Map<string, PlanConfig> {
  const tiers = new Map<string, PlanConfig>(Object.entries(builtInPlans.tiers))
  for (const [tier, { value, location }] of read ?? []) {
    const known = tiers.get(tier)
    const usdPerMonth = value.usdPerMonth ?? known?.usdPerMonth
    const flows = { ...known?.flows, ...value.flows }
    const missing = [
      ...(usdPerMonth === undefined ? ['usdPerMonth'] : []),
      ...WINDOW_NAMES.filter((window) => flows[window] === undefined).map((window) => `flows.${window}`),
    ]
    if (usdPerMonth !== undefined && missing.length === 0)
      tiers.set(tier, {
        usdPerMonth,
        flows: flows as PlanConfig['flows'],
        discount: value.discount ?? known?.discount ?? 0,
        ...(value.concurrency === undefined ? {} : { concurrency: value.concurrency }),
      })
    else if (!location.source.problems.some((problem) => problem.path.startsWith(`${location.path}.`))) {
      const [near] = nearest(tier, tiers.keys(), 1)
      location.fail(`requires ${missing.join(' and ')}${near === undefined ? '' : ` (did you mean ${near}?)`}`)
    }
  }
  return tiers
}

function readKeys(read: NonNullable<ReadFile['keys']>): KeyConfig[] {
  const keys: KeyConfig[] = []
  for (const [index, { value, location }] of read.entries()) {
    const { key, kind, name, models, limit, ...rest } = value
    if (key === undefined) continue
    if (keys.some((other) => other.key === key)) location.fail('is the same key as an earlier one')
    if (limit === undefined && rest.limitPeriod !== undefined) location.fail('has a limitPeriod, but no limit')
    const ofText = kindOfText(key)
    if (ofText !== undefined && kind !== undefined && kind !== ofText)
      location.fail(
        `has the kind ${kind}, but its key begins with ${KEY_PREFIXES[ofText]}, which is for the kind ${ofText}`,
      )
    keys.push({
      key,
      kind: kind ?? ofText ?? 'pay-as-you-go',
      name: name ?? `key ${index + 1}`,
      ...rest,
      ...(models === undefined ? {} : { models: models.map((pattern) => pattern.value) }),
      ...(limit === undefined ? {} : { limit: nanoOf(limit) }),
    })
  }
  return keys
}
