import fc from 'fast-check'

/** Cases of each property; `SLUICE_LONG_TESTS=1` runs thirty times as many. */
const RUNS = process.env.SLUICE_LONG_TESTS === '1' ? 3000 : 100

/** Timeout of one property in milliseconds. */
export const PATIENCE = process.env.SLUICE_LONG_TESTS === '1' ? 600_000 : 30_000

/** `share`: fraction of the runs, for properties with expensive cases. */
export const holds = <T>(property: fc.IProperty<T>, share = 1): void =>
  fc.assert(property, { numRuns: Math.ceil(RUNS * share), includeErrorInReport: true })

export const holdsLater = <T>(property: fc.IAsyncProperty<T>, share = 1): Promise<void> =>
  fc.assert(property, { numRuns: Math.ceil(RUNS * share), includeErrorInReport: true })

/** Throws with both sides from their first difference on. */
export function same(actual: unknown, expected: unknown, what = ''): void {
  if (Bun.deepEquals(actual, expected, true)) return
  const [is, be] = [JSON.stringify(actual) ?? '', JSON.stringify(expected) ?? '']
  const apart = [...is].findIndex((character, place) => character !== be[place])
  const from = Math.max(0, apart - 200)
  throw new Error(`${what}\nis        ${is.slice(from, from + 1500)}\nshould be ${be.slice(from, from + 1500)}`)
}
