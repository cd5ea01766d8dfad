import { WINDOW_NAMES } from '../config/terms.ts'
import type { GenerationRecord, KeySpend, LedgerState, QuotaWindow, StoredKey } from '../store/store.ts'

/** What is wrong with one row. */
export type Fault = { expected: string; found: string }

/** What was counted is one of the amounts from `least` to `most`. */
type Sum = { least: bigint; most: bigint }

/**
 * What quota windows and spending limits must have counted, added up from the generations: a sum for each stored window
 * and each key with a limit, however many
 * generations there are. A generation counts in the window of the latest instant that its server had seen, which a
 * clock that went back leaves after the
 * generation's own: so what is from within the window has counted there, and what is from before it may have.
 */
export class LimitSums {
  readonly #windows = new Map<string, (QuotaWindow & Sum)[]>()
  readonly #keys = new Map<string, Sum & { since: number; isStored: boolean; hasRow: boolean }>()
  /** When the last generation of each subscription was asked for. */
  readonly #latest = new Map<string, number>()

  constructor({ windows, spends }: LedgerState, keys: readonly StoredKey[]) {
    for (const window of windows)
      this.#windows.set(window.accountId, [
        ...(this.#windows.get(window.accountId) ?? []),
        { ...window, least: 0n, most: 0n },
      ])
    const stored = new Set(keys.filter(({ limit }) => limit !== null).map(({ id }) => id))
    for (const id of stored) this.#keys.set(id, { since: 0, least: 0n, most: 0n, isStored: true, hasRow: false })
    for (const { keyId, since } of spends)
      this.#keys.set(keyId, { since, least: 0n, most: 0n, isStored: stored.has(keyId), hasRow: true })
  }

  add({ accountId, keyId, kind, createdAt, flows, bill }: GenerationRecord): void {
    if (kind === 'subscription') {
      this.#latest.set(accountId, Math.max(createdAt, this.#latest.get(accountId) ?? createdAt))
      for (const window of this.#windows.get(accountId) ?? [])
        if (createdAt < window.endsAt) append(window, flows, createdAt >= window.startedAt)
    }
    const key = this.#keys.get(keyId)
    // A key of the configuration file may have been given its limit after some of its generations.
    if (key !== undefined) append(key, bill, key.isStored && createdAt >= key.since)
  }

  *faultsOfWindow({ accountId, window, used }: QuotaWindow): Generator<Fault> {
    const sum = this.#windows.get(accountId)?.find((one) => one.window === window)
    if (sum !== undefined) yield* outside(used, sum, 'micro-flows', 'use')
  }

  *faultsOfSpend({ keyId, spent }: KeySpend): Generator<Fault> {
    yield* outside(spent, this.#keys.get(keyId)!, 'nano-USD', 'spending')
  }

  /**
   * Rows that must be there, by table and id: three windows for each subscription that was used, as late as its last
   * generation, and one for each key that spent of its limit.
   */
  *missing(): Generator<Fault & { table: 'windows' | 'spends'; id: string }> {
    for (const [accountId, latest] of this.#latest)
      for (const name of WINDOW_NAMES) {
        const row = this.#windows.get(accountId)?.find(({ window }) => window === name)
        if (row === undefined || row.endsAt <= latest)
          yield {
            table: 'windows',
            id: `${accountId} ${name}`,
            expected: `an end after ${latest}, when its last generation was asked for`,
            found: row === undefined ? 'no such window' : `${row.endsAt}`,
          }
      }
    for (const [id, { least, hasRow }] of this.#keys)
      if (!hasRow && least > 0n) yield { table: 'spends', id, expected: `spending of ${least} nano-USD`, found: 'none' }
  }
}

function append(sum: Sum, amount: bigint, isCertain: boolean): void {
  sum.most += amount
  if (isCertain) sum.least += amount
}

function* outside(counted: bigint, { least, most }: Sum, unit: string, what: string): Generator<Fault> {
  if (counted < least)
    yield {
      expected: `${what} of ${least} ${unit} or more, which its generations add up to`,
      found: `${counted} ${unit}`,
    }
  if (counted > most)
    yield {
      expected: `${what} of ${most} ${unit} or less, which its generations add up to`,
      found: `${counted} ${unit}`,
    }
}
