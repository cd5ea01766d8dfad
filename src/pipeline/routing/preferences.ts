import { QUANTIZATIONS, STRATEGIES, type Strategy } from '../../config/terms.ts'
import { invalid } from '../../error.ts'
import { isObject } from '../../json/parse.ts'
import { describeType, Fields } from '../../protocols/fields.ts'
import type { RoutingMembers } from '../../protocols/routing-members.ts'
import type { ProviderNames } from '../../providers/names.ts'
import type { RoutingPreferences } from '../../providers/routing/terms.ts'

/** The names of providers, their keys and tags that a request may have. */
type KnownNames = Pick<ProviderNames, 'meaning' | 'nearest'>

type Preferences = { -readonly [Name in keyof RoutingPreferences]: RoutingPreferences[Name] }
type Preference = Exclude<keyof RoutingPreferences, 'models' | 'sessionId'>

/** `read`: throws invalid_request with the path. `split`: the value in a header's text. */
type Reader<T> = { read(value: unknown, path: string, names: KnownNames): T; split(text: string): unknown }

const MOST_NAMES = 100
const MOST_MODELS = 10
const SESSION_LENGTH = 256

const isText = (text: string): string => text
const splitList = (text: string): string[] => text.split(',').map((name) => name.trim())

const listOf = <T extends string>(read: (text: string, path: string, names: KnownNames) => T): Reader<T[]> => ({
  read(value, path, names) {
    if (!Array.isArray(value)) throw invalid(path, `must be an array, not ${describeType(value)}`)
    if (value.length > MOST_NAMES) throw invalid(path, `must have at most ${MOST_NAMES} elements, not ${value.length}`)
    return value.map((one, index) => {
      if (typeof one === 'string') return read(one, `${path}[${index}]`, names)
      throw invalid(`${path}[${index}]`, `must be a string, not ${describeType(one)}`)
    })
  },
  split: splitList,
})

function oneOf<T extends string>(value: unknown, path: string, allowed: readonly T[]): T {
  if (allowed.includes(value as T)) return value as T
  const found = typeof value === 'string' ? `'${value.slice(0, 64)}'` : describeType(value)
  throw invalid(path, `must be one of ${allowed.map((one) => `'${one}'`).join(', ')}, not ${found}`)
}

const flag: Reader<boolean> = {
  read(value, path) {
    if (typeof value === 'boolean') return value
    throw invalid(path, `must be true or false, not ${describeType(value)}`)
  },
  split: (text) => (text === 'true' ? true : text === 'false' ? false : text),
}

const providers = listOf((name, path, names) => {
  const meaning = names.meaning(name)
  if (meaning !== undefined) return meaning
  const near = names.nearest(name)
  throw invalid(
    path,
    `must be a provider, a key of one or a tag, not '${name.slice(0, 64)}'; ` +
      (near.length > 0 ? `did you mean ${near.join(', ')}?` : 'sluice route MODEL lists them'),
  )
})

/** A strategy, or OpenRouter's object with one. */
const sort: Reader<Strategy> = {
  read(value, path) {
    if (!isObject(value)) return oneOf(value, path, STRATEGIES)
    refuseOthers(value, path, ['by'])
    return oneOf(value.by, `${path}.by`, STRATEGIES)
  },
  split: isText,
}

const maxPrice: Reader<{ prompt?: number; completion?: number }> = {
  read(value, path) {
    if (!isObject(value)) throw invalid(path, `must be an object, not ${describeType(value)}`)
    refuseOthers(value, path, ['prompt', 'completion'])
    const limits: { prompt?: number; completion?: number } = {}
    for (const name of ['prompt', 'completion'] as const) {
      const limit = value[name] ?? undefined
      if (limit !== undefined) limits[name] = readPrice(limit, `${path}.${name}`)
    }
    return limits
  },
  split: (text) =>
    Object.fromEntries(splitList(text).map((one) => [...one.split('=', 2), ''].map((part) => part.trim()))),
}

function readPrice(value: unknown, path: string): number {
  const price = typeof value === 'string' && /^\d+(\.\d+)?$/.test(value) ? Number(value) : value
  if (typeof price === 'number' && price >= 0 && price <= 1_000_000) return price
  throw invalid(path, 'must be USD per million tokens: a number from 0 to 1000000')
}

/** The members of `provider`, each with its name in headers and its preference. */
const MEMBERS: Readonly<Record<string, { name: Preference; header?: string; reader: Reader<unknown> }>> = {
  order: { name: 'order', header: 'x-sluice-provider-order', reader: providers },
  only: { name: 'only', header: 'x-sluice-provider-only', reader: providers },
  ignore: { name: 'ignore', header: 'x-sluice-provider-ignore', reader: providers },
  sort: { name: 'strategy', header: 'x-sluice-provider-sort', reader: sort },
  max_price: { name: 'maxPrice', header: 'x-sluice-provider-max-price', reader: maxPrice },
  allow_fallbacks: { name: 'allowFallbacks', header: 'x-sluice-provider-allow-fallbacks', reader: flag },
  data_collection: {
    name: 'dataCollection',
    header: 'x-sluice-provider-data-collection',
    reader: { read: (value, path) => oneOf(value, path, ['allow', 'deny']), split: isText },
  },
  zdr: { name: 'zdr', header: 'x-sluice-provider-zdr', reader: flag },
  regions: { name: 'regions', header: 'x-sluice-provider-regions', reader: listOf((text) => text) },
  quantizations: {
    name: 'quantizations',
    header: 'x-sluice-provider-quantizations',
    reader: listOf((text, path) => oneOf(text, path, QUANTIZATIONS)),
  },
  // x-sluice-strict is its header.
  require_parameters: { name: 'requireParameters', reader: flag },
}
const NAMES = Object.keys(MEMBERS)
const HEADERS = Object.entries(MEMBERS).flatMap(([member, { name, header, reader }]) =>
  header === undefined ? [] : [{ path: `provider.${member}`, name, header, reader }],
)

function refuseOthers(object: Record<string, unknown>, path: string, known: readonly string[]): void {
  for (const name of Object.keys(object))
    if (!known.includes(name) && object[name] !== null)
      throw invalid(`${path}.${name.slice(0, 64)}`, `is not supported; ${path} has ${known.join(', ')}`)
}

/**
 * The preferences in the members of a body and in headers; undefined without any. Throws invalid_request with the path
 * of a wrong one, of an unknown name, and of one that both have.
 */
export function readPreferences(
  members: RoutingMembers | undefined,
  headers: Headers | undefined,
  names: KnownNames,
): RoutingPreferences | undefined {
  const read: Preferences = {}
  if (members !== undefined) readMembers(read, members, names)
  if (headers !== undefined) readHeaders(read, headers, names)
  for (const name in read) if (read[name as Preference] !== undefined) return read
  return undefined
}

function readMembers(read: Preferences, members: RoutingMembers, names: KnownNames): void {
  const body = new Fields(members)
  const provider = body.object('provider')?.value
  if (provider !== undefined) {
    refuseOthers(provider, 'provider', NAMES)
    for (const member of NAMES) {
      const { name, reader } = MEMBERS[member]!
      const value = provider[member] ?? undefined
      if (value !== undefined) set(read, name, reader.read(value, `provider.${member}`, names))
    }
  }
  const models = body.strings('models', { max: MOST_MODELS })
  if (models !== undefined && models.length > 0) read.models = models
  if (body.has('route')) oneOf(members.route, 'route', ['fallback'])
  const session = body.string('session_id')
  if (session !== undefined && session.length > SESSION_LENGTH)
    throw invalid('session_id', `must have at most ${SESSION_LENGTH} characters, not ${session.length}`)
  if (session !== undefined) read.sessionId = session
}

function readHeaders(read: Preferences, headers: Headers, names: KnownNames): void {
  for (const { path, name, header, reader } of HEADERS) {
    const text = headers.get(header)
    if (text === null) continue
    if (read[name] !== undefined) throw invalid(path, `is in the header ${header}, too: send one of them`)
    set(read, name, reader.read(reader.split(text.trim()), header, names))
  }
  const models = headers.get('x-sluice-fallback-models')
  if (models !== null) {
    if (read.models !== undefined)
      throw invalid('models', 'is in the header x-sluice-fallback-models, too: send one of them')
    read.models = splitList(models)
    if (read.models.length > MOST_MODELS)
      throw invalid('x-sluice-fallback-models', `must have at most ${MOST_MODELS} names, not ${read.models.length}`)
  }
  const session = headers.get('x-session-id')
  if (session !== null && read.sessionId === undefined) read.sessionId = session.slice(0, SESSION_LENGTH)
}

/** Throws invalid_request for a preference in the headers of a request whose API has none. */
export function refusePreferences(headers: Headers, api: string): void {
  for (const header of [...HEADERS.map((one) => one.header), 'x-sluice-fallback-models'])
    if (headers.has(header)) throw invalid(header, `is not supported for ${api}`)
}

/** An empty list has no meaning. */
function set(read: Preferences, name: Preference, value: unknown): void {
  if (Array.isArray(value) && value.length === 0) return
  Object.assign(read, { [name]: value })
}
