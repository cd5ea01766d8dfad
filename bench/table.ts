/** A number of one contender; undefined if the contender cannot do it, or was not measured. */
export type Cell = number | undefined
export type TableRow = { title: string; cells: Cell[]; digits: number }

/** Prints the rows as Markdown, each number with its ratio to that of the contender `base` in brackets. */
export const printTable = (names: string[], rows: TableRow[], base: string): void => {
  const baseAt = names.indexOf(base)
  console.log(`\n| | ${names.join(' | ')} |\n|---|${names.map(() => '---:').join('|')}|`)
  for (const { title, cells, digits } of rows) {
    // nginx cannot translate, so translated rows are compared with its passthrough row.
    const passthrough = rows.find((row) => row.title === title.replace('translated', 'passthrough')) ?? { cells }
    const texts = cells.map((cell, i) =>
      cell === undefined ? '-' : cell.toFixed(digits) + (i === baseAt ? '' : ratio(cell, passthrough.cells[baseAt])),
    )
    console.log(`| ${title} | ${texts.join(' | ')} |`)
  }
}

const ratio = (value: Cell, base: Cell): string =>
  value === undefined || base === undefined || base <= 0 ? '' : ` (${(value / base).toFixed(2)}x)`

export const median = (values: number[]): Cell =>
  values.length === 0 ? undefined : [...values].sort((a, b) => a - b)[values.length >> 1]
