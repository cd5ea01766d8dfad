import type { KeyKind, LimitPeriod, QuotaWindowName } from '../config/terms.ts'
import type { Usage } from '../generation/usage.ts'

/** What Sluice keeps, as one interface. `sqlite.ts` implements it; nothing outside this folder says SQL. */

export type AccountStatus = 'healthy' | 'monitored' | 'abusive' | 'suspended' | 'banned'

/** All instants are Unix milliseconds. `discount`: basis points off every bill. */
export type Account = { id: string; name: string; status: AccountStatus; createdAt: number; discount: number }

/** A key as it is kept: its text is not in it, only the keyed hash and enough of the text to recognise it. */
export type StoredKey = {
  id: string
  accountId: string
  kind: KeyKind
  /** 32 bytes, unique. */
  hash: Uint8Array
  prefix: string
  last4: string
  name: string | null
  createdAt: number
  expiresAt: number | null
  revokedAt: number | null
  requestsPerMinute: number | null
  /** Model ids allowed, `*` standing for any text; null: all. */
  models: string[] | null
  /** Nano-USD that may be spent in one period, or in all where the period is null. */
  limit: bigint | null
  limitPeriod: LimitPeriod | null
}

export type Json = Record<string, unknown>

/**
 * An answer kept for `previous_response_id`. `inputItems` are whole items: references are resolved before they come
 * here.
 */
export type ResponseToSave = {
  id: string
  response: Json
  inputItems: readonly unknown[]
  expiresAt: number
  upstream?: BackgroundWork | undefined
}
export type StoredResponse = {
  id: string
  response: Json
  inputItems: unknown[]
  createdAt: number
  expiresAt: number
  upstream?: BackgroundWork
}

/**
 * Where a provider works on a response in the background: its id in the catalogue, and its own id of the response.
 * `unwanted`: its client deleted it, so that its provider is to stop.
 */
export type BackgroundWork = { provider: string; id: string; unwanted?: boolean }

/** An uploaded file; its bytes are in the data folder under `blob`. `metadata`: JSON of the client's own. */
export type StoredFile = {
  id: string
  accountId: string
  blob: string
  filename: string
  purpose: string | null
  bytes: number
  mediaType: string
  sha256: string
  metadata: string | null
  createdAt: number
  expiresAt: number | null
}

/** How many files, and their bytes together. */
export type FileUse = { files: number; bytes: number }

/**
 * A page of an account's files in the order of their time: those after the place of `after`, which need not be there.
 */
export type FileQuery = {
  purpose?: string | undefined
  after?: Pick<StoredFile, 'id' | 'createdAt'> | undefined
  limit: number
  order: 'asc' | 'desc'
  now: number
}

/** What a model made, for whoever knows the token, until it expires. */
export type StoredOutput = {
  token: string
  accountId: string
  blob: string
  mediaType: string
  bytes: number
  expiresAt: number
}

/**
 * What a provider wants back of one answer that called tools, under a digest of its account and of the first call's id.
 */
export type StoredReasoning = {
  accountId: string
  key: string
  provider: string
  model: string
  expiresAt: number
  sealed: Uint8Array
}

/** Bytes kept of what one model signed for one account. */
export type ReasoningUse = { accountId: string; provider: string; model: string; bytes: number }

export type PredictionStatus = 'starting' | 'processing' | 'succeeded' | 'failed' | 'canceled'

/** A prediction: `id` is that of its generation, 32 hex digits; `input` and `state` are the endpoint's own JSON. */
export type StoredPrediction = PredictionChange & { input: string }

/** All of a prediction but what was asked, which does not change. */
export type PredictionChange = {
  id: string
  accountId: string
  model: string
  status: PredictionStatus
  createdAt: number
  startedAt: number | null
  completedAt: number | null
  state: string
}

/** One call of a webhook that is still owed. The same id in every attempt. */
export type WebhookDelivery = {
  id: string
  accountId: string
  predictionId: string
  url: string
  body: string
  attempts: number
  nextAt: number
}

/** Where money stands: accounts of the book. `owner`: an account's id, a provider's id, or empty. */
export type BookAccount = {
  kind: 'credit' | 'bonus' | 'outside' | 'promotion' | 'revenue' | 'write-off' | 'cost' | 'payable'
  owner: string
}

/**
 * Money moved, in nano-USD above 0. What is debited goes down, what is credited goes up: a balance is credits less
 * debits, and all balances add up to 0.
 */
export type Transfer = { kind: string; debit: BookAccount; credit: BookAccount; amount: bigint }

/**
 * A top-up, a grant or a correction. The reference makes it happen once. `covered`: what it debits must have as much.
 */
export type Operation = {
  reference: string
  at: number
  note: string | null
  transfers: readonly Transfer[]
  covered?: boolean
}

/**
 * A `covered` operation would have taken more than there is; nothing was changed. `balance`: what there is, in
 * nano-USD.
 */
export class NotCovered extends Error {
  readonly balance: bigint

  constructor(balance: bigint) {
    super(`what is debited has no more than ${balance} nano-USD`)
    this.balance = balance
  }
}

export type PostedTransfer = Transfer & { reference: string; at: number; note: string | null }

export type Balance = BookAccount & { balance: bigint }

/** One quota window of an account since it began; `used` in micro-flows. */
export type QuotaWindow = {
  accountId: string
  window: QuotaWindowName
  startedAt: number
  endsAt: number
  used: bigint
}

/**
 * An account's plan. Periods are months counted from `anchor`; the present one is from `periodStart` to `periodEnd`.
 */
export type Subscription = {
  accountId: string
  tier: string
  anchor: number
  periodStart: number
  periodEnd: number
  /** False: at the end of the period the account falls back to the free plan. */
  renews: boolean
  /** Takes effect with the next period. */
  nextTier: string | null
}

/** What a key has used of its spending limit since `since`, in nano-USD. */
export type KeySpend = { keyId: string; since: number; spent: bigint }

/** Rates in force at one time for one model, kept for ever: the same text is the same row. */
export type StoredPrice = { version: string; model: string; rates: string }

/** A generation that ended. Durations in milliseconds, amounts in nano-USD, flows in micro-flows. */
export type GenerationRecord = {
  /** 32 hex digits in lower case, the time first; the prefix that clients see is not part of it. */
  id: string
  accountId: string
  keyId: string
  kind: KeyKind
  api: string
  model: string
  /** Who answered, or was asked last. */
  provider: string | null
  createdAt: number
  /** From the request to the first token, and to the end where none came. */
  latency: number
  /** From the first token to the end. */
  duration: number
  streamed: boolean
  finish: string
  ending: string
  /** Tries after the first one. */
  retries: number
  /** What became of every try, where there was more than one or it failed: JSON. */
  attempts: string | null
  /**
   * What was lost between the protocols of client and provider, where anything was: JSON of at most 4,000 characters.
   */
  translation: string | null
  /** Usage was counted or bounded by Sluice, not reported by the provider to its end. */
  estimated: boolean
  usage: Usage
  /** Absent where the model has no price. */
  price: StoredPrice | null
  /** Basis points. */
  discount: number
  /** What was held for it. */
  held: bigint
  /** Pay-as-you-go: the bill, which is the sum of its transfers to revenue. Subscription: the list price. */
  bill: bigint
  /** Subscription: what the windows were charged. */
  flows: bigint
}

/**
 * All that one ended generation changes; committed together, with all others that end in the same turn of the event
 * loop or while the disk flushes what ended before.
 */
export type Closing = {
  record: GenerationRecord
  transfers: readonly Transfer[]
  /**
   * Added to the window that began at `startedAt`; one that began later than the stored one takes its place, and one
   * that began earlier is over and changes nothing.
   */
  windows: readonly QuotaWindow[]
  /** Added where `since` is the stored one's; a later one takes its place. */
  spend: KeySpend | undefined
  /** It was written as open before. */
  wasOpen: boolean
}

/** A generation under way, as it is found after a crash: `state` is the ledger's own JSON. */
export type OpenGeneration = { id: string; accountId: string; state: string }

/** What the ledger keeps in memory, read whole at the start and after another process's change. */
export type LedgerState = {
  balances: Balance[]
  windows: QuotaWindow[]
  subscriptions: Subscription[]
  spends: KeySpend[]
}

/**
 * Every method that names a tenant takes the account first, and another account's id answers exactly as an unknown one.
 * A store that does not answer fails with GatewayError `store_unavailable` (503), never as "unknown": nothing is
 * written, and trying again helps
 * once it answers. What it refuses for what is in it fails with another Error: trying that again would not help.
 * Writes are committed in the order in which they were handed over; what one turn of the event loop hands over is
 * committed together, with what came while the disk flushed the commit before.
 */
export interface Store {
  accounts(): Promise<Account[]>
  keys(): Promise<StoredKey[]>
  /**
   * An account, and what it begins with: its plan and its first money. False, and nothing written, when the name is
   * taken.
   */
  addAccount(account: Account, subscription?: Subscription, operations?: readonly Operation[]): Promise<boolean>
  addKey(key: StoredKey): Promise<void>
  /** A key revoked earlier keeps its first instant. */
  revokeKey(id: string, at: number): Promise<void>
  /** A key that expires earlier keeps its own instant. */
  expireKey(id: string, at: number): Promise<void>
  /**
   * False, and nothing changed, where there is no such account, or its status is not `before` any more, if that is
   * given.
   */
  setAccountStatus(id: string, status: AccountStatus, before?: AccountStatus): Promise<boolean>
  setAccountDiscount(id: string, discount: number): Promise<void>
  setting(name: string): Promise<string | undefined>
  /** Keeps the first value ever given and returns what is kept. */
  settleSetting(name: string, value: string): Promise<string>

  /** Resolves when it is committed. The same id again replaces what was kept. */
  saveResponse(accountId: string, response: ResponseToSave): Promise<void>
  /**
   * Puts what became of work in the background in its place, without `upstream`; nothing where that was done before, or
   * the response deleted.
   */
  endResponse(accountId: string, id: string, response: Json): Promise<void>
  findResponse(accountId: string, id: string): Promise<StoredResponse | undefined>
  /** The newest input or output item with this id. */
  findItem(accountId: string, itemId: string): Promise<Json | undefined>
  deleteResponse(accountId: string, id: string): Promise<boolean>
  /** Removes what has expired by `now`; gives the number of responses removed. */
  purgeExpired(now: number): Promise<number>

  /**
   * What was kept under the same key is replaced. `toFree`: as many bytes at least of the account's are removed before,
   * what expires first.
   */
  keepReasoning(reasoning: StoredReasoning, toFree: number): Promise<void>
  /**
   * What is kept under these keys and has not expired by `now`, in their order, until it would be more than this many
   * bytes.
   */
  findReasoning(
    accountId: string,
    keys: readonly string[],
    mostBytes: number,
    now: number,
  ): Promise<Map<string, Uint8Array>>
  reasoningUse(): Promise<ReasoningUse[]>
  purgeReasoning(now: number): Promise<void>

  /** False, and nothing kept, where the account would have more than this. */
  addFile(file: StoredFile, most: FileUse): Promise<boolean>
  /** One that has not expired by `now`. */
  findFile(accountId: string, id: string, now: number): Promise<StoredFile | undefined>
  files(accountId: string, query: FileQuery): Promise<StoredFile[]>
  /** The account's files that have not expired by `now`. */
  fileUse(accountId: string, now: number): Promise<FileUse>
  /** Gives what was deleted; what had expired by `now` is unknown. */
  deleteFile(accountId: string, id: string, now: number): Promise<StoredFile | undefined>
  addOutput(output: StoredOutput): Promise<void>
  findOutput(token: string, now: number): Promise<StoredOutput | undefined>
  /** Removes the rows of files and outputs that have expired by `now`; gives their blobs. */
  purgeExpiredFiles(now: number): Promise<string[]>
  /** Of these, the ones that belong to a file or an output. */
  knownBlobs(blobs: readonly string[]): Promise<Set<string>>

  addPrediction(prediction: StoredPrediction): Promise<void>
  findPrediction(accountId: string, id: string): Promise<StoredPrediction | undefined>
  /** The newest first, fewer than `limit` where they are large; `before`: only older ones than this id. */
  predictions(accountId: string, limit: number, before?: string): Promise<StoredPrediction[]>
  /**
   * Predictions that have not ended, the oldest first, as many as may be read at once; `after`: only younger ones than
   * this id.
   */
  predictionsUnderWay(after?: string): Promise<PredictionChange[]>
  /**
   * Writes how far it is, or its end together with the webhook calls it owes. False, and nothing changed, where it has
   * ended before.
   */
  changePrediction(change: PredictionChange, deliveries?: readonly WebhookDelivery[]): Promise<boolean>
  /** Removes predictions that ended before this; gives their number. */
  purgePredictions(endedBefore: number): Promise<number>

  /** Calls that are due at `now`, the oldest first. `except`: ids of calls, and of accounts, that are passed over. */
  dueDeliveries(now: number, limit: number, except?: readonly string[]): Promise<WebhookDelivery[]>
  /** When the next attempt is to be made; absent: none any more. */
  changeDelivery(id: string, attempts: number, nextAt: number | undefined): Promise<void>

  /**
   * As it is between two commits: whoever waited for an earlier one has heard of it, and nothing that is still waiting
   * is in it.
   */
  ledgerState(): Promise<LedgerState>
  /**
   * Resolves when it is committed and the disk has it; `committed` is called before, as soon as `ledgerState` sees it.
   * A second closing of the same generation is refused with an Error and changes nothing.
   */
  closeGeneration(closing: Closing, committed?: () => void): Promise<void>
  /** Writes generations under way, again where one was written before. */
  keepOpen(open: readonly OpenGeneration[]): Promise<void>
  openGenerations(): Promise<OpenGeneration[]>
  findGeneration(accountId: string, id: string): Promise<GenerationRecord | undefined>
  /** False, and nothing changed, when the reference was posted before. Fails with NotCovered. */
  post(operation: Operation): Promise<boolean>
  /** Where there is one already that is not `before`, it stays, if `before` is given. */
  setSubscription(subscription: Subscription, before?: Subscription): Promise<void>
  /**
   * Gives `read` one state of everything, whatever other processes write meanwhile. Nothing may be written through this
   * store until it has resolved.
   */
  snapshot<T>(read: () => Promise<T>): Promise<T>
  /** For an audit, in the order of their ids, a page at a time: `after` is the last id of the page before. */
  generations(after: string | undefined, limit: number): Promise<GenerationRecord[]>
  /**
   * In an order of its own that does not change. The reference of what a generation cost is the generation's id, and
   * these come in the order of ids.
   */
  transfers(after: { reference: string; kind: string } | undefined, limit: number): Promise<PostedTransfer[]>

  /**
   * Calls back within two seconds of another process's change; again and again until the call succeeds. Every listener
   * hears of every change.
   */
  watch(listener: () => Promise<void>): void
  close(): Promise<void>
}
