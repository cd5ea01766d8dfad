import { GatewayError } from '../error.ts'
import type { Account, AccountStatus, KeyKind, LimitPeriod, Store, StoredKey } from '../store/store.ts'
import { FIRST_ACCOUNT, type Accounts } from './accounts.ts'
import { allowedModels, anyModel, type AllowedModels } from './allowed-models.ts'
import type { KeyLimit } from './budget.ts'
import { isKeyText, KEY_KINDS, keyTextRule, kindOfText, newId, newKeyText } from './key-text.ts'
import { loadPepper } from './pepper.ts'

/** Header texts remembered per header. Only texts of working keys are, so a flood of wrong ones displaces nothing. */
const RECENT_TEXTS = 10_000
const LONGEST_KEY_TEXT = 512
/** How much of a key's text is kept, to recognise it by. */
const PREFIX_LENGTH = 12

export type Identity = {
  readonly keyId: string
  readonly accountId: string
  readonly accountStatus: AccountStatus
  /** Of the account, in basis points. */
  readonly discount: number
  readonly kind: KeyKind
  readonly allows: AllowedModels
  readonly limit?: KeyLimit
  readonly requestsPerMinute?: number
}

/** What a key may do less than others of its kind. */
type KeyOptions = {
  /** Patterns of model names. */
  models?: string[]
  /** Nano-USD that may be spent, in each period where there is one. */
  limit?: bigint
  limitPeriod?: LimitPeriod
  requestsPerMinute?: number
}

/**
 * A key written in the config file. Its kind is the one its text announces, else pay-as-you-go. It is never stored; its
 * account is made when there is none.
 */
export type ConfiguredKey = KeyOptions & { key: string; kind?: KeyKind; account?: string }

export type NewKey = KeyOptions & {
  kind: KeyKind
  /** An account's name or id. */
  account?: string
  name?: string
  /** Unix milliseconds. */
  expiresAt?: number
  /** A text chosen by the operator instead of a random one. */
  text?: string
}

/** A key as the operator sees it. `text` is the beginning and the end of the key's text. */
export type ListedKey = {
  id: string
  kind: KeyKind
  account: string
  name: string | null
  text: string
  createdAt: number
  expiresAt: number | null
  revokedAt: number | null
  requestsPerMinute: number | null
  models: string[] | null
  limit: bigint | null
  limitPeriod: LimitPeriod | null
}

type Known = { identity: Identity; expiresAt: number }

/** A header a key may stand in, and the texts of working keys seen there lately. */
type Place = { header: string; keyOf: (value: string) => string | undefined; recent: Map<string, Known> }

/** Where clients put their key. The Anthropic and Google SDKs send the second and the third. */
const PLACES: readonly Omit<Place, 'recent'>[] = [
  { header: 'authorization', keyOf: (value) => /^bearer +(\S+)$/i.exec(value)?.[1] },
  { header: 'x-api-key', keyOf: (value) => value },
  { header: 'x-goog-api-key', keyOf: (value) => value },
]

/**
 * All keys, in memory: identifying a client asks no database. Another process's changes arrive through the store's
 * watch.
 */
export class Keys {
  readonly #store: Store
  readonly #accounts: Accounts
  readonly #pepper: Buffer
  readonly #now: () => number
  readonly #configured: readonly ConfiguredKey[]
  readonly #places: readonly Place[] = PLACES.map((place) => ({ ...place, recent: new Map<string, Known>() }))
  #known = new Map<string, Known>()
  #barred = new Set<string>()

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
  }

  /** `folder` is the data folder, where the pepper is. Fails with a plain Error worded for the operator. */
  static async open(options: {
    store: Store
    accounts: Accounts
    folder: string
    configured?: readonly ConfiguredKey[]
    now?: () => number
  }): Promise<Keys> {
    const { store, accounts, folder, configured = [], now = Date.now } = options
    const keys = new Keys(store, accounts, await loadPepper(folder, store), configured, now)
    for (const { account } of configured) await accounts.ensure(account)
    await keys.reload()
    store.watch(() => keys.reload())
    return keys
  }

  /**
   * Makes one key of each kind when no key was ever stored, and gives those texts: they are shown once, now.
   * `given` (SLUICE_KEY) becomes the pay-as-you-go key instead of a random one; later it is added when it is not known
   * yet.
   */
  async start(given?: string): Promise<{ kind: KeyKind; text: string }[]> {
    // Compose files pass an unset variable on as an empty one.
    const chosen = given === '' ? undefined : given
    if (chosen !== undefined && !isKeyText(chosen, 'pay-as-you-go'))
      throw new Error(`SLUICE_KEY must be ${keyTextRule('pay-as-you-go')}`)
    const first = (await this.#store.accounts.keys()).length === 0 ? await this.#firstKeys(chosen) : []
    if (first.length > 0 || chosen === undefined) return first
    const stored = await this.#stored(chosen)
    if (stored?.revokedAt != null)
      throw new Error(`SLUICE_KEY is a key that was revoked (${stored.id}); choose another one`)
    if (stored !== undefined || this.#known.has(this.#hash(chosen).toString('base64'))) return []
    return [
      {
        kind: 'pay-as-you-go',
        text: (await this.create({ kind: 'pay-as-you-go', name: 'SLUICE_KEY', text: chosen })).text,
      },
    ]
  }

  async #firstKeys(chosen: string | undefined): Promise<{ kind: KeyKind; text: string }[]> {
    const account = await this.#accounts.named()
    const first = KEY_KINDS.map((kind) => ({
      kind,
      text: kind === 'pay-as-you-go' && chosen !== undefined ? chosen : newKeyText(kind),
    }))
    // Said in one turn, they are one transaction.
    await Promise.all(
      first.map(({ kind, text }) =>
        this.#store.accounts.addKey(this.#row({ kind, text, name: 'first' }, account.id, text)),
      ),
    )
    await this.reload()
    return first
  }

  /** The text is returned here and nowhere else: only its hash is kept. */
  async create(key: NewKey): Promise<{ id: string; text: string; account: string }> {
    if (key.text !== undefined && !isKeyText(key.text, key.kind))
      throw new Error(`a ${key.kind} key must be ${keyTextRule(key.kind)}`)
    if (key.text !== undefined && (await this.#stored(key.text)) !== undefined)
      throw new Error('this key exists already')
    const account = await this.#accounts.named(key.account)
    const text = key.text ?? newKeyText(key.kind)
    const row = this.#row(key, account.id, text)
    await this.#store.accounts.addKey(row)
    await this.reload()
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
   * `which` is an id, a whole key, or the beginning that `list` shows when only one key begins so. Revoking twice is no
   * error.
   */
  async revoke(which: string): Promise<{ id: string }> {
    const { id } = await this.#find(which)
    await this.#store.accounts.revokeKey(id, this.#now())
    await this.reload()
    return { id }
  }

  /**
   * A new text for a key: makes a key with the options of the old one, which is revoked at once or works for `graceMs`
   * more.
   * Its spending limit begins anew. Fails with a plain Error when the old key does not work any more.
   */
  async rotate(
    which: string,
    graceMs: number,
  ): Promise<{ id: string; text: string; old: { id: string; kind: KeyKind; worksUntil: number | null } }> {
    const now = this.#now()
    const old = await this.#find(which)
    if (old.revokedAt !== null || (old.expiresAt ?? Infinity) <= now)
      throw new Error(
        `${old.id} is ${old.revokedAt === null ? 'expired' : 'revoked'} already; sluice keys create makes a new key`,
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
    // Said in one turn, they are one transaction.
    await Promise.all([
      this.#store.accounts.addKey(row),
      worksUntil === null
        ? this.#store.accounts.revokeKey(old.id, now)
        : this.#store.accounts.expireKey(old.id, worksUntil),
    ])
    await this.reload()
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
      throw new Error(`several keys begin so; name one by its id: ${matching.map(({ id }) => id).join(', ')}`)
    return key
  }

  /**
   * Who asks. The first place that holds a working key decides, because clients send a key left over in another
   * variable beside
   * the one meant for us. The query is never read: it ends up in logs.
   */
  identify(headers: Headers): Identity {
    for (const place of this.#places) {
      const value = headers.get(place.header)
      if (value === null) continue
      const known = place.recent.get(value) ?? this.#look(place, value)
      if (known !== undefined && known.expiresAt > this.#now()) return known.identity
    }
    // One answer for every reason: it must not tell a guesser whether a key exists, has expired or was revoked.
    throw new GatewayError(
      'invalid_api_key',
      'A valid API key is required, in the header "Authorization: Bearer KEY", "x-api-key" or "x-goog-api-key".',
    )
  }

  /** Whether this account is suspended or banned: nothing more is begun for it. */
  isBarred(accountId: string): boolean {
    return this.#barred.has(accountId)
  }

  #look(place: Place, value: string): Known | undefined {
    const text = place.keyOf(value)
    if (text === undefined || text.length > LONGEST_KEY_TEXT) return undefined
    const known = this.#known.get(this.#hash(text).toString('base64'))
    if (known === undefined) return undefined
    if (place.recent.size >= RECENT_TEXTS) place.recent.clear()
    place.recent.set(value, known)
    return known
  }

  /**
   * Reads all keys and accounts again. Needed after this process changed an account's row; other processes' changes are
   * watched.
   */
  async reload(): Promise<void> {
    const [accounts, rows] = [await this.#store.accounts.list(), await this.#store.accounts.keys()]
    const known = new Map<string, Known>()
    for (const configured of this.#configured) this.#addConfigured(configured, accounts, known)
    const byId = new Map(accounts.map((account) => [account.id, account]))
    for (const row of rows) {
      const account = byId.get(row.accountId)
      const hash = Buffer.from(row.hash).toString('base64')
      // A stored row wins over the config file: what was revoked stays revoked.
      if (account === undefined || row.revokedAt !== null) known.delete(hash)
      else
        known.set(hash, {
          identity: identityOf(row.id, account, row.kind, optionsOf(row)),
          expiresAt: row.expiresAt ?? Infinity,
        })
    }
    this.#known = known
    this.#barred = new Set(
      accounts.filter(({ status }) => status === 'suspended' || status === 'banned').map(({ id }) => id),
    )
    for (const place of this.#places) place.recent.clear()
  }

  #addConfigured(
    { key, kind, account, ...options }: ConfiguredKey,
    accounts: readonly Account[],
    known: Map<string, Known>,
  ): void {
    const owner = accounts.find(({ name }) => name === (account ?? FIRST_ACCOUNT))
    if (owner === undefined) return
    const hash = this.#hash(key)
    // Its id is derived from the hash, so that counters and records name the same key after a restart.
    const id = `key_config_${hash.toString('hex').slice(0, 16)}`
    known.set(hash.toString('base64'), {
      identity: identityOf(id, owner, kind ?? kindOfText(key) ?? 'pay-as-you-go', options),
      expiresAt: Infinity,
    })
  }

  /**
   * 32 bytes that nobody else can know, the same after every restart: another secret for each subject of each purpose.
   */
  derive(purpose: string, subject: string): Buffer {
    // In two steps, so that no text of a key has the same hash.
    return new Bun.CryptoHasher('sha256', this.#hash(purpose)).update(subject).digest()
  }

  #hash(text: string): Buffer {
    return new Bun.CryptoHasher('sha256', this.#pepper).update(text).digest()
  }

  async #stored(text: string): Promise<StoredKey | undefined> {
    const hash = this.#hash(text)
    return (await this.#store.accounts.keys()).find((row) => hash.equals(row.hash))
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
    }
  }
}

function optionsOf({ models, limit, limitPeriod, requestsPerMinute }: StoredKey): KeyOptions {
  return {
    ...(models === null ? {} : { models }),
    ...(limit === null ? {} : { limit }),
    ...(limitPeriod === null ? {} : { limitPeriod }),
    ...(requestsPerMinute === null ? {} : { requestsPerMinute }),
  }
}

function identityOf(
  keyId: string,
  account: Account,
  kind: KeyKind,
  { models, limit, limitPeriod, requestsPerMinute }: KeyOptions,
): Identity {
  return {
    keyId,
    accountId: account.id,
    accountStatus: account.status,
    discount: account.discount,
    kind,
    allows: models === undefined ? anyModel : allowedModels(models),
    ...(limit === undefined ? {} : { limit: { amount: limit, period: limitPeriod ?? null } }),
    ...(requestsPerMinute === undefined ? {} : { requestsPerMinute }),
  }
}
