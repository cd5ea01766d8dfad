import fc from 'fast-check'
import { IS_LONG, runs } from '../runs.ts'

/** Cases of each property; `SLUICE_LONG_TESTS=1` tries sixty times as many. */
const RUNS = runs(50, 3000)

/** Limit for one property. */
export const TIMEOUT_MS = IS_LONG ? 600_000 : 30_000

/** The number of cases of a property. `share`: the part of the usual one, for properties with expensive cases. */
export const casesOf = (share: number): number => Math.ceil(RUNS * share)

export const assertProperty = <T>(property: fc.IProperty<T>, share = 1): void =>
  fc.assert(property, { numRuns: casesOf(share), includeErrorInReport: true })

export const assertAsyncProperty = <T>(property: fc.IAsyncProperty<T>, share = 1): Promise<void> =>
  fc.assert(property, { numRuns: casesOf(share), includeErrorInReport: true })

/** Throws with an excerpt of both values around their first difference. */
export function assertSame(actual: unknown, expected: unknown, what = ''): void {
  if (Bun.deepEquals(actual, expected, true)) return
  const [is, be] = [JSON.stringify(actual) ?? '', JSON.stringify(expected) ?? '']
  const apart = [...is].findIndex((character, index) => character !== be[index])
  const from = Math.max(0, apart - 200)
  throw new Error(`${what}\nis        ${is.slice(from, from + 1500)}\nshould be ${be.slice(from, from + 1500)}`)
}
