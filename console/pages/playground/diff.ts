type DiffLine = { side: 'both' | 'one' | 'other'; text: string }

/** More lines are compared by their place alone: the table of a longest common part grows with the square. */
const MOST_LINES = 400

/** The lines of two texts: those of both once, in an order that keeps that of each. */
export function diffLines(one: string, other: string): DiffLine[] {
  const [a, b] = [one.split('\n'), other.split('\n')]
  if (a.length > MOST_LINES || b.length > MOST_LINES)
    return one === other
      ? a.map((text) => ({ side: 'both', text }))
      : [...a.map((text) => ({ side: 'one' as const, text })), ...b.map((text) => ({ side: 'other' as const, text }))]
  const lengths = lengthsOf(a, b)
  const lines: DiffLine[] = []
  let [i, j] = [0, 0]
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      lines.push({ side: 'both', text: a[i++]! })
      j++
    } else if (j >= b.length || (i < a.length && lengths[i + 1]![j]! >= lengths[i]![j + 1]!))
      lines.push({ side: 'one', text: a[i++]! })
    else lines.push({ side: 'other', text: b[j++]! })
  }
  return lines
}

/** The lengths of the longest common parts of what follows each place. */
function lengthsOf(a: readonly string[], b: readonly string[]): number[][] {
  const lengths = Array.from({ length: a.length + 1 }, () => new Array<number>(b.length + 1).fill(0))
  for (let i = a.length - 1; i >= 0; i--)
    for (let j = b.length - 1; j >= 0; j--)
      lengths[i]![j] = a[i] === b[j] ? lengths[i + 1]![j + 1]! + 1 : Math.max(lengths[i + 1]![j]!, lengths[i]![j + 1]!)
  return lengths
}
