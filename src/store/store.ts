import type { Histogram } from '../telemetry/histogram.ts'
import type { AccountStore } from './accounts.ts'
import type { ActivityStore } from './activities.ts'
import type { BlobStore } from './blobs.ts'
import type { ProcessMessages } from './messages.ts'
import type { BodyStore } from './bodies.ts'
import type { ChangeStore } from './changes.ts'
import type { DiskSpace } from './disk-space.ts'
import type { FileStore } from './files.ts'
import type { IssuedIdStore } from './issued-ids.ts'
import type { KeptStore } from './kept.ts'
import type { IdempotencyStore } from './idempotency.ts'
import type { LeaseStore } from './leases.ts'
import type { LedgerStore, ProgressStore } from './ledger.ts'
import type { PeopleStore } from './people.ts'
import type { PredictionStore } from './predictions.ts'
import type { ReasoningStore } from './reasoning.ts'
import type { ReportStore } from './reports.ts'
import type { ResponseStore } from './responses.ts'
import type { SetSettingStore } from './settings-set.ts'
import type { PasswordAttemptStore } from './password-attempts.ts'

export type * from './accounts.ts'
export type * from './activities.ts'
export type * from './blobs.ts'
export type * from './bodies.ts'
export * from './changes.ts'
export * from './files.ts'
export type * from './idempotency.ts'
export type * from './issued-ids.ts'
export type * from './kept.ts'
export * from './ledger.ts'
export type * from './people.ts'
export type * from './predictions.ts'
export type * from './reasoning.ts'
export * from './reports.ts'
export type * from './responses.ts'
export type * from './settings-set.ts'
export type * from './password-attempts.ts'

/** The file beside the database with the secret of the key hashes; made after the database. */
export const PEPPER_FILE = 'pepper'

export interface SettingStore {
  get(name: string): Promise<string | undefined>
  /** Writes the value unless there is one. Returns the one that is stored. */
  setOnce(name: string, value: string): Promise<string>
  /** Writes the value, or removes the row for undefined. */
  set(name: string, value: string | undefined): Promise<void>
}

/** Seconds that transactions take, and their flushes to the disk. */
export type CommitTimings = { transactions: Histogram; flushes: Histogram }

/**
 * Everything that Sluice stores. All instants are Unix milliseconds.
 *
 * - A method that names a tenant takes the account's id first. Another account's id is treated as an unknown one.
 * - If the store is unavailable, a method fails with GatewayError `store_unavailable` (503). Nothing is written, and a
 *   retry may succeed. An operation that the store refuses for its content fails with another Error.
 * - Writes are committed in the order of the calls. Those of one event-loop turn share a commit, together with those
 *   that arrive while the disk flushes the commit before.
 */
export interface Store {
  readonly accounts: AccountStore
  readonly people: PeopleStore
  readonly passwordAttempts: PasswordAttemptStore
  readonly changes: ChangeStore
  readonly settings: SettingStore
  readonly setSettings: SetSettingStore
  readonly responses: ResponseStore
  readonly reasoning: ReasoningStore
  readonly idempotency: IdempotencyStore
  readonly issuedIds: IssuedIdStore
  readonly files: FileStore
  /** Set where the bytes of files can be in the database. */
  readonly blobs?: BlobStore
  readonly predictions: PredictionStore
  readonly bodies: BodyStore
  readonly kept: KeptStore
  readonly ledger: LedgerStore
  readonly progress: ProgressStore
  readonly reports: ReportStore
  readonly timings: CommitTimings
  /** True where processes with data folders of their own use it together. */
  readonly isShared: boolean
  /** The disk of the data folder. */
  readonly space: DiskSpace
  /** The time by which all go that share the store: of this machine, or of PostgreSQL. Unix milliseconds. */
  readonly time: () => number
  /** Set where several processes share the store: what each may spend. */
  readonly leases?: LeaseStore
  /** Set where several processes share the store. */
  readonly activities?: ActivityStore
  /** Set where several processes share the store. */
  readonly messages?: ProcessMessages

  /** The reason why the database cannot be written, as far as asking it shows; undefined where it can. */
  outage(): Promise<string | undefined>
  /** Gives free space back to the disk, in small steps. */
  shrink(): Promise<void>
  /**
   * Shows `read` one state of everything, whatever other processes write meanwhile. Nothing may be written through this
   * store until it has resolved.
   */
  snapshot<T>(read: () => Promise<T>): Promise<T>
  /** The writes that `begin` hands to the store before it returns are made all or none: one that fails fails all. */
  together<T>(begin: () => T): T
  /**
   * Set where several processes share the store: resolves when no other one is in a turn and this one knows their
   * changes, with the function that ends the turn.
   */
  changeTurn?(): Promise<() => Promise<void>>
  /**
   * Calls the listener within two seconds of a change by another process, and again until the call succeeds. Each
   * listener is called for each change.
   */
  watch(listener: () => Promise<void>): void
  close(): Promise<void>
}
