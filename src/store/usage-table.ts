import { addUsage, noUsage, type Usage } from '../generation/usage.ts'
import type { SpeedRow, UsageRow } from './reports.ts'

/** Sums of generations as stores read them. */
export type UsedSum = Usage & Record<'requests' | 'failed', number> & Record<'bill' | 'flows', string>

/** The rows of a report of usage, added up from those of several statements. `Name`: of a group, as tables have it. */
export class UsageTable<Name extends string | number> {
  readonly #rows = new Map<string, UsageRow>()
  readonly #labelOf: (name: Name) => string | null

  constructor(labelOf: (name: Name) => string | null) {
    this.#labelOf = labelOf
  }

  get rows(): UsageRow[] {
    return [...this.#rows.values()]
  }

  addUsed(bucket: number, group: readonly [Name, Name], sum: UsedSum): void {
    if (sum.requests === 0) return
    const row = this.#row(bucket, group)
    row.requests += sum.requests
    row.failed += sum.failed
    row.bill += BigInt(sum.bill)
    row.flows += BigInt(sum.flows)
    addUsage(row.usage, sum)
  }

  addRefused(bucket: number, group: readonly [Name, Name], requests: number): void {
    if (requests !== 0) this.#row(bucket, group).refused += requests
  }

  #row(bucket: number, [a, b]: readonly [Name, Name]): UsageRow {
    const id = `${bucket}\n${a}\n${b}`
    const known = this.#rows.get(id)
    if (known !== undefined) return known
    const group = [this.#labelOf(a), this.#labelOf(b)]
    const row = { bucket, group, requests: 0, failed: 0, refused: 0, bill: 0n, flows: 0n, usage: noUsage() }
    this.#rows.set(id, row)
    return row
  }
}

/** Streams of one provider and model in a bucket of the answer (`at`), by that of their time to the first token. */
export type SpeedSum<Name> = Record<'at' | 'bucket' | 'requests' | 'tokens' | 'duration', number> &
  Record<'provider' | 'model', Name>

/** The rows of a report of speeds, added up from those of several pieces. */
export function speedRowsOf<Name extends string | number>(
  sums: readonly SpeedSum<Name>[],
  labelOf: (name: Name) => string | null,
): SpeedRow[] {
  const groups = Map.groupBy(sums, ({ at, provider, model }) => `${at}\n${provider}\n${model}`)
  return [...groups.values()].map((own) => {
    const { at, provider, model } = own[0]!
    const counts = new Map<number, number>()
    for (const { bucket, requests } of own) counts.set(bucket, (counts.get(bucket) ?? 0) + requests)
    return {
      bucket: at,
      provider: labelOf(provider),
      model: labelOf(model)!,
      counts: [...counts].sort(([a], [b]) => a - b),
      tokens: own.reduce((sum, { tokens }) => sum + tokens, 0),
      durationMs: own.reduce((sum, { duration }) => sum + duration, 0),
    }
  })
}
