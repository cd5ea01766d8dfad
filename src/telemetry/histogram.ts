/** Counts of values up to each bound, and of those beyond the last one. */
export class Histogram {
  /** In ascending order. */
  readonly bounds: readonly number[]
  /** One more than there are bounds. Not cumulative. */
  readonly counts: number[]
  sum = 0

  constructor(bounds: readonly number[]) {
    this.bounds = bounds
    this.counts = Array.from({ length: bounds.length + 1 }, () => 0)
  }

  observe(value: number): void {
    let at = 0
    while (at < this.bounds.length && value > this.bounds[at]!) at++
    this.counts[at]!++
    this.sum += value
  }

  get count(): number {
    return this.counts.reduce((sum, count) => sum + count, 0)
  }
}

/** Bounds in seconds that double from 10 ms to 82 s, as the GenAI semantic conventions advise. */
export const DURATION_BOUNDS = Array.from({ length: 14 }, (_, at) => 0.01 * 2 ** at)
/** Bounds in seconds for work of this process. */
export const SHORT_BOUNDS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5]
/** Numbers of tokens that grow fourfold, as the GenAI semantic conventions advise. */
export const TOKEN_BOUNDS = Array.from({ length: 14 }, (_, at) => 4 ** at)
