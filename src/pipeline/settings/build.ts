import { Plans } from '../../accounts/plans.ts'
import { ConfigError, type Config } from '../../config/config.ts'
import type { ConfigFile, SettingsLayer } from '../../config/config-file.ts'
import type { AbuseDetection } from '../../accounts/abuse-detection.ts'
import type { Files } from '../../files/files.ts'
import type { Ledger } from '../../ledger/ledger.ts'
import { Prices } from '../../ledger/prices.ts'
import { ServiceClasses } from '../../ledger/service-classes.ts'
import { Catalogue } from '../../providers/catalogue.ts'
import { PROVIDER_ROWS } from '../../providers/catalog-rows.ts'
import { variableOf } from '../../providers/configured.ts'
import type { InFlightRequests } from '../in-flight.ts'
import type { ReasoningReplay } from '../reasoning-replay.ts'
import type { SetKind, SetObject } from './set-object.ts'

/** Problems with settings, by their paths as in sluice.yaml. */
export class SettingsProblems extends Error {
  readonly problems: readonly { path: string; message: string }[]

  constructor(problems: readonly { path: string; message: string }[]) {
    super(problems.map(({ path, message }) => (path === '' ? message : `${path}: ${message}`)).join('\n'))
    this.problems = problems
  }
}

/** The modules and the configuration that replace those in force. */
export type Built = {
  config: Config
  catalogue: Catalogue
  prices: Prices
  plans: Plans
  serviceClasses: ServiceClasses
}

/** The modules that take over what is built. */
export type Modules = Omit<Built, 'plans'> & {
  ledger: Pick<Ledger, 'plans'>
  abuseDetection: AbuseDetection
  reasoningReplay: ReasoningReplay
  inFlight: InFlightRequests
  files: Files
}

/** Settings that can be changed at run time, besides objects; with all below them, but for those of the file alone. */
export const RUN_TIME = [
  'limits.requestsPerMinute',
  'timeouts',
  'keepAlive',
  'strict',
  'responses',
  'reasoning',
  'files',
  'predictions',
  'billing.delay',
  'billing.unpriced',
  'accountStatus',
  'capture',
]
const FILE_ONLY = new Set(['capture.most', 'files.store'])

export const isRunTime = (path: string): boolean =>
  !FILE_ONLY.has(path) && RUN_TIME.some((one) => path === one || path.startsWith(`${one}.`))

const PATH_OF_KIND = { provider: 'providers', model: 'models', plan: 'plans.tiers' } as const

/** The path of an object in sluice.yaml. */
export const pathOf = (kind: SetKind, name: string): string =>
  kind === 'settings' ? '' : `${PATH_OF_KIND[kind === 'provider-key' ? 'provider' : kind]}.${name}`

/** Where an object is set up that therefore wins: `sluice.yaml:12`, or a variable. */
export function setUpBy(file: ConfigFile, { env }: Config, kind: SetKind, name: string): string | undefined {
  const isKey = kind === 'provider-key'
  const variable = kind === 'provider' || isKey ? variableOf(name, { env }, isKey) : undefined
  // The key of a built-in provider may be set here also where the file changes that provider.
  const isApart = isKey && PROVIDER_ROWS.some(({ id }) => id === name)
  return (isApart ? undefined : file.whereIs(pathOf(kind, name))) ?? variable
}

/** Objects and settings as sluice.yaml would have them. */
export function layerOf(objects: Iterable<SetObject>): SettingsLayer {
  // Any text may be a name, `__proto__`, too.
  const named = (): Record<string, unknown> => Object.create(null)
  const [providers, models, tiers] = [named(), named(), named()]
  let settings: Record<string, unknown> = {}
  for (const { kind, name, value } of objects) {
    if (kind === 'provider') providers[name] = value
    else if (kind === 'model') models[name] = value
    else if (kind === 'plan') tiers[name] = value
    else if (kind === 'settings') settings = value as Record<string, unknown>
  }
  return { ...settings, providers, models, plans: { tiers } }
}

/** Everything that settings decide, before it replaces what is in force. Throws SettingsProblems. */
export function build(file: ConfigFile, running: Config, objects: readonly SetObject[]): Built {
  const used = objects.filter(({ kind, name }) => setUpBy(file, running, kind, name) === undefined)
  const { config: read, problems } = file.with(layerOf(used))
  if (read === undefined || problems.length > 0) throw new SettingsProblems(problems)
  const of = (kind: SetKind): SetObject[] => used.filter((one) => one.kind === kind)
  for (const { name } of of('provider')) read.providers.get(name)!.setBy = 'console'
  for (const { name, value } of of('provider-key')) addKey(read, name, value as string)
  const config = inForce(running, read)
  try {
    return {
      config,
      catalogue: new Catalogue(config),
      prices: new Prices(config),
      plans: new Plans(config),
      serviceClasses: new ServiceClasses(config),
    }
  } catch (error) {
    if (error instanceof ConfigError)
      throw new SettingsProblems(error.problems.map((message) => ({ path: '', message })))
    throw error
  }
}

/** The same of those objects that fit, and why others do not, by `idOf`. */
export function buildFitting(
  file: ConfigFile,
  running: Config,
  objects: readonly SetObject[],
): { built: Built; problems: Map<string, string> } {
  const problems = new Map<string, string>()
  try {
    return { built: build(file, running, objects), problems }
  } catch (error) {
    if (!(error instanceof SettingsProblems)) throw error
  }
  const right: SetObject[] = []
  for (const one of objects) {
    try {
      build(file, running, [...right, one])
      right.push(one)
    } catch (error) {
      if (!(error instanceof SettingsProblems)) throw error
      problems.set(idOf(one.kind, one.name), error.message)
    }
  }
  return { built: build(file, running, right), problems }
}

export const idOf = (kind: SetKind, name: string): string => `${kind} ${name}`

function addKey({ providers }: Config, id: string, apiKey: string): void {
  const own = providers.get(id)
  if (own?.apiKey !== undefined || own?.apiKeys !== undefined) return
  providers.set(id, { ...(own ?? { id, enabled: true, headers: {}, quirks: {} }), apiKey, setBy: 'console' })
}

/** The configuration that a running server takes over; the rest holds from the next start on. */
const inForce = (running: Config, read: Config): Config => ({
  ...running,
  limits: { ...running.limits, requestsPerMinute: read.limits.requestsPerMinute },
  timeouts: read.timeouts,
  keepAliveMs: read.keepAliveMs,
  strict: read.strict,
  responses: read.responses,
  reasoning: read.reasoning,
  files: { ...read.files, store: running.files.store },
  predictions: read.predictions,
  billing: { ...running.billing, delayMs: read.billing.delayMs, unpriced: read.billing.unpriced },
  accountStatus: read.accountStatus,
  capture: { ...read.capture, most: running.capture.most },
  providers: read.providers,
  models: read.models,
  plans: { ...running.plans, tiers: read.plans.tiers },
})

/** Replaces what is in force, in one turn. Requests in flight keep the endpoints, prices and timeouts they have. */
export function apply(app: Modules, { config, catalogue, prices, plans, serviceClasses }: Built): void {
  // Bodies are captured by this object as it is.
  const capture = Object.assign(app.config.capture, config.capture)
  Object.assign(app.config, config, { capture })
  app.catalogue.replace(catalogue)
  app.prices.replace(prices)
  app.ledger.plans.replace(plans)
  app.serviceClasses = serviceClasses
  app.abuseDetection.rules = config.accountStatus
  app.reasoningReplay.keepMs = config.reasoning.keepMs
  app.inFlight.readOnMs = config.timeouts.clientLeftMs
  app.files.setLimits(config.files)
}
