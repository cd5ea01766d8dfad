/** A setting that was made at run time. `value`: its kind's own text, secrets encrypted. */
export type SetSetting = {
  kind: string
  name: string
  value: string
  /** Counts its changes. */
  version: number
  at: number
  /** The name of the user or key. */
  by: string
}

export interface SetSettingStore {
  /** Those of all these kinds, in the order of the kinds and then of their names. */
  list(...kinds: string[]): Promise<SetSetting[]>
  /** Replaces the setting of this kind and name. */
  put(setting: Omit<SetSetting, 'version'>): Promise<void>
  remove(kind: string, name: string): Promise<void>
}
