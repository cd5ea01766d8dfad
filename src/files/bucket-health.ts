import type { BlobHealth } from '../store/store.ts'
import { log } from '../log/log.ts'

export type BucketOperation = 'read' | 'write' | 'remove' | 'list'
/** Nothing came in time, no connection, 4xx, or an error of the server. */
export type BucketFailure = 'timeout' | 'connection' | 'refused' | 'failed'

/** The state of a bucket, as the requests to it show it. */
export class BucketHealth implements BlobHealth {
  readonly requests = new Map<BucketOperation, Map<BucketFailure | 'done', number>>()
  /** The reasons of operations whose last one failed, with all its tries. */
  readonly #failing = new Map<BucketOperation, string>()
  readonly #name: string
  readonly #now: () => number
  #usedAt: number

  /** `name`: of the bucket, for the log. */
  constructor(name: string, now: () => number) {
    this.#name = name
    this.#now = now
    this.#usedAt = now()
  }

  get outage(): string | undefined {
    return this.#failing.values().next().value
  }

  /** The milliseconds since the last request. */
  get idleMs(): number {
    return this.#now() - this.#usedAt
  }

  count(operation: BucketOperation, outcome: BucketFailure | 'done'): void {
    this.#usedAt = this.#now()
    let outcomes = this.requests.get(operation)
    if (outcomes === undefined) this.requests.set(operation, (outcomes = new Map()))
    outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1)
  }

  succeeded(operation: BucketOperation): void {
    if (this.#failing.delete(operation) && this.#failing.size === 0)
      log.warn(`The bucket ${this.#name} can be used again.`)
  }

  failed(operation: BucketOperation, reason: string): void {
    if (this.#failing.size === 0)
      log.warn(`The bucket ${this.#name} cannot be used (${operation}: ${reason}): what needs files is refused.`)
    this.#failing.set(operation, reason)
  }
}
