import { KEY_KINDS, kindOfText, type KeyKind } from '../config/terms.ts'
import { GatewayError } from '../error.ts'
import { BoundedMap } from '../collections/bounded-map.ts'
import { allOf, isAccepted } from '../store/refused.ts'
import type { Account, AccountStatus, Store, StoredKey } from '../store/store.ts'
import { FIRST_ACCOUNT, type Accounts } from './accounts.ts'
import { AccountChanges } from './account-changes.ts'
import { invalidKey, KEY_HEADERS, type KeyHeader } from './key-headers.ts'
import { chosenKeys, isKeyText, keyTextRule, newId, newKeyText } from './key-text.ts'
import {
  identityOf,
  optionsOf,
  type ConfiguredKey,
  type Identity,
  type ListedConfiguredKey,
  type ListedKey,
  type NewKey,
} from './key-options.ts'
import { loadPepper } from './pepper.ts'
import { INSTALLATION } from './roles.ts'

export type * from './key-options.ts'

/** Values cached per header. Only those of active keys are, so that a flood of wrong ones displaces nothing. */
const CACHED_VALUES_MAX = 10_000
const KEY_LENGTH_MAX = 512
/** Characters of a key's text that are stored, to recognise it by. */
const PREFIX_LENGTH = 12
/** The beginning of the ids of keys in the configuration file. */
const CONFIGURED = 'key_config_'

/** The last use of a key in this process; 0 before the first. */
type KeyUse = { at: number; writtenAt: number }
type ActiveKey = { identity: Identity; expiresAt: number; use: KeyUse }

/** `recent`: the active keys recently received in it, by the header's value. */
type CachedHeader = KeyHeader & { recent: Map<string, ActiveKey> }

/**
 * All keys, in memory, so that requests are authenticated without the database. Other processes' changes are watched.
 */
export class Keys {
  readonly #store: Store
  readonly #accounts: Accounts
  readonly #pepper: Buffer
  readonly #now: () => number
  readonly #configured: readonly ConfiguredKey[]
  readonly #headers: readonly CachedHeader[] = KEY_HEADERS.map((header) => ({
    ...header,
    recent: new BoundedMap<string, ActiveKey>(CACHED_VALUES_MAX),
  }))
  /** By the base64 of the key's hash. */
  readonly #active = new Map<string, ActiveKey>()
  readonly #statuses = new Map<string, AccountStatus>()
  readonly #changes: AccountChanges
  #hasStoredKeys = false
  readonly #uses = new Map<string, KeyUse>()

  private constructor(
    store: Store,
    accounts: Accounts,
    pepper: Buffer,
    configured: readonly ConfiguredKey[],
    now: () => number,
  ) {
    this.#store = store
    this.#accounts = accounts
    this.#pepper = pepper
    this.#configured = configured
    this.#now = now
    this.#changes = new AccountChanges(store.accounts, (ids) => this.#load(ids))
  }

  /** `folder`, `env`: those with the pepper. Fails with an Error for the operator. */
  static async open(options: {
    store: Store
    accounts: Accounts
    folder: string
    env?: Record<string, string | undefined>
    configured?: readonly ConfiguredKey[]
    now?: () => number
  }): Promise<Keys> {
    const { store, accounts, configured = [], now = store.time } = options
    const keys = new Keys(store, accounts, await loadPepper(options), configured, now)
    for (const { account } of configured) await accounts.ensure(account)
    await keys.#changes.readAll()
    store.watch(() => keys.refresh())
    return keys
  }

  /**
   * Creates one key of each kind where no key was ever stored, and gives their texts, which are shown once. Chosen ones
   * are used then: the one in SLUICE_MANAGEMENT_KEY is an owner of the installation. The one in SLUICE_KEY is also
   * added on later starts where it is unknown. Fails with an Error for the operator where one is invalid or revoked.
   */
  async start(env: Record<string, string | undefined> = {}): Promise<{ kind: KeyKind; text: string }[]> {
    const chosen = chosenKeys(env)
    const first = this.#hasStoredKeys ? [] : await this.#firstKeys(chosen)
    const { 'pay-as-you-go': text } = chosen
    if (first.length > 0 || text === undefined) return first
    const stored = await this.stored(text)
    if (stored?.revokedAt != null) throw new Error(`SLUICE_KEY is a revoked key (${stored.id}); choose another one`)
    if (stored !== undefined || this.#active.has(this.#hash(text).toString('base64'))) return []
    try {
      await this.create({ kind: 'pay-as-you-go', name: 'SLUICE_KEY', text })
    } catch (error) {
      // Another process that starts may have been first.
      if ((await this.stored(text)) === undefined) throw error
      return []
    }
    return [{ kind: 'pay-as-you-go', text }]
  }

  async #firstKeys(chosen: Partial<Record<KeyKind, string>>): Promise<{ kind: KeyKind; text: string }[]> {
    const account = await this.#accounts.named()
    const first = KEY_KINDS.map((kind) => ({ kind, text: chosen[kind] ?? newKeyText(kind) }))
    const rows = first.map(({ kind, text }): [NewKey, string] => {
      const isOwner = kind === 'management' && chosen.management !== undefined
      return [{ kind, name: 'first', ...(isOwner ? { role: { scope: INSTALLATION, role: 'owner' } } : {}) }, text]
    })
    const added = await this.#store.accounts.addFirstKeys(rows.map(([key, text]) => this.#row(key, account.id, text)))
    await this.refresh()
    return added ? first : []
  }

  /**
   * Creates a key. Its text is returned only here, because only its hash is stored. `also` hands writes to the store
   * that are made together with it.
   */
  async create(
    key: NewKey,
    also: (row: StoredKey, account: Account) => readonly Promise<unknown>[] = () => [],
  ): Promise<{ id: string; text: string; account: string }> {
    if (key.text !== undefined && !isKeyText(key.text, key.kind))
      throw new Error(`a ${key.kind} key must be ${keyTextRule(key.kind)}`)
    if (key.text !== undefined && (await this.stored(key.text)) !== undefined)
      throw new Error('this key already exists')
    const account = await this.#accounts.named(key.account)
    const text = key.text ?? newKeyText(key.kind)
    const row = this.#row(key, account.id, text)
    await allOf(this.#store.together(() => [this.#store.accounts.addKey(row), ...also(row, account)]))
    await this.refresh()
    return { id: row.id, text, account: account.name }
  }

  async list(): Promise<ListedKey[]> {
    const names = new Map((await this.#store.accounts.list()).map(({ id, name }) => [id, name]))
    return (await this.#store.accounts.keys()).map((key) => ({
      id: key.id,
      kind: key.kind,
      account: names.get(key.accountId) ?? key.accountId,
      name: key.name,
      text: `${key.prefix}...${key.last4}`,
      createdAt: key.createdAt,
      expiresAt: key.expiresAt,
      revokedAt: key.revokedAt,
      requestsPerMinute: key.requestsPerMinute,
      models: key.models,
      limit: key.limit,
      limitPeriod: key.limitPeriod,
    }))
  }

  /**
   * Revokes a key. `which`: its id, its text, or the beginning that `list` shows where only one key has it. Revoking
   * again changes nothing. `also`: as for `create`.
   */
  async revoke(
    which: string,
    also: (row: StoredKey) => readonly Promise<unknown>[] = () => [],
  ): Promise<{ id: string }> {
    const key = await this.#find(which)
    if (key.revokedAt === null) await isAccepted(this.#store.together(() => [this.revokeAll([key.id]), ...also(key)]))
    return { id: key.id }
  }

  /** Revokes keys by their ids. False, and nothing changed of what is made together, where one is revoked already. */
  async revokeAll(ids: readonly string[]): Promise<boolean> {
    const revoked = await Promise.all(ids.map((id) => this.#store.accounts.revokeKey(id, this.#now())))
    await this.refresh()
    return revoked.every(Boolean)
  }

  /**
   * Replaces a key by a new one with the same options and a fresh spending limit. The old one is revoked at once or
   * works for `graceMs` more. Fails with an Error for the operator where it is expired or revoked. `also`: as above.
   */
  async rotate(
    which: string,
    graceMs: number,
    also: (row: StoredKey, old: StoredKey) => readonly Promise<unknown>[] = () => [],
  ): Promise<{ id: string; text: string; old: { id: string; kind: KeyKind; worksUntil: number | null } }> {
    const now = this.#now()
    const old = await this.#find(which)
    if (old.revokedAt !== null || (old.expiresAt ?? Infinity) <= now)
      throw new Error(
        `${old.id} is already ${old.revokedAt === null ? 'expired' : 'revoked'}; sluice keys create creates a new key`,
      )
    const text = newKeyText(old.kind)
    const row: StoredKey = {
      ...old,
      id: newId('key'),
      hash: this.#hash(text),
      prefix: text.slice(0, PREFIX_LENGTH),
      last4: text.slice(-4),
      createdAt: now,
    }
    const worksUntil = graceMs === 0 ? null : Math.min(old.expiresAt ?? Infinity, now + graceMs)
    const { accounts } = this.#store
    const isReplaced = await isAccepted(
      this.#store.together(() => [
        worksUntil === null ? accounts.revokeKey(old.id, now) : accounts.expireKey(old.id, worksUntil, old.expiresAt),
        accounts.addKey(row),
        ...also(row, old),
      ]),
    )
    if (!isReplaced)
      throw new GatewayError('conflict', `${old.id} was revoked or rotated meanwhile: look at the list of keys.`)
    await this.refresh()
    return { id: row.id, text, old: { id: old.id, kind: old.kind, worksUntil } }
  }

  async #find(which: string): Promise<StoredKey> {
    const hash = this.#hash(which)
    const rows = await this.#store.accounts.keys()
    const exact = rows.find((row) => row.id === which || hash.equals(row.hash))
    const matching =
      exact === undefined && kindOfText(which) !== undefined ? rows.filter((row) => row.prefix.startsWith(which)) : []
    const [key = exact, ...others] = matching
    if (key === undefined) throw new Error('no stored key has this id or text')
    if (others.length > 0)
      throw new Error(`several keys begin like this; use the id of one: ${matching.map(({ id }) => id).join(', ')}`)
    return key
  }

  /**
   * Authenticates a request by the first header with an active key, because clients may send another key left over in
   * an environment variable. The query is never read: it ends up in logs. Throws invalid_api_key (401).
   */
  identify(headers: Headers): Identity {
    for (const header of this.#headers) {
      const value = headers.get(header.name)
      if (value === null) continue
      const key = header.recent.get(value) ?? this.#lookUp(header, value)
      const now = this.#now()
      if (key !== undefined && key.expiresAt > now) {
        key.use.at = now
        return key.identity
      }
    }
    throw invalidKey()
  }

  #useOf(id: string): KeyUse {
    let use = this.#uses.get(id)
    if (use === undefined) this.#uses.set(id, (use = { at: 0, writtenAt: 0 }))
    return use
  }

  /** The last use of each of these keys, by their id; those that were never used are absent. */
  async lastUses(ids: readonly string[]): Promise<Map<string, number>> {
    const uses = await this.#store.accounts.keyUses(ids)
    for (const id of ids) {
      const at = this.#uses.get(id)?.at ?? 0
      if (at > (uses.get(id) ?? 0)) uses.set(id, at)
    }
    return uses
  }

  /** Writes down which keys were used since the last time. */
  async writeUses(): Promise<void> {
    const used = [...this.#uses].filter(([, { at, writtenAt }]) => at > writtenAt)
    if (used.length === 0) return
    await this.#store.accounts.useKeys(used.map(([id, { at }]) => ({ id, at })))
    for (const [, use] of used) use.writtenAt = use.at
  }

  /** The keys of the configuration file that are in force, without their texts. */
  configured(): ListedConfiguredKey[] {
    return this.#configured.flatMap(({ key: text, name, ...options }) => {
      const active = this.#active.get(this.#hash(text).toString('base64'))
      if (active === undefined || !active.identity.keyId.startsWith(CONFIGURED)) return []
      const prefix = kindOfText(text) === undefined ? '' : text.slice(0, PREFIX_LENGTH)
      const { keyId: id, accountId, kind } = active.identity
      return [{ ...options, id, accountId, kind, name: name ?? null, prefix, last4: text.slice(-4) }]
    })
  }

  /** Writes the name, limits, models, role and expiry of a stored key. */
  async change(key: StoredKey): Promise<void> {
    await this.#store.accounts.changeKey(key)
    await this.refresh()
  }

  /** True as long as no account was added to the first. */
  get haveOneAccount(): boolean {
    return this.#statuses.size <= 1
  }

  /** True for suspended and banned accounts: nothing more is started for them. */
  isBlocked(accountId: string): boolean {
    return isBlocked(this.#statuses.get(accountId))
  }

  #lookUp(header: CachedHeader, value: string): ActiveKey | undefined {
    const text = header.keyOf(value)
    if (text === undefined || text.length > KEY_LENGTH_MAX) return undefined
    const key = this.#active.get(this.#hash(text).toString('base64'))
    if (key !== undefined) header.recent.set(value, key)
    return key
  }

  /** The status of each account. */
  *statuses(): Iterable<Pick<Account, 'id' | 'status'>> {
    for (const [id, status] of this.#statuses) yield { id, status }
  }

  /** Reads what changed. Needed after this process changed an account; other processes are watched. */
  refresh(): Promise<void> {
    return this.#changes.read()
  }

  /** Reads accounts with their keys. */
  async #load(ids: readonly string[]): Promise<void> {
    const accounts = new Map((await this.#store.accounts.list(ids)).map((account) => [account.id, account]))
    for (const { id, status } of accounts.values()) this.#statuses.set(id, status)
    for (const configured of this.#configured) await this.#loadConfigured(configured, accounts)
    for (const row of await this.#store.accounts.keys(ids)) {
      this.#hasStoredKeys = true
      const hash = Buffer.from(row.hash).toString('base64')
      if (row.revokedAt !== null) this.#active.delete(hash)
      else
        this.#active.set(hash, {
          identity: identityOf(row, accounts.get(row.accountId)!, row.kind, optionsOf(row)),
          expiresAt: row.expiresAt ?? Infinity,
          use: this.#useOf(row.id),
        })
    }
    for (const { recent } of this.#headers) recent.clear()
  }

  async #loadConfigured(
    { key, kind, account, ...options }: ConfiguredKey,
    accounts: ReadonlyMap<string, Account>,
  ): Promise<void> {
    const hash = this.#hash(key)
    const owner = accounts.values().find(({ name }) => name === (account ?? FIRST_ACCOUNT))
    // A stored key wins over the configuration file, so that a revoked one stays revoked.
    if (owner === undefined || (await this.#store.accounts.keyWithHash(hash)) !== undefined) return
    // The id is derived from the hash, so that counters and records have the same one after a restart.
    const id = `${CONFIGURED}${hash.toString('hex').slice(0, 16)}`
    this.#active.set(hash.toString('base64'), {
      identity: identityOf({ id, name: options.name ?? null }, owner, kind, options),
      expiresAt: Infinity,
      use: this.#useOf(id),
    })
  }

  /** A secret of 32 bytes for each purpose and subject, the same after a restart. */
  derive(purpose: string, subject: string): Buffer {
    // Two steps, so that no key text can have the same hash.
    return new Bun.CryptoHasher('sha256', this.#hash(purpose)).update(subject).digest()
  }

  #hash(text: string): Buffer {
    return new Bun.CryptoHasher('sha256', this.#pepper).update(text).digest()
  }

  /** The key with this text, also one that was revoked. */
  stored(text: string): Promise<StoredKey | undefined> {
    return this.#store.accounts.keyWithHash(this.#hash(text))
  }

  #row(key: NewKey, accountId: string, text: string): StoredKey {
    return {
      id: newId('key'),
      accountId,
      kind: key.kind,
      hash: this.#hash(text),
      prefix: text.slice(0, PREFIX_LENGTH),
      last4: text.slice(-4),
      name: key.name ?? null,
      createdAt: this.#now(),
      expiresAt: key.expiresAt ?? null,
      revokedAt: null,
      requestsPerMinute: key.requestsPerMinute ?? null,
      models: key.models ?? null,
      limit: key.limit ?? null,
      limitPeriod: key.limitPeriod ?? null,
      limitSince: null,
      idempotency: key.idempotency ?? true,
      role: key.role?.role ?? null,
      scope: key.role?.scope ?? null,
      createdBy: key.createdBy ?? null,
      source: key.source ?? null,
    }
  }
}

const isBlocked = (status: AccountStatus | undefined): boolean => status === 'suspended' || status === 'banned'
