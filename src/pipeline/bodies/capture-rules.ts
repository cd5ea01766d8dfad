import type { Identity } from '../../accounts/keys.ts'
import { INSTALLATION } from '../../accounts/roles.ts'
import { isAbove } from '../../config/capture-settings.ts'
import type { CaptureConfig } from '../../config/config.ts'
import type { CaptureMode } from '../../config/terms.ts'
import type { Store } from '../../store/store.ts'

const KIND = 'capture'

/** The requests of a key, an account or the installation that are captured, for a time where `until` is not null. */
export type CaptureSwitch = { mode: CaptureMode; until: number | null }

type Subject = Pick<Identity, 'keyId' | 'accountId' | 'isPlayground'>

/**
 * The rules by which bodies are captured: the nearest of key, account, installation and configuration decides, below
 * the most that it allows.
 */
export class CaptureRules {
  readonly #store: Store
  readonly #config: CaptureConfig
  readonly #now: () => number
  readonly #switches = new Map<string, CaptureSwitch>()

  private constructor(store: Store, config: CaptureConfig, now: () => number) {
    this.#store = store
    this.#config = config
    this.#now = now
  }

  /** Reads the switches, and follows what other servers change. */
  static async open(store: Store, config: CaptureConfig, now: () => number): Promise<CaptureRules> {
    const rules = new CaptureRules(store, config, now)
    await rules.#load()
    store.watch(() => rules.#load())
    return rules
  }

  modeOf({ keyId, accountId, isPlayground }: Subject): CaptureMode {
    const { most, default: byDefault } = this.#config
    if (isPlayground === true) return most
    const mode = (this.find(keyId) ?? this.find(accountId) ?? this.find(INSTALLATION))?.mode ?? byDefault
    return isAbove(mode, most) ? most : mode
  }

  /** The switch of a key, an account or the installation that is in force. */
  find(id: string): CaptureSwitch | undefined {
    const found = this.#switches.get(id)
    return found === undefined || (found.until ?? Infinity) <= this.#now() ? undefined : found
  }

  /** All switches in force that are on, with the id of their key or account, or `installation`. */
  *on(): Iterable<CaptureSwitch & { id: string }> {
    for (const id of this.#switches.keys()) {
      const found = this.find(id)
      if (found !== undefined && found.mode !== 'off') yield { id, ...found }
    }
  }

  /** Undefined where the configuration allows it, else the most that it does. */
  problemOf(mode: CaptureMode): CaptureMode | undefined {
    return isAbove(mode, this.#config.most) ? this.#config.most : undefined
  }

  /** Null leaves the decision to what is further away. `by`: the name of who switches. */
  async set(id: string, value: CaptureSwitch | null, by: string): Promise<void> {
    if (value === null) await this.#store.setSettings.remove(KIND, id)
    else await this.#store.setSettings.put({ kind: KIND, name: id, value: JSON.stringify(value), at: this.#now(), by })
    await this.#load()
  }

  async #load(): Promise<void> {
    const rows = await this.#store.setSettings.list(KIND)
    this.#switches.clear()
    for (const { name, value } of rows) this.#switches.set(name, JSON.parse(value) as CaptureSwitch)
  }
}
