import fc from 'fast-check'
import { IS_LONG, runs } from '../runs.ts'

/** Cases of each property in an ordinary run; `SLUICE_LONG_TESTS=1` tries thirty times as many. */
const RUNS = runs(100, 3000)

/** Milliseconds for one property. */
export const TIMEOUT_MS = IS_LONG ? 600_000 : 30_000

/** `share`: how many of the runs, for properties whose single case is dear. */
export const assertProperty = <T>(property: fc.IProperty<T>, share = 1): void =>
  fc.assert(property, { numRuns: Math.ceil(RUNS * share), includeErrorInReport: true })

export const assertAsyncProperty = <T>(property: fc.IAsyncProperty<T>, share = 1): Promise<void> =>
  fc.assert(property, { numRuns: Math.ceil(RUNS * share), includeErrorInReport: true })

/** Throws with both sides, from where they differ. */
export function assertSame(actual: unknown, expected: unknown, what = ''): void {
  if (Bun.deepEquals(actual, expected, true)) return
  const [is, be] = [JSON.stringify(actual) ?? '', JSON.stringify(expected) ?? '']
  const apart = [...is].findIndex((character, place) => character !== be[place])
  const from = Math.max(0, apart - 200)
  throw new Error(`${what}\nis        ${is.slice(from, from + 1500)}\nshould be ${be.slice(from, from + 1500)}`)
}
