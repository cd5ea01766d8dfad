/** The known names closest to a mistyped one, best first, at most `most`; none when nothing is close enough to be meant. */
export function nearest(name: string, known: Iterable<string>, most = 3): string[] {
  const wanted = name.toLowerCase()
  const allowed = Math.max(2, Math.floor(wanted.length / 3))
  const found: { candidate: string; distance: number }[] = []
  for (const candidate of known) {
    const lower = candidate.toLowerCase()
    const contains = wanted.length >= 3 && (lower.includes(wanted) || (lower.length >= 3 && wanted.includes(lower)))
    const distance = contains ? 1 : Math.abs(lower.length - wanted.length) > allowed ? Infinity : editDistance(wanted, lower)
    if (distance <= allowed) found.push({ candidate, distance })
  }
  return found.sort((a, b) => a.distance - b.distance || a.candidate.length - b.candidate.length).slice(0, most).map(({ candidate }) => candidate)
}

/** Insertions, deletions, exchanges and swaps of neighbours that make one text of the other. */
function editDistance(a: string, b: string): number {
  let before: number[] = []
  let last = Array.from({ length: b.length + 1 }, (_, i) => i)
  for (let i = 1; i <= a.length; i++) {
    const row = [i]
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1]
      let cost = Math.min(row[j - 1]! + 1, last[j]! + 1, last[j - 1]! + (same ? 0 : 1))
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) cost = Math.min(cost, before[j - 2]! + 1)
      row.push(cost)
    }
    before = last
    last = row
  }
  return last[b.length]!
}
