import type { AppContext } from '../../context.ts'

/** Something with an id, and its name where it has one. */
export type Named = { id: string; name: string | null }

/** Names are read again after this time. */
const KEPT_MS = 5_000

type Names = { accounts: Map<string, string>; keys: Map<string, string | null>; at: number }

type Services = Pick<AppContext, 'store' | 'clock'>

const known = new WeakMap<Services, Names>()

/** Names of accounts and of keys by id, at most some seconds old. */
export async function namesOf(app: Services): Promise<Pick<Names, 'accounts' | 'keys'>> {
  const now = app.clock.elapsed()
  const kept = known.get(app)
  if (kept !== undefined && now - kept.at < KEPT_MS) return kept
  const { accounts: store } = app.store
  const [accounts, keys] = await Promise.all([store.list(), store.keys()])
  const names = {
    accounts: new Map(accounts.map(({ id, name }) => [id, name])),
    keys: new Map(keys.map(({ id, name }) => [id, name])),
    at: now,
  }
  known.set(app, names)
  return names
}

export const namedIn = (names: ReadonlyMap<string, string | null>, id: string | null): Named | null =>
  id === null ? null : { id, name: names.get(id) ?? null }
