import { Keys, type ListedKey, type NewKey } from '../accounts/keys.ts'
import { INSTALLATION, rolesOf } from '../accounts/roles.ts'
import { REQUESTS_MAX } from '../config/account-settings.ts'
import { KEY_KINDS, type KeyKind, LIMIT_PERIODS } from '../config/terms.ts'
import { modelPatternProblem } from '../config/model-settings.ts'
import { described } from '../endpoints/management/keys.ts'
import { usdOf } from '../money.ts'
import { limitText, readUsd } from './amounts.ts'
import { columns, didYouMean, UsageError, type Given } from './command.ts'
import { instant, withData, withExistingData, type Data } from './data.ts'

export async function createKey(given: Given): Promise<void> {
  // A mistake is refused before anything is made.
  readKey(given, Date.now())
  await withData(given, async (data) => {
    const key = readKey(given, data.store.time())
    const created = await (await keysOf(data)).create(key, (row, account) => [
      data.line({ action: 'key.create', target: row.id, accountId: account.id, after: described(row, account, null) }),
    ])
    if (given.on('json'))
      return console.log(
        JSON.stringify({ id: created.id, kind: key.kind, account: created.account, text: created.text }),
      )
    console.log(`key ${key.kind} ${created.text}`)
    console.error(`${created.id} of account ${created.account}; the text is not shown again`)
  })
}

export async function listKeys(given: Given): Promise<void> {
  await withExistingData(given, async (data) => {
    const listed = await (await keysOf(data)).list()
    if (given.on('json')) return console.log(JSON.stringify(listed.map(toJson), null, 2))
    const rows = listed.map((key) => [
      key.id,
      key.kind,
      key.account,
      key.text,
      stateOf(key, data.store.time()),
      key.models?.join(',') ?? 'all',
      limitText(key),
      key.name ?? '',
    ])
    console.log(columns([['ID', 'KIND', 'ACCOUNT', 'TEXT', 'STATE', 'MODELS', 'LIMIT', 'NAME'], ...rows], ''))
  })
}

export async function revokeKey(given: Given, which: string): Promise<void> {
  await withExistingData(given, async (data) => {
    const { id } = await (await keysOf(data)).revoke(which, (key) => [
      data.line({ action: 'key.revoke', target: key.id, accountId: key.accountId }),
    ])
    console.log(given.on('json') ? JSON.stringify({ id, revoked: true }) : `revoked ${id}`)
  })
}

export async function rotateKey(given: Given, which: string): Promise<void> {
  const grace = given.text('grace')
  const graceMs = grace === undefined ? 0 : readDuration(grace)
  if (graceMs === undefined) throw new UsageError('--grace must be a duration, such as 30m, 24h or 7d')
  await withExistingData(given, async (data) => {
    const { id, text, old } = await (await keysOf(data)).rotate(which, graceMs, (row, replaced) => [
      data.line({
        action: 'key.rotate',
        target: replaced.id,
        accountId: row.accountId,
        after: { id: row.id, grace_seconds: graceMs / 1000 },
      }),
    ])
    const worksUntil = instant(old.worksUntil)
    if (given.on('json'))
      return console.log(JSON.stringify({ id, kind: old.kind, text, old: { id: old.id, worksUntil } }))
    console.log(`key ${old.kind} ${text}`)
    console.error(
      `${id} replaces ${old.id}, which ${worksUntil === null ? 'is revoked' : `works until ${worksUntil}`}; ` +
        'the new text is not shown again',
    )
  })
}

const keysOf = ({ config, store, accounts }: Data): Promise<Keys> =>
  Keys.open({ store, accounts, folder: config.data, env: config.env })

function readKey(given: Given, now: number): NewKey {
  const kind = KEY_KINDS.find((known) => known === (given.text('kind') ?? 'pay-as-you-go'))
  if (kind === undefined)
    throw new UsageError(
      `--kind must be one of ${KEY_KINDS.join(', ')}${didYouMean(given.text('kind') ?? '', KEY_KINDS)}`,
    )
  const [account, name, expires, requests] = [
    given.text('account'),
    given.text('name'),
    given.text('expires'),
    given.text('requests-per-minute'),
  ]
  if (account === '') throw new UsageError('--account must not be empty')
  return {
    kind,
    ...(account === undefined ? {} : { account }),
    ...(name === undefined ? {} : { name }),
    ...readRole(given, kind),
    ...readModels(given),
    ...readLimit(given),
    ...(expires === undefined ? {} : { expiresAt: readInstant(expires, now) }),
    ...(requests === undefined ? {} : { requestsPerMinute: readCount(requests) }),
    ...(given.on('no-idempotency') ? { idempotency: false } : {}),
  }
}

/** The role of a management key on the installation. */
function readRole(given: Given, kind: KeyKind): Pick<NewKey, 'role'> {
  const text = given.text('role')
  if (text === undefined) return {}
  if (kind !== 'management') throw new UsageError('--role requires --kind management')
  const roles = rolesOf(INSTALLATION)
  const role = roles.find((one) => one === text)
  if (role === undefined) throw new UsageError(`--role must be one of ${roles.join(', ')}${didYouMean(text, roles)}`)
  return { role: { scope: INSTALLATION, role } }
}

function readModels(given: Given): Pick<NewKey, 'models'> {
  const models = given
    .text('models')
    ?.split(',')
    .map((pattern) => pattern.trim())
  const wrong = models?.find((pattern) => modelPatternProblem(pattern) !== undefined)
  if (wrong !== undefined)
    throw new UsageError(`--models: ${JSON.stringify(wrong)} ${modelPatternProblem(wrong)}; separate several by commas`)
  return models === undefined ? {} : { models }
}

function readLimit(given: Given): Pick<NewKey, 'limit' | 'limitPeriod'> {
  const [limit, period] = [given.text('limit'), given.text('limit-period')]
  const limitPeriod = LIMIT_PERIODS.find((one) => one === period)
  if (period !== undefined && limitPeriod === undefined)
    throw new UsageError(
      `--limit-period must be one of ${LIMIT_PERIODS.join(', ')}${didYouMean(period, LIMIT_PERIODS)}`,
    )
  if (limit === undefined && period !== undefined) throw new UsageError('--limit-period requires --limit USD')
  return {
    ...(limit === undefined ? {} : { limit: readUsd(limit, '--limit', 'unsigned') }),
    ...(limitPeriod === undefined ? {} : { limitPeriod }),
  }
}

const UNIT_MS: Record<string, number> = { m: 60_000, h: 3_600_000, d: 86_400_000 }

/** `30m`, `12h` or `30d` in milliseconds; undefined for other texts. */
function readDuration(text: string): number | undefined {
  const [, amount, unit = ''] = /^(\d{1,5})([mhd])$/.exec(text) ?? []
  return amount === undefined ? undefined : Number(amount) * UNIT_MS[unit]!
}

/** A day (its beginning in UTC), an instant with its time zone, or a time from now, in Unix milliseconds. */
function readInstant(text: string, now: number): number {
  const length = readDuration(text)
  const at = length !== undefined ? now + length : isInstant(text) ? Date.parse(text) : NaN
  if (!(at > now))
    throw new UsageError(
      '--expires must be in the future: a day or an instant, such as 2027-01-31 or 2027-01-31T12:00:00Z, ' +
        'or a time from now, such as 12h or 30d',
    )
  return at
}

const isInstant = (text: string): boolean =>
  /^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d))?$/.test(text)

function readCount(text: string): number {
  if (!/^[1-9]\d{0,6}$/.test(text) || Number(text) > REQUESTS_MAX)
    throw new UsageError(`--requests-per-minute must be a whole number from 1 to ${REQUESTS_MAX}`)
  return Number(text)
}

/** `active`, `expires 2027-...`, `expired 2026-...` or `revoked 2026-...`. */
export const stateOf = (key: Pick<ListedKey, 'expiresAt' | 'revokedAt'>, now: number): string =>
  key.revokedAt !== null
    ? `revoked ${instant(key.revokedAt)}`
    : key.expiresAt === null
      ? 'active'
      : `${key.expiresAt > now ? 'expires' : 'expired'} ${instant(key.expiresAt)}`

const toJson = ({ limit, ...key }: ListedKey): object => ({
  ...key,
  limitUsd: limit === null ? null : usdOf(limit),
  createdAt: instant(key.createdAt),
  expiresAt: instant(key.expiresAt),
  revokedAt: instant(key.revokedAt),
})
