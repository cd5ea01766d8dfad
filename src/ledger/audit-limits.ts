import { WINDOW_NAMES } from '../config/terms.ts'
import type { Carried, GenerationRecord, KeySpend, LedgerState, QuotaWindow, StoredKey } from '../store/store.ts'

/** A difference in one row. */
export type Fault = { expected: string; found: string }

/** The range that a count must be in. */
type Sum = { least: bigint; most: bigint }

/** The time after a change of a key's limit in which some processes may not know it. */
const CHANGING_MS = 60_000

type KeySum = Sum & { since: number; isStored: boolean; hasRow: boolean }

/**
 * The use of quota windows and spending limits, recomputed from generations: one sum for each stored window and each
 * key with a limit. A generation counts in the window of the latest instant its server had seen, which is later than
 * its own where the clock went back. So a generation within a window certainly counts there, and an earlier one
 * possibly; so does one of a time that went twice.
 */
export class LimitSums {
  readonly #windows = new Map<string, (QuotaWindow & Sum)[]>()
  readonly #keys = new Map<string, KeySum>()
  /** By key that got its limit later: the time from which all of its requests count. */
  readonly #countsFrom: ReadonlyMap<string, number>
  /** Per account: see Subscription. */
  readonly #repeatedUntil: ReadonlyMap<string, number>
  /** The time of each subscription's last request. */
  readonly #latest = new Map<string, number>()

  constructor({ windows, spends, subscriptions }: LedgerState, keys: readonly StoredKey[]) {
    this.#repeatedUntil = new Map(
      subscriptions.flatMap(({ accountId, repeatedUntil }) =>
        repeatedUntil === undefined ? [] : [[accountId, repeatedUntil]],
      ),
    )
    for (const window of windows)
      this.#windows.set(window.accountId, [
        ...(this.#windows.get(window.accountId) ?? []),
        { ...window, least: 0n, most: 0n },
      ])
    this.#countsFrom = new Map(
      keys.flatMap(({ id, limitSince }) => (limitSince === null ? [] : [[id, limitSince + CHANGING_MS]])),
    )
    const stored = new Set(keys.filter(({ limit }) => limit !== null).map(({ id }) => id))
    for (const id of stored) this.#keys.set(id, { since: 0, least: 0n, most: 0n, isStored: true, hasRow: false })
    for (const { keyId, since } of spends)
      this.#keys.set(keyId, { since, least: 0n, most: 0n, isStored: stored.has(keyId), hasRow: true })
  }

  add({ accountId, keyId, kind, createdAt, flows, bill }: GenerationRecord): void {
    if (kind === 'subscription') {
      const isOrdered = createdAt > (this.#repeatedUntil.get(accountId) ?? -Infinity)
      if (isOrdered) this.#latest.set(accountId, Math.max(createdAt, this.#latest.get(accountId) ?? createdAt))
      for (const window of this.#windows.get(accountId) ?? [])
        if (createdAt < window.endsAt) addTo(window, flows, createdAt >= window.startedAt && isOrdered)
    }
    const key = this.#keys.get(keyId)
    // A key of the configuration file may have got its limit after some of its generations, too.
    const from = this.#countsFrom.get(keyId) ?? 0
    if (key !== undefined) addTo(key, bill, key.isStored && createdAt >= Math.max(key.since, from))
  }

  /**
   * Adds the sums of removed records, which are older than any period in force: they certainly count where a limit has
   * no period, and elsewhere only in a row that was not used since.
   */
  addCarried({ accountId, keyId, bill, flows }: Carried['usage'][number]): void {
    for (const window of this.#windows.get(accountId) ?? []) addTo(window, flows, false)
    const key = this.#keys.get(keyId)
    const isWhole = key?.isStored === true && key.hasRow && key.since === 0 && !this.#countsFrom.has(keyId)
    if (key !== undefined) addTo(key, bill, isWhole)
  }

  *faultsOfWindow({ accountId, window, used }: QuotaWindow): Generator<Fault> {
    const sum = this.#windows.get(accountId)?.find((one) => one.window === window)
    if (sum !== undefined) yield* outsideRange(used, sum, 'micro-flows', 'use')
  }

  *faultsOfSpend({ keyId, spent }: KeySpend): Generator<Fault> {
    yield* outsideRange(spent, this.#keys.get(keyId)!, 'nano-USD', 'spending')
  }

  /**
   * Rows that are missing: three windows for each subscription in use, ending after its last request, and one row for
   * each key that spent of its limit.
   */
  *missing(): Generator<Fault & { table: 'windows' | 'spends'; id: string }> {
    for (const [accountId, latest] of this.#latest)
      for (const name of WINDOW_NAMES) {
        const row = this.#windows.get(accountId)?.find(({ window }) => window === name)
        if (row === undefined || row.endsAt <= latest)
          yield {
            table: 'windows',
            id: `${accountId} ${name}`,
            expected: `an end after ${latest}, the time of its last request`,
            found: row === undefined ? 'no such window' : `${row.endsAt}`,
          }
      }
    for (const [id, { least, hasRow }] of this.#keys)
      if (!hasRow && least > 0n) yield { table: 'spends', id, expected: `spending of ${least} nano-USD`, found: 'none' }
  }
}

function addTo(sum: Sum, amount: bigint, isCertain: boolean): void {
  sum.most += amount
  if (isCertain) sum.least += amount
}

function* outsideRange(counted: bigint, { least, most }: Sum, unit: string, name: string): Generator<Fault> {
  if (counted < least)
    yield {
      expected: `${name} of ${least} ${unit} or more, which its generations add up to`,
      found: `${counted} ${unit}`,
    }
  if (counted > most)
    yield {
      expected: `${name} of ${most} ${unit} or less, which its generations add up to`,
      found: `${counted} ${unit}`,
    }
}
