import { readFileSync, statSync } from 'node:fs'
import { resolve } from 'node:path'
import { LineCounter, parseDocument, type YAMLError } from 'yaml'
import { FILE, PROVIDER_ID, STATUS_RULES, type Auth, type MediaKind, type PriceText } from './schema.ts'
import { Source, TooMuch, type ConfigLocation, type Problem, type Shape } from './shape.ts'
import { nanoOf, type Nano } from '../money.ts'
import { nearest } from '../nearest.ts'
import type { Capabilities, Quirks, Api } from '../protocols/protocol.ts'
import builtInPlans from '../../catalog/plans.json'
import builtIn from '../../catalog/providers.json'
import { WINDOW_NAMES, type KeyKind, type LimitPeriod, type QuotaWindowName } from './terms.ts'

export type { Auth } from './schema.ts'

/** Everything that is set before the start, defaults filled in. */
export type Config = {
  /** `publicUrl`: without a slash at the end. */
  listen: { host: string; port: number; publicUrl?: string }
  /** Absolute path of a folder; it need not exist yet. */
  data: string
  limits: { requestsPerMinute: number; bodyBytes: number; fileBytes: number }
  timeouts: { connectMs: number; firstByteMs: number; idleMs: number; totalMs: number; drainMs: number }
  keepAliveMs: number
  /** Whether requests that would lose something on the way are refused, where they do not say it themselves. */
  strict: boolean
  billing: { startingCredit: Nano; overdraft: Nano; unpriced: 'refuse' | 'free'; delayMs: number }
  /** 0: nothing is kept. */
  reasoning: { keepMs: number }
  responses: { keepDays: number }
  /** `quotaBytes`: of all files of one account. */
  files: { quotaBytes: number; outputKeepMs: number }
  predictions: { concurrency: number; waiting: number; keepDays: number }
  /** `private`: `host` or `host:port`, in lower case, that may be reached although it is not public. */
  fetch: { requestUrls: boolean; bytes: number; private: string[] }
  accountStatus: AccountStatusConfig
  providers: Map<string, ProviderConfig>
  models: Map<string, ModelConfig>
  /** `usdPerFlow`: list-price USD that one flow stands for. The built-in tiers are among them. */
  plans: { usdPerFlow: number; tiers: Map<string, PlanConfig> }
  keys: KeyConfig[]
  env: Environment
  /** The file that was read. */
  file?: string
}

export type Environment = Record<string, string | undefined>

/** What the file says of a provider: all of a new one, or what differs from a built-in one. */
export type ProviderConfig = {
  id: string
  enabled: boolean
  name?: string
  protocol?: Api
  baseUrl?: string
  apiKey?: string
  auth?: Auth
  headers: Record<string, string>
  unlisted?: boolean
  /** Kinds of media whose URLs it opens itself. */
  fetches?: MediaKind[]
  /** Every account may name what it keeps under its key. */
  sharedIds?: boolean
  quirks: Quirks
}

export type ModelConfig = {
  id: string
  name?: string
  endpoints: { provider: string; model: string; protocol?: Api }[]
  capabilities: Capabilities
  price?: PriceText
  contextLength?: number
}

/** What more than these in an hour makes of an account; `penalty` multiplies the flows of its requests. */
type AccountStatusConfig = Record<'refusals' | 'addresses' | 'concurrency', { monitored: number; abusive: number }> & {
  penalty: { monitored: number; abusive: number }
}

/** Flows in each quota window; `discount` in percent off pay-as-you-go bills. */
export type PlanConfig = { usdPerMonth: number; flows: Record<QuotaWindowName, number>; discount: number }

/** A fixed key of the file. `requestsPerMinute` overrides the general limit, `limit` is in nano-USD. */
export type KeyConfig = {
  key: string
  kind: KeyKind
  name: string
  account?: string
  requestsPerMinute?: number
  models?: string[]
  limit?: bigint
  limitPeriod?: LimitPeriod
}

/** The configuration cannot be used. One problem a line: `sluice.yaml:12:5: models.acme/large needs endpoints`. */
export class ConfigError extends Error {
  readonly problems: string[]

  constructor(problems: string[]) {
    super(problems.join('\n'))
    this.name = 'ConfigError'
    this.problems = problems
  }
}

export type Options = { file?: string; data?: string; host?: string; port?: string }

const DEFAULT_FILE = 'sluice.yaml'
const MOST_FILE_BYTES = 1024 * 1024

/**
 * Command-line option, then SLUICE_* variable, then file, then default. Throws ConfigError with every problem found.
 */
export function loadConfig(options: Options, env: Environment): Config {
  const named = options.file ?? given(env, 'SLUICE_CONFIG')
  const file = named ?? (exists(DEFAULT_FILE) ? DEFAULT_FILE : undefined)
  const config =
    file === undefined
      ? readConfig('', DEFAULT_FILE, env)
      : { ...readConfig(readText(file), file, env), file: resolve(file) }
  const data = chosen(options.data, '--data', env, 'SLUICE_DATA')
  const host = chosen(options.host, '--host', env, 'SLUICE_HOST')
  const port = chosen(options.port, '--port', env, 'SLUICE_PORT')
  if (data !== undefined) config.data = resolve(data.text)
  if (host !== undefined) config.listen.host = host.text
  if (port !== undefined) config.listen.port = portNumber(port)
  return config
}

type Chosen = { text: string; from: string }

function chosen(option: string | undefined, flag: string, env: Environment, variable: string): Chosen | undefined {
  if (option === '') throw new ConfigError([`${flag}: must not be empty`])
  if (option !== undefined) return { text: option, from: flag }
  const text = given(env, variable)
  return text === undefined ? undefined : { text, from: variable }
}

/** A variable that is set to nothing counts as not set, as in most tools. */
const given = (env: Environment, name: string): string | undefined => (env[name] === '' ? undefined : env[name])

function portNumber({ text, from }: Chosen): number {
  const port = /^\d{1,5}$/.test(text) ? Number(text) : Infinity
  if (port > 65535) throw new ConfigError([`${from}: must be a whole number from 0 to 65535`])
  return port
}

const exists = (file: string): boolean => statSync(file, { throwIfNoEntry: false })?.isFile() === true

function readText(file: string): string {
  try {
    const bytes = statSync(file).isFile() ? readFileSync(file) : undefined
    if (bytes === undefined) throw new ConfigError([`${file}: must be a file`])
    if (bytes.length > MOST_FILE_BYTES)
      throw new ConfigError([`${file}: must be at most 1 MiB, not ${bytes.length} bytes`])
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch (error) {
    if (error instanceof ConfigError) throw error
    if (error instanceof TypeError) throw new ConfigError([`${file}: must be UTF-8 text`])
    throw new ConfigError([
      `${file}: cannot be read: ${(error as { code?: string }).code === 'ENOENT' ? 'there is no such file' : (error as Error).message}`,
    ])
  }
}

/**
 * The text of sluice.yaml -> Config with defaults. `file` is the name that errors begin with. Throws ConfigError, and
 * nothing else.
 */
export function readConfig(text: string, file: string, env: Environment): Config {
  const lines = new LineCounter()
  const refuse = (problems: Problem[]): ConfigError => new ConfigError(located(problems, file))
  const source = new Source(parse(text, lines, refuse), lines, env)
  try {
    const root = source.root()
    const read = root === undefined ? undefined : FILE.read(root)
    const config = read === undefined ? undefined : fill(read, env)
    if (source.problems.length > 0 || config === undefined) throw refuse(source.problems)
    return config
  } catch (error) {
    throw error instanceof TooMuch ? refuse([error.problem]) : error
  }
}

const MOST_PROBLEMS = 50

function located(problems: Problem[], file: string): string[] {
  const sorted = problems.toSorted((a, b) => a.line - b.line || a.column - b.column)
  const told = sorted
    .slice(0, MOST_PROBLEMS)
    .map(
      ({ line, column, path, message }) => `${file}:${line}:${column}: ${path === '' ? message : `${path} ${message}`}`,
    )
  return sorted.length > MOST_PROBLEMS ? [...told, `${file}: ${sorted.length - MOST_PROBLEMS} more problems`] : told
}

function parse(
  text: string,
  lines: LineCounter,
  refuse: (problems: Problem[]) => ConfigError,
): ReturnType<typeof parseDocument> {
  try {
    // Keys that stand twice are found while reading: the YAML reader compares each with each.
    const document = parseDocument(text, { lineCounter: lines, prettyErrors: false, uniqueKeys: false })
    // What follows the first error is mostly its echo.
    const [error] = [...document.errors, ...document.warnings].sort((a, b) => a.pos[0] - b.pos[0])
    if (error !== undefined) throw refuse([syntaxProblem(error, text, lines)])
    return document
  } catch (error) {
    if (error instanceof ConfigError) throw error
    // The YAML reader recurses: nesting thousands deep ends in a RangeError.
    throw refuse([
      {
        line: 1,
        column: 1,
        path: '',
        message: `cannot be read as YAML: ${error instanceof RangeError ? 'it is nested too deeply' : (error as Error).message}`,
      },
    ])
  }
}

function syntaxProblem(error: YAMLError, text: string, lines: LineCounter): Problem {
  const { line, col } = lines.linePos(error.pos[0])
  const written = text.split('\n')[line - 1] ?? ''
  const message =
    error.code === 'MULTIPLE_DOCS'
      ? 'must be one document, without a second one after ---'
      : written.includes('${') && /[[{]/.test(written.replaceAll('${', ''))
        ? `${error.message}: \${...} inside { } or [ ] must be in quotes`
        : error.message
  return { line: Math.max(line, 1), column: Math.max(col, 1), path: '', message }
}

type ReadFile = typeof FILE extends Shape<infer T> ? T : never

function fill(read: ReadFile, env: Environment): Config {
  const { limits = {}, timeouts = {}, billing = {} } = read
  const providers = readProviders(read.providers)
  return {
    listen: {
      host: read.listen?.host ?? '127.0.0.1',
      port: read.listen?.port ?? 4310,
      ...(read.listen?.publicUrl === undefined ? {} : { publicUrl: read.listen.publicUrl.replace(/\/+$/, '') }),
    },
    data: resolve(read.data ?? './data'),
    limits: {
      requestsPerMinute: limits.requestsPerMinute ?? 600,
      bodyBytes: limits.body ?? 32 * 2 ** 20,
      fileBytes: limits.file ?? 512 * 2 ** 20,
    },
    timeouts: {
      connectMs: timeouts.connect ?? 10_000,
      firstByteMs: timeouts.firstByte ?? 600_000,
      idleMs: timeouts.idle ?? 300_000,
      totalMs: timeouts.total ?? 3_600_000,
      drainMs: timeouts.drain ?? 30_000,
    },
    keepAliveMs: read.keepAlive ?? 10_000,
    strict: read.strict ?? false,
    billing: {
      startingCredit: nanoOf(billing.startingCredit ?? 100),
      overdraft: nanoOf(billing.overdraft ?? 0),
      unpriced: billing.unpriced ?? 'refuse',
      delayMs: billing.delay ?? 180_000,
    },
    reasoning: { keepMs: read.reasoning?.keep ?? 86_400_000 },
    responses: { keepDays: read.responses?.keepDays ?? 30 },
    files: { quotaBytes: read.files?.quota ?? 10 * 2 ** 30, outputKeepMs: read.files?.outputKeep ?? 3_600_000 },
    predictions: {
      concurrency: read.predictions?.concurrency ?? 8,
      waiting: read.predictions?.waiting ?? 1_000,
      keepDays: read.predictions?.keepDays ?? 30,
    },
    fetch: {
      requestUrls: read.fetch?.requestUrls ?? false,
      bytes: read.fetch?.size ?? 20 * 2 ** 20,
      private: (read.fetch?.private ?? []).map(({ value }) => value.toLowerCase()),
    },
    accountStatus: {
      ...STATUS_RULES,
      ...read.accountStatus,
      penalty: { monitored: 1, abusive: 1.5, ...read.accountStatus?.penalty },
    },
    providers,
    models: readModels(read.models, providers),
    plans: { usdPerFlow: read.plans?.usdPerFlow ?? builtInPlans.usdPerFlow, tiers: readTiers(read.plans?.tiers) },
    keys: readKeys(read.keys ?? []),
    env,
  }
}

function readProviders(read: ReadFile['providers']): Map<string, ProviderConfig> {
  const providers = new Map<string, ProviderConfig>()
  for (const [id, { value, place }] of read ?? []) {
    checkProvider(id, value, place)
    const headers: Record<string, string> = Object.create(null)
    for (const [name, header] of value.headers ?? []) headers[name.toLowerCase()] = header.value
    const { enabled, headers: _, quirks, ...rest } = value
    providers.set(id, { id, enabled: enabled ?? true, ...rest, headers, quirks: quirks ?? {} })
  }
  return providers
}

type ReadProvider = NonNullable<ReadFile['providers']> extends Map<string, { value: infer T }> ? T : never

/** A new provider needs a protocol and a place; a built-in one keeps the protocols it has. */
function checkProvider(id: string, value: ReadProvider, place: ConfigLocation): void {
  const row = BUILT_IN.get(id)
  if (row?.inProcess !== undefined) {
    const set = Object.keys(value).filter((name) => name !== 'enabled')
    if (set.length > 0)
      place.fail(`is built in and can only be switched off with enabled: false; ${set.join(', ')} cannot be set`)
    return
  }
  if (row !== undefined) {
    if (value.protocol !== undefined && !row.protocols.some(({ protocol }) => protocol === value.protocol))
      place.fail(
        `is built in and speaks ${row.protocols.map(({ protocol }) => protocol).join(', ')}, not ${value.protocol}: choose another id for a provider of your own`,
      )
    return
  }
  const missing = (['protocol', 'baseUrl'] as const).filter((name) => value[name] === undefined)
  if (
    missing.length === 0 ||
    place.source.problems.some((problem) => missing.some((name) => problem.path === `${place.path}.${name}`))
  )
    return
  const [near] = nearest(id, BUILT_IN.keys(), 1)
  place.fail(
    `needs ${missing.join(' and ')}${near === undefined ? '' : `, unless the built-in provider ${near} is meant`}`,
  )
}

type BuiltIn = { id: string; inProcess?: string; protocols: { protocol: string }[] }
const BUILT_IN: Map<string, BuiltIn> = new Map((builtIn.providers as BuiltIn[]).map((row) => [row.id, row]))

function readModels(read: ReadFile['models'], providers: Map<string, ProviderConfig>): Map<string, ModelConfig> {
  const models = new Map<string, ModelConfig>()
  for (const [id, { value, place }] of read ?? []) {
    const endpoints: ModelConfig['endpoints'] = []
    for (const {
      value: { provider, model, protocol },
      place: at,
    } of value.endpoints ?? []) {
      if (provider === undefined || model === undefined) continue
      checkEndpoint(provider, protocol, providers, at)
      endpoints.push({ provider, model, ...(protocol === undefined ? {} : { protocol }) })
    }
    const { endpoints: _, capabilities, price, ...rest } = value
    const budget = capabilities?.budget
    if (budget?.min !== undefined && budget.max !== undefined && budget.min > budget.max)
      place.fail('has a budget whose min is above its max')
    models.set(id, {
      id,
      ...rest,
      endpoints,
      capabilities: (capabilities ?? {}) as Capabilities,
      ...(price === undefined ? {} : { price: { ...price } as PriceText }),
    })
  }
  return models
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
      `names the provider ${provider}, which is not built in and not under providers${near === undefined ? '' : `: is ${near} meant?`}`,
    )
    return
  }
  const spoken: string[] =
    own?.protocol !== undefined ? [own.protocol] : (row?.protocols ?? []).map((api) => api.protocol)
  if (protocol !== undefined && spoken.length > 0 && !spoken.includes(protocol))
    at.fail(`asks ${provider} for ${protocol}, which speaks ${spoken.join(', ')}`)
}

type ReadTiers = NonNullable<ReadFile['plans']>['tiers']

/** What the file says of a built-in tier adds to it; one of its own must say all. */
function readTiers(read: ReadTiers): Map<string, PlanConfig> {
  const tiers = new Map<string, PlanConfig>(Object.entries(builtInPlans.tiers))
  for (const [tier, { value, place }] of read ?? []) {
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
      })
    else if (!place.source.problems.some((problem) => problem.path.startsWith(`${place.path}.`))) {
      const [near] = nearest(tier, tiers.keys(), 1)
      place.fail(`needs ${missing.join(' and ')}${near === undefined ? '' : `, unless ${near} is meant`}`)
    }
  }
  return tiers
}

function readKeys(read: NonNullable<ReadFile['keys']>): KeyConfig[] {
  const keys: KeyConfig[] = []
  for (const [index, { value, place }] of read.entries()) {
    const { key, kind, name, models, limit, ...rest } = value
    if (key === undefined) continue
    if (keys.some((other) => other.key === key)) place.fail('is the same key as one above')
    if (limit === undefined && rest.limitPeriod !== undefined) place.fail('has a limitPeriod and no limit')
    keys.push({
      key,
      kind: kind ?? 'pay-as-you-go',
      name: name ?? `key ${index + 1}`,
      ...rest,
      ...(models === undefined ? {} : { models: models.map((pattern) => pattern.value) }),
      ...(limit === undefined ? {} : { limit: nanoOf(limit) }),
    })
  }
  return keys
}
