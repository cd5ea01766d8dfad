/** One promise that was tried. `fault`: what broke it. */
export type Finding = { what: string; tried: string; result: string; fault?: string }

/** The findings as a table in Markdown. */
export const tableOf = (findings: readonly Finding[]): string =>
  ['| What | Tried | Result |', '|---|---|---|']
    .concat(
      findings.map(
        ({ what, tried, result, fault }) =>
          `| ${what} | ${tried} | ${result}${fault === undefined ? '' : ` - ${fault}`} |`,
      ),
    )
    .join('\n')

export const count = (value: number): string => value.toLocaleString('en-US')

/** The value below which this share of them lies. */
export function percentile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0
}

/** Random numbers that are the same in each run with the same seed (mulberry32). */
export function randomOf(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

/** One of these values. */
export const pick = <T>(values: readonly T[], random: () => number): T => values[Math.floor(random() * values.length)]!

/** Runs `task` with each number below `total`, at most `width` at a time. */
export async function inParallel(total: number, width: number, task: (index: number) => Promise<void>): Promise<void> {
  let next = 0
  await Promise.all(
    Array.from({ length: Math.min(width, total) }, async () => {
      while (next < total) await task(next++)
    }),
  )
}
