import { csvLine } from './csv.ts'
import type { Measures, UsageAnswer } from './usage.ts'

const COLUMNS = [
  'requests',
  'failed',
  'refused',
  'cost_usd',
  'flows',
  'input',
  'cache_read',
  'cache_write',
  'output',
  'reasoning',
] as const

const cellsOf = ({ tokens, ...measures }: Measures): (string | number)[] => {
  const all: Record<string, string | number> = { ...measures, ...tokens }
  return COLUMNS.map((column) => all[column]!)
}

/** Usage as a table: a line for each bucket and group, in the order of the answer. */
export function usageTable(usage: UsageAnswer, groups: readonly string[], format: 'csv' | 'table'): string {
  const head = [...(usage.bucket === 'none' ? [] : ['at']), ...groups, ...COLUMNS]
  const lines = usage.groups.flatMap(({ labels, total, points }) => {
    // The rest, `other`, is one for both groups.
    const names = groups.map((_, at) => labels[at] ?? '')
    return usage.bucket === 'none'
      ? [[...names, ...cellsOf(total)]]
      : points.map(([at, measures]) => [at, ...names, ...cellsOf(measures)])
  })
  if (format === 'csv') return [head, ...lines].map(csvLine).join('')
  return aligned(
    [head, ...lines].map((line) => line.map(String)),
    head.length - COLUMNS.length,
  )
}

/** Columns for a terminal: texts on the left, numbers on the right. */
function aligned(lines: readonly string[][], texts: number): string {
  const widths = lines[0]!.map((_, at) => Math.max(...lines.map((line) => line[at]!.length)))
  return lines
    .map((line) =>
      line.map((cell, at) => (at < texts ? cell.padEnd(widths[at]!) : cell.padStart(widths[at]!))).join('  '),
    )
    .join('\n')
}
