import { existsSync } from 'node:fs'
import { Keys, type ListedKey } from '../accounts/keys.ts'
import { KEY_KINDS } from '../accounts/key-text.ts'
import { SqliteStore } from '../store/sqlite.ts'
import { columns, meant, UsageError, type Given } from './command.ts'
import { configOf } from './serve.ts'

export async function createKey(given: Given): Promise<void> {
  const kind = KEY_KINDS.find((known) => known === (given.text('kind') ?? 'pay-as-you-go'))
  if (kind === undefined) throw new UsageError(`--kind must be one of ${KEY_KINDS.join(', ')}${meant(given.text('kind') ?? '', KEY_KINDS)}`)
  const [account, name, expires, limit] = [given.text('account'), given.text('name'), given.text('expires'), given.text('requests-per-minute')]
  if (account === '') throw new UsageError('--account must not be empty')
  const expiresAt = expires === undefined ? undefined : readInstant(expires, Date.now())
  const requestsPerMinute = limit === undefined ? undefined : readCount(limit)
  await withKeys(given, async (keys) => {
    const created = await keys.create({
      kind, ...(account === undefined ? {} : { account }), ...(name === undefined ? {} : { name }),
      ...(expiresAt === undefined ? {} : { expiresAt }), ...(requestsPerMinute === undefined ? {} : { requestsPerMinute }),
    })
    if (given.on('json')) return console.log(JSON.stringify({ id: created.id, kind, account: created.account, text: created.text }))
    console.log(`key ${kind} ${created.text}`)
    console.error(`${created.id} of account ${created.account}; its text is not shown again`)
  })
}

export async function listKeys(given: Given): Promise<void> {
  mustExist(given)
  await withKeys(given, async (keys) => {
    const listed = await keys.list()
    if (given.on('json')) return console.log(JSON.stringify(listed.map(inWords), null, 2))
    const rows = listed.map((key) => [key.id, key.kind, key.account, key.text, instant(key.createdAt) ?? '', stateOf(key), key.name ?? ''])
    console.log(columns([['ID', 'KIND', 'ACCOUNT', 'TEXT', 'CREATED', 'STATE', 'NAME'], ...rows], ''))
  })
}

export async function revokeKey(given: Given, which: string): Promise<void> {
  mustExist(given)
  await withKeys(given, async (keys) => {
    const { id } = await keys.revoke(which)
    console.log(given.on('json') ? JSON.stringify({ id, revoked: true }) : `revoked ${id}`)
  })
}

async function withKeys(given: Given, act: (keys: Keys) => Promise<void>): Promise<void> {
  const folder = configOf(given).data
  const store = new SqliteStore({ folder, exclusive: false })
  try {
    await act(await Keys.open({ store, folder }))
  } finally {
    await store.close()
  }
}

/** Looking into a folder must not make one: a mistyped name would show an empty list. */
function mustExist(given: Given): void {
  const { data } = configOf(given)
  if (!existsSync(data)) throw new Error(`there is no data folder ${data}`)
}

const UNIT_MS: Record<string, number> = { h: 3_600_000, d: 86_400_000 }

/** A day (its beginning in UTC), an instant with its zone, or a time from now; Unix milliseconds. */
function readInstant(text: string, now: number): number {
  const [, amount, unit] = /^(\d{1,5})([hd])$/.exec(text) ?? []
  const at = amount !== undefined && unit !== undefined ? now + Number(amount) * (UNIT_MS[unit] ?? 0) : isInstant(text) ? Date.parse(text) : NaN
  if (!(at > now)) throw new UsageError('--expires must be a day or an instant to come, like 2027-01-31 or 2027-01-31T12:00:00Z, or a time from now, like 12h or 30d')
  return at
}

const isInstant = (text: string): boolean => /^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d))?$/.test(text)

function readCount(text: string): number {
  if (!/^[1-9]\d{0,6}$/.test(text)) throw new UsageError('--requests-per-minute must be a whole number from 1 to 9999999')
  return Number(text)
}

const instant = (at: number | null): string | null => (at === null ? null : new Date(at).toISOString())

const stateOf = (key: ListedKey): string =>
  key.revokedAt !== null ? `revoked ${instant(key.revokedAt)}` : key.expiresAt === null ? 'active' : `${key.expiresAt > Date.now() ? 'expires' : 'expired'} ${instant(key.expiresAt)}`

const inWords = (key: ListedKey): object => ({ ...key, createdAt: instant(key.createdAt), expiresAt: instant(key.expiresAt), revokedAt: instant(key.revokedAt) })
