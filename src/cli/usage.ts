import { FIRST_ACCOUNT } from '../accounts/accounts.ts'
import { SteadyClock } from '../accounts/clock.ts'
import { Keys } from '../accounts/keys.ts'
import { readInstant } from '../endpoints/management/filters.ts'
import { readGroups, sumUsage } from '../endpoints/management/usage.ts'
import { usageTable } from '../endpoints/management/usage-table.ts'
import { BUCKETS, Zone, type BucketName } from '../endpoints/management/zones.ts'
import { UsageError, type Given } from './command.ts'
import { type Data, withExistingData } from './data.ts'

const FORMATS = ['table', 'csv', 'json'] as const
type Format = (typeof FORMATS)[number]
const DEFAULT_FROM = '-24h'
/** A terminal shows all groups. */
const TOP = 1_000

export async function printUsage(given: Given): Promise<void> {
  const format = oneOf(FORMATS, given, 'format', 'table')
  const bucket: BucketName = oneOf(BUCKETS, given, 'bucket', 'none')
  const groups = readOption(() => readGroups(given.text('group')?.split(',') ?? []), 'group')
  const zone = readOption(() => new Zone(given.text('tz') ?? 'UTC'), 'tz')
  await withExistingData(given, async (data) => {
    const { store } = data
    const clock = new SteadyClock(store.time)
    const now = clock.now()
    const [from, to] = [instant(given, 'from', DEFAULT_FROM, now), instant(given, 'to', '-0m', now)]
    if (from >= to) throw new UsageError('--from must be before --to')
    readOption(() => zone.bounds(bucket, from, to), 'bucket')
    const name = given.text('account')
    const account = name === undefined ? undefined : await data.accounts.named(name)
    const scope = { ...(account === undefined ? {} : { accountIds: [account.id] }), choices: {} }
    const keys = groups.includes('key') ? await configuredKeys(data) : undefined
    const usage = await sumUsage(
      { store, clock, ...(keys && { keys }) },
      { now, from, to, zone, bucket, groups, top: TOP, scope },
    )
    console.log(write(format, usage, groups))
  })
}

/** The keys of the configuration file, for their names; undefined without any. Accounts that are missing stay so. */
async function configuredKeys({ config, store, accounts }: Data): Promise<Keys | undefined> {
  const made = new Set((await store.accounts.list()).map(({ name }) => name))
  const configured = config.keys.filter(({ account }) => made.has(account ?? FIRST_ACCOUNT))
  if (configured.length === 0) return undefined
  return Keys.open({ store, accounts, folder: config.data, env: config.env, configured })
}

function write(format: Format, usage: Parameters<typeof usageTable>[0], groups: readonly string[]): string {
  return format === 'json' ? JSON.stringify(usage) : usageTable(usage, groups, format).trimEnd()
}

const instant = (given: Given, name: 'from' | 'to', byDefault: string, now: number): number =>
  readOption(() => readInstant(given.text(name) ?? byDefault, name, now), name)

function oneOf<T extends string>(values: readonly T[], given: Given, name: string, byDefault: T): T {
  const text = given.text(name) ?? byDefault
  if ((values as readonly string[]).includes(text)) return text as T
  throw new UsageError(`--${name} must be one of ${values.join(', ')}`)
}

/** The problem of a value in the words of an option: `group: must be` is `--group must be`. */
function readOption<T>(read: () => T, name: string): T {
  try {
    return read()
  } catch (error) {
    throw new UsageError(`--${(error as Error).message.replace(`${name}: `, `${name} `)}`)
  }
}
