import type { OpenGeneration } from '../ledger/ledger.ts'
import { type Counts, GenerationCounts, increment } from './generation-counts.ts'

/** The route of requests that have none. */
const NO_ROUTE = 'none'

/** Counts of requests and generations since the start, for metrics. */
export class RequestCounts {
  readonly generations = new GenerationCounts()
  /** Route -> status -> requests. */
  readonly requests = new Map<string, Map<number, number>>()
  /** Code -> requests that got this error. */
  readonly refusals: Counts = new Map()
  readonly #isEnabled: boolean

  constructor(isEnabled: boolean) {
    this.#isEnabled = isEnabled
  }

  /** The response of a request is ready. */
  responded(route = NO_ROUTE, status: number, errorCode: string | undefined): void {
    if (!this.#isEnabled) return
    let statuses = this.requests.get(route)
    if (statuses === undefined) this.requests.set(route, (statuses = new Map()))
    statuses.set(status, (statuses.get(status) ?? 0) + 1)
    if (errorCode !== undefined) increment(this.refusals, errorCode)
  }

  closed(open: OpenGeneration): void {
    if (this.#isEnabled) this.generations.add(open)
  }
}
