import type { AppContext } from '../../context.ts'

/** Something with an id, and its name where it has one. */
export type Named = { id: string; name: string | null }

/** Names are read again after this time. */
const KEPT_MS = 5_000

type Names = { accounts: Map<string, string>; keys: Map<string, string | null>; at: number }

/** `keys`: with those of the configuration file, which are not stored. */
export type NamesServices = Pick<AppContext, 'store' | 'clock'> & { keys?: Pick<AppContext['keys'], 'configured'> }

const known = new WeakMap<NamesServices, Names>()

/**
 * Names of accounts and of keys by id, at most some seconds old. `needed`: ids of keys; where one of them is not known,
 * as that of a key that was just made, names are read again, once for as long as they are kept.
 */
export async function namesOf(
  app: NamesServices,
  needed: readonly (string | null)[] = [],
): Promise<Pick<Names, 'accounts' | 'keys'>> {
  const now = app.clock.elapsed()
  const kept = known.get(app)
  const isKnown = (id: string | null): boolean => id === null || kept?.keys.has(id) === true
  if (kept !== undefined && now - kept.at < KEPT_MS && needed.every(isKnown)) return kept
  const { accounts: store } = app.store
  const [accounts, keys] = await Promise.all([store.list(), store.keys()])
  const names: Names = {
    accounts: new Map(accounts.map(({ id, name }) => [id, name])),
    keys: new Map([...keys, ...(app.keys?.configured() ?? [])].map(({ id, name }) => [id, name])),
    at: now,
  }
  for (const id of needed) if (id !== null && !names.keys.has(id)) names.keys.set(id, null)
  known.set(app, names)
  return names
}

export const namedIn = (names: ReadonlyMap<string, string | null>, id: string | null): Named | null =>
  id === null ? null : { id, name: names.get(id) ?? null }
