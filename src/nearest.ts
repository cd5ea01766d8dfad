/** The known names that a mistyped one may have meant, the closest first, at most `max`. */
export function nearest(name: string, known: Iterable<string>, max = 3): string[] {
  const wanted = name.toLowerCase()
  const allowed = Math.min(4, Math.max(2, Math.floor(wanted.length / 3)))
  const found: { candidate: string; distance: number }[] = []
  for (const candidate of known) {
    const lower = candidate.toLowerCase()
    const contains = wanted.length >= 3 && (lower.includes(wanted) || (lower.length >= 3 && wanted.includes(lower)))
    const distance = contains
      ? 1
      : Math.abs(lower.length - wanted.length) > allowed
        ? Infinity
        : editDistance(wanted, lower, allowed)
    if (distance <= allowed) found.push({ candidate, distance })
  }
  return found
    .sort((a, b) => a.distance - b.distance || a.candidate.length - b.candidate.length)
    .slice(0, max)
    .map(({ candidate }) => candidate)
}

const FAR = 1 << 20

/**
 * The edit distance with swaps of neighbours, or Infinity above `allowed`. Only the band of the table that can stay
 * within it is computed, since names come from clients and lists may be long.
 */
function editDistance(a: string, b: string, allowed: number): number {
  let before = new Int32Array(b.length + 1).fill(FAR)
  let last = Int32Array.from({ length: b.length + 1 }, (_, j) => j)
  let row = new Int32Array(b.length + 1).fill(FAR)
  for (let i = 1; i <= a.length; i++) {
    const from = Math.max(1, i - allowed)
    const to = Math.min(b.length, i + allowed)
    row[from - 1] = from === 1 ? i : FAR
    for (let j = from; j <= to; j++) {
      const same = a.charCodeAt(i - 1) === b.charCodeAt(j - 1)
      let cost = Math.min(row[j - 1]! + 1, (j === i + allowed ? FAR : last[j]!) + 1, last[j - 1]! + (same ? 0 : 1))
      if (i > 1 && j > 1 && a.charCodeAt(i - 1) === b.charCodeAt(j - 2) && a.charCodeAt(i - 2) === b.charCodeAt(j - 1))
        cost = Math.min(cost, before[j - 2]! + 1)
      row[j] = cost
    }
    ;[before, last, row] = [last, row, before]
  }
  return last[b.length]! > allowed ? Infinity : last[b.length]!
}
