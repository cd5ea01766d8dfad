import { decrypted, encrypted } from '../../accounts/encryption.ts'
import type { Keys } from '../../accounts/keys.ts'
import { log } from '../../log/log.ts'
import type { SetSetting, Store } from '../../store/store.ts'

/**
 * Kinds of what is set at run time: objects as they are under `providers`, `models` and `plans.tiers`, the text of a
 * provider's key, and all other settings in one object without a name.
 */
const SET_KINDS = ['provider', 'provider-key', 'model', 'plan', 'settings'] as const
export type SetKind = (typeof SET_KINDS)[number]

export type SetObject = { kind: SetKind; name: string; value: unknown }

/** `by`: the name of who set it. */
export type StoredObject = SetObject & { version: number; at: number; by: string }

/** Kinds with secrets. */
const isSecret = (kind: SetKind): boolean => kind === 'provider' || kind === 'provider-key'

const textOf = ({ kind, value }: SetObject): string =>
  kind === 'provider-key' ? (value as string) : JSON.stringify(value)

/** The value of its row. */
export const stored = (keys: Keys, object: SetObject): string =>
  isSecret(object.kind)
    ? encrypted(keys.derive(object.kind, object.name), Buffer.from(textOf(object))).toString('base64')
    : textOf(object)

/** The rows of all kinds. */
export const setRows = ({ setSettings }: Store): Promise<SetSetting[]> => setSettings.list(...SET_KINDS)

/** Without those that were written under another pepper, of which each is logged. */
export const restoredRows = (keys: Keys, rows: readonly SetSetting[]): StoredObject[] =>
  rows.flatMap((row) => {
    const kind = row.kind as SetKind
    try {
      return [restored(keys, row, kind)]
    } catch {
      log.warn(`what was set for ${kind} ${row.name} cannot be decrypted: it was stored under another pepper`)
      return []
    }
  })

/** Throws where the row was written under another pepper. */
function restored(keys: Keys, { name, value, version, at, by }: SetSetting, kind: SetKind): StoredObject {
  const text = isSecret(kind) ? decrypted(keys.derive(kind, name), Buffer.from(value, 'base64')).toString() : value
  return { kind, name, value: kind === 'provider-key' ? text : (JSON.parse(text) as unknown), version, at, by }
}
