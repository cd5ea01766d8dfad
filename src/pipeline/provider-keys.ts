import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto'
import type { Keys } from '../accounts/keys.ts'
import { log } from '../log/log.ts'
import type { Catalogue } from '../providers/catalogue.ts'
import type { Store } from '../store/store.ts'

const KIND = 'provider-key'

/** A key of a provider that was set at run time, without its text. */
export type SetProviderKey = { provider: string; at: number; by: string }

/** Keys of built-in providers that neither the file nor the environment has. They are stored encrypted. */
export class ProviderKeys {
  readonly #store: Store
  readonly #keys: Keys
  readonly #catalogue: Catalogue
  readonly #set = new Map<string, SetProviderKey & { version: number }>()

  private constructor(services: { store: Store; keys: Keys; catalogue: Catalogue }) {
    this.#store = services.store
    this.#keys = services.keys
    this.#catalogue = services.catalogue
  }

  /** Switches on the providers whose keys are stored, and follows what other servers change. */
  static async open(services: { store: Store; keys: Keys; catalogue: Catalogue }): Promise<ProviderKeys> {
    const opened = new ProviderKeys(services)
    await opened.#load()
    services.store.watch(() => opened.#load())
    return opened
  }

  find(provider: string): SetProviderKey | undefined {
    return this.#set.get(provider)
  }

  /** Checks the key, stores it and switches the provider on. Throws an Error for one that cannot be its key. */
  async set(provider: string, key: string, { at, by }: { at: number; by: string }): Promise<void> {
    this.#catalogue.enable(provider, key)
    await this.#store.setSettings.put({ kind: KIND, name: provider, value: this.#encrypt(provider, key), at, by })
    await this.#load()
  }

  async remove(provider: string): Promise<void> {
    await this.#store.setSettings.remove(KIND, provider)
    await this.#load()
  }

  async #load(): Promise<void> {
    const rows = new Map((await this.#store.setSettings.list(KIND)).map((row) => [row.name, row]))
    for (const [provider, row] of rows) {
      if (this.#set.get(provider)?.version === row.version) continue
      try {
        this.#catalogue.enable(provider, this.#decrypt(provider, row.value))
      } catch (error) {
        log.warn(`the key of ${provider} that was set in the console is not used: ${(error as Error).message}`)
      }
      this.#set.set(provider, { provider, at: row.at, by: row.by, version: row.version })
    }
    for (const provider of [...this.#set.keys()])
      if (!rows.has(provider)) {
        this.#set.delete(provider)
        this.#catalogue.disable(provider)
      }
  }

  #encrypt(provider: string, key: string): string {
    const nonce = randomBytes(12)
    const cipher = createCipheriv('aes-256-gcm', this.#keys.derive(KIND, provider), nonce)
    const body = Buffer.concat([cipher.update(key), cipher.final()])
    return Buffer.concat([nonce, cipher.getAuthTag(), body]).toString('base64')
  }

  #decrypt(provider: string, value: string): string {
    const bytes = Buffer.from(value, 'base64')
    const decipher = createDecipheriv('aes-256-gcm', this.#keys.derive(KIND, provider), bytes.subarray(0, 12))
    decipher.setAuthTag(bytes.subarray(12, 28))
    return Buffer.concat([decipher.update(bytes.subarray(28)), decipher.final()]).toString()
  }
}
