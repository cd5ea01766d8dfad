import type { Config } from '../../config/config.ts'
import { fileStoreText } from '../../config/file-store.ts'
import { FILE } from '../../config/schema.ts'
import { shownUrl } from '../../config/store-settings.ts'
import { isObject } from '../../json/parse.ts'
import { usdText } from '../../money.ts'

/** A setting that is no mapping, by its path in sluice.yaml. */
export type Leaf = { path: string; description: string }

export type Members = Record<string, unknown>

/** The value at a path of members. */
export const at = (value: unknown, path: string): unknown =>
  path.split('.').reduce((of: unknown, name) => (isObject(of) ? of[name] : undefined), value)

function leavesOf(schema: Members, path: string): Leaf[] {
  const { properties, description = '' } = schema as { properties?: Record<string, Members>; description?: string }
  if (properties === undefined) return [{ path, description }]
  return Object.entries(properties).flatMap(([name, of]) => leavesOf(of, path === '' ? name : `${path}.${name}`))
}

export const ALL_LEAVES = leavesOf(FILE.schema, '')

const UNITS = [
  [86_400_000, 'd'],
  [3_600_000, 'h'],
  [60_000, 'm'],
  [1000, 's'],
] as const
const SIZES = [
  [2 ** 40, 'TiB'],
  [2 ** 30, 'GiB'],
  [2 ** 20, 'MiB'],
  [2 ** 10, 'KiB'],
] as const

const inUnits = (value: number, units: readonly (readonly [number, string])[], smallest: string): string => {
  const [size, name] = units.find(([one]) => value >= one && value % one === 0) ?? [1, smallest]
  return `${value / size}${name}`
}

/** Where the configuration has settings under other names than the file. */
const MEMBERS: Record<string, string> = {
  'fetch.size': 'fetch.bytes',
  'limits.conversations': 'limits.conversation',
  'store.connections': 'store.postgres.connections',
  'store.patience': 'store.postgres.patience',
  'store.deadAfter': 'store.postgres.deadAfter',
}
/** Sizes without a unit in their names. */
const OF_BYTES = new Set(['fetch.size', 'capture.bytes'])

const monthsText = (months: number | undefined): string =>
  months === undefined ? 'forever' : `${months} month${months === 1 ? '' : 's'}`

/** `5%, at most 1GiB`: the default is both, what the file has is one of them. */
function reserveText(store: Config['store']): string | null {
  if (store.postgres !== undefined) return null
  const { share, bytes } = store.reserve
  const size = Number.isFinite(bytes) ? [inUnits(bytes, SIZES, 'B')] : []
  return (share === 1 ? size : [`${Number((share * 100).toFixed(6))}%`, ...size]).join(', at most ')
}

/** The value in force, as sluice.yaml would have it, without a password; null where there is none. */
export function textOf(config: Config, path: string): unknown {
  const { postgres } = config.store
  if (path === 'store.url') return postgres === undefined ? null : shownUrl(postgres.url)
  if (path === 'store.reserve') return reserveText(config.store)
  if (path === 'retention.records') return monthsText(config.retention.recordMonths)
  if (path === 'files.store') return fileStoreText(config.files.store)
  const name = MEMBERS[path] ?? path
  const plain = at(config, name)
  if (typeof plain === 'number' && OF_BYTES.has(path)) return inUnits(plain, SIZES, 'B')
  if (typeof plain === 'bigint') return usdText(plain)
  if (plain !== undefined && !isObject(plain)) return plain
  const ms = at(config, `${name}Ms`)
  if (typeof ms === 'number') return inUnits(ms, UNITS, 'ms')
  const bytes = at(config, `${name}Bytes`)
  return typeof bytes === 'number' && Number.isFinite(bytes) ? inUnits(bytes, SIZES, 'B') : null
}
