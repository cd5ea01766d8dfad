import type { Choice, UsageQuestion } from './reports.ts'

export const HOUR_MS = 3_600_000

/** The time in an id and that of its record may differ by so many hours. */
const SLACK_HOURS = 2

/** The first hour whose records are all left. `before`: as in `Carried`. */
export const firstRecordedHour = (before: number): number =>
  before === 0 ? 0 : Math.ceil(before / HOUR_MS) + SLACK_HOURS

/** A part of a bucket: whole hours, or a piece of one hour that a bound cuts. */
export type Piece = { bucket: number; from: number; to: number; isWhole: boolean }

/** The pieces of all buckets, in order: whole hours together, and each hour that a bound cuts. */
export function* piecesOf(bounds: readonly number[]): Generator<Piece> {
  for (let bucket = 0; bucket + 1 < bounds.length; bucket++) {
    const [from, to] = [bounds[bucket]!, bounds[bucket + 1]!]
    const [firstWhole, endWhole] = [Math.ceil(from / HOUR_MS) * HOUR_MS, Math.floor(to / HOUR_MS) * HOUR_MS]
    if (firstWhole >= endWhole) {
      // The range may have a bound of an hour within it and no whole one.
      const middle = firstWhole === endWhole ? firstWhole : to
      if (from < middle) yield { bucket, from, to: Math.min(middle, to), isWhole: false }
      if (middle < to) yield { bucket, from: middle, to, isWhole: false }
      continue
    }
    if (from < firstWhole) yield { bucket, from, to: firstWhole, isWhole: false }
    yield { bucket, from: firstWhole, to: endWhole, isWhole: true }
    if (endWhole < to) yield { bucket, from: endWhole, to, isWhole: false }
  }
}

/** Refusals have no model and no provider: where these are chosen, none is meant. */
export function mayBeRefused({ choices: { model, provider, outcome } }: UsageQuestion): boolean {
  const excludes = ({ only, not }: Choice = {}): boolean =>
    (only !== undefined && !only.includes('refused')) || not?.includes('refused') === true
  return model?.only === undefined && provider?.only === undefined && !excludes(outcome)
}
