import { FREE_TIER } from '../accounts/plans.ts'
import type { Config } from '../config/load.ts'
import { GatewayError } from '../error.ts'
import type { UploadLimits } from '../files/quota.ts'
import type { Ledger } from '../ledger/ledger.ts'
import { isFree, type Price } from '../ledger/prices.ts'
import type { DiskSpace } from '../store/disk-space.ts'
import type { KeptStore, KeptTotal, KeptTotals } from '../store/store.ts'

/** Things that requests leave besides their record. */
const KINDS = ['responses', 'predictions', 'outputs'] as const
type Kind = (typeof KINDS)[number]

/** `price`: of the model that the request names; undefined for one without a price. */
export type Keeping = { kind: Kind; accountId: string; bytes: number; price: Price | undefined }

type Modules = { kept: KeptStore; ledger: Ledger; config: Config; space: DiskSpace }

/** Kind -> the section of the configuration with its quota. */
const SECTIONS = { responses: 'responses', predictions: 'predictions', outputs: 'files' } as const

const ADVICE: Record<Kind, string> = {
  responses: 'Send store: false, or delete stored responses (DELETE /v1/responses/{id}).',
  predictions: 'Wait until predictions expire (predictions.keepDays), or call the model through its own API.',
  outputs: 'Wait until their URLs expire (files.outputKeep), or ask for the data instead of a URL.',
}

/** Refuses requests whose results would exceed the quotas of what is kept. */
export class KeptQuota implements UploadLimits {
  readonly #modules: Modules
  /** Totals held for requests in flight, by kind and account. */
  readonly #held = new Map<string, KeptTotal>()
  #heldBytes = 0

  constructor(modules: Modules) {
    this.#modules = modules
  }

  /**
   * Holds the quota of one thing, to be released when it is stored or will not be: gives the function that does so. A
   * response is as long as it is, so it may exceed the quota, and the next request is refused. Throws quota_exceeded,
   * or store_unavailable where the quota of all accounts is used up or the disk is short. The account must be loaded.
   */
  async hold(keeping: Keeping): Promise<() => void> {
    // Held before the first await, so that requests which arrive together see each other.
    const release = this.#add(keeping)
    try {
      const totals = await this.#modules.kept.totals(keeping.accountId)
      this.#check(keeping, totals)
      this.#checkWithoutCredit(keeping, totals)
      this.#checkAll(keeping.bytes, totals.allBytes, this.#heldBytes - keeping.bytes)
      return release
    } catch (error) {
      release()
      throw error
    }
  }

  #add({ kind, accountId, bytes }: Keeping): () => void {
    const key = keyOf(kind, accountId)
    const held = this.#held.get(key) ?? { things: 0, bytes: 0 }
    this.#held.set(key, held)
    const change = (things: 1 | -1): void => {
      held.things += things
      held.bytes += things * bytes
      this.#heldBytes += things * bytes
    }
    change(1)
    let isHeld = true
    return () => {
      if (!isHeld) return
      isHeld = false
      change(-1)
      if (held.things === 0) this.#held.delete(key)
    }
  }

  /** With what requests in flight hold. */
  #used(kind: Kind, accountId: string, totals: KeptTotals): KeptTotal {
    const held = this.#held.get(keyOf(kind, accountId)) ?? { things: 0, bytes: 0 }
    return { things: totals[kind].things + held.things, bytes: totals[kind].bytes + held.bytes }
  }

  #check({ kind, accountId, bytes }: Keeping, totals: KeptTotals): void {
    const { quotaBytes, count = Infinity } = this.#modules.config[SECTIONS[kind]]
    const used = this.#used(kind, accountId, totals)
    if (used.things > count)
      throw exceeded(`This account has ${used.things - 1} of at most ${count} stored ${kind} (${kind}.count).`, kind)
    if (used.bytes > quotaBytes)
      throw exceeded(
        `Stored ${kind} of this account use ${used.bytes - bytes} of ${quotaBytes} bytes (${SECTIONS[kind]}.quota), ` +
          `and this request needs ${bytes} more.`,
        kind,
      )
  }

  /** Accounts that are made for it could otherwise keep any amount of what costs nothing. */
  #checkWithoutCredit({ kind, accountId, bytes, price }: Keeping, totals: KeptTotals): void {
    const { quotaWithoutCreditBytes: limit } = this.#modules.config.store
    const used = this.#requested(accountId, totals) - bytes + totals.files.bytes
    if (used + bytes <= limit || !isFree(price) || this.#hasCreditOrPlan(accountId)) return
    throw exceeded(
      `Requests to free models keep at most ${limit} bytes for an account without credit ` +
        `(store.quotaWithoutCredit); ${used} are used, files included, and this one needs ${bytes} more. Add credit.`,
      kind,
    )
  }

  /** Bytes of all that requests of this account left or will leave. */
  #requested(accountId: string, totals: KeptTotals): number {
    return KINDS.reduce((sum, kind) => sum + this.#used(kind, accountId, totals).bytes, 0)
  }

  #hasCreditOrPlan(accountId: string): boolean {
    const { ledger } = this.#modules
    return ledger.funds.hasMoney(accountId) || ledger.funds.quota(accountId).subscription.tier !== FREE_TIER
  }

  /** The most bytes of files for this account: without credit, what else it keeps counts too. */
  async limitOf(accountId: string): Promise<number> {
    const { ledger, kept, config } = this.#modules
    const loading = ledger.funds.loadAccount(accountId)
    if (loading !== undefined) await loading
    if (this.#hasCreditOrPlan(accountId)) return Infinity
    const used = this.#requested(accountId, await kept.totals(accountId))
    return Math.max(0, config.store.quotaWithoutCreditBytes - used)
  }

  /** Throws store_unavailable where so many bytes more cannot be kept for any account. */
  async checkUpload(bytes: number): Promise<void> {
    const { allBytes } = await this.#modules.kept.totals('')
    this.#checkAll(bytes, allBytes, this.#heldBytes)
  }

  /** The same for the disk alone, while an upload arrives whose size was not announced. */
  checkChunk(bytes: number): void {
    this.#modules.space.checkKeeping(bytes, this.#heldBytes)
  }

  #checkAll(bytes: number, keptBytes: number, heldBytes: number): void {
    const { config, space } = this.#modules
    const { quotaBytes } = config.store
    if (keptBytes + heldBytes + bytes > quotaBytes)
      throw new GatewayError(
        'store_unavailable',
        `Sluice keeps nothing new at the moment: what it keeps for all accounts would exceed ${quotaBytes} bytes ` +
          '(store.quota). Send store: false, or delete files or stored responses.',
        { retryAfterSeconds: RETRY_SECONDS, shouldRetry: false },
      )
    space.checkKeeping(bytes, heldBytes)
  }
}

const RETRY_SECONDS = 60

const keyOf = (kind: Kind, accountId: string): string => `${kind} ${accountId}`

const exceeded = (problem: string, kind: Kind): GatewayError =>
  new GatewayError('quota_exceeded', `${problem} ${ADVICE[kind]}`, { shouldRetry: false })
