import { parseArgs } from 'node:util'
import { nearest } from '../nearest.ts'

/** One command of `sluice`. `name`: of one or two words, such as `keys create`. */
export type Command = {
  name: string
  /** The operands in the usage line: `<id or key>`. */
  operands: string
  summary: string
  /** Text below the options in the help. */
  notes?: string
  options: Record<string, Option>
  /** The number of operands. */
  operandCount: number
  run(options: Given, operands: string[]): Promise<void>
}

/** `value`: the name of the value in the help; an option without one is a switch. */
export type Option = { value?: string; summary: string }
export type Given = { text(name: string): string | undefined; on(name: string): boolean }

/** An invalid command line: one line on stderr, exit code 2. */
export class UsageError extends Error {}

/** Reads the options and operands of a command. Throws UsageError. */
export function readArguments(command: Command, args: string[]): { given: Given; operands: string[] } {
  const options = optionsOf(command)
  const { tokens } = parseArgs({
    args: args.map((arg) => (/^-\.?\d/.test(arg) ? NEGATIVE + arg : arg)),
    strict: false,
    allowPositionals: true,
    tokens: true,
    options: Object.fromEntries(
      Object.entries(options).map(([name, { value }]) => [
        name,
        { type: value === undefined ? ('boolean' as const) : ('string' as const) },
      ]),
    ),
  })
  const values = new Map<string, string | true>()
  const operands: string[] = []
  for (const token of tokens ?? []) {
    if (token.kind === 'positional') operands.push(withoutMark(token.value))
    if (token.kind === 'option') values.set(token.name, readOption(command, options, token))
  }
  if (operands.length !== command.operandCount && !values.has('help'))
    throw new UsageError(operandProblem(command, operands))
  const text = (name: string): string | undefined => {
    const value = values.get(name)
    return value === true ? undefined : value
  }
  return { operands, given: { text, on: (name) => values.has(name) } }
}

/** A mark before negative numbers, which the parser would otherwise take for short options. */
const NEGATIVE = '\0'
const withoutMark = (text: string): string => (text.startsWith(NEGATIVE) ? text.slice(1) : text)

const optionsOf = ({ options }: Command): Record<string, Option> => ({
  ...options,
  help: { summary: 'Print this help' },
})

type OptionToken = { name: string; rawName: string; value?: string | undefined; inlineValue?: boolean | undefined }

function readOption(
  command: Command,
  options: Record<string, Option>,
  { name, rawName, value, inlineValue }: OptionToken,
): string | true {
  const option = Object.hasOwn(options, name) && rawName.startsWith('--') ? options[name] : undefined
  if (option === undefined)
    throw new UsageError(
      `unknown option ${rawName}${didYouMean(name, Object.keys(options), '--')}; see sluice ${command.name} --help`,
    )
  if (option.value === undefined) {
    if (inlineValue === true) throw new UsageError(`${rawName} takes no value`)
    return true
  }
  // In `--data --port 1` the value is missing. A value that begins with a dash is written `--data=-x`.
  if (value === undefined || (inlineValue !== true && value.startsWith('-')))
    throw new UsageError(`${rawName} requires a value: ${rawName} ${option.value}`)
  return withoutMark(value)
}

function operandProblem({ name, operands, operandCount }: Command, given: string[]): string {
  const extra = given[operandCount]
  return extra === undefined
    ? `sluice ${name} requires ${operands}`
    : `sluice ${name} does not take "${extra}"; see sluice ${name} --help`
}

/** `; did you mean --port?`, or nothing if no known word is similar. */
export function didYouMean(word: string, known: Iterable<string>, before = ''): string {
  const [near] = nearest(word, known, 1)
  return near === undefined ? '' : `; did you mean ${before}${near}?`
}

export function helpOf(command: Command): string {
  const { name, operands, summary, notes } = command
  const rows = Object.entries(optionsOf(command)).map(([option, { value, summary: what }]) => [
    `--${option}${value === undefined ? '' : ` ${value}`}`,
    what,
  ])
  const usage = ['sluice', name, operands, '[options]'].filter((word) => word !== '').join(' ')
  return [`${usage}\n\n${summary}.\n\nOptions:\n${columns(rows)}`, ...(notes === undefined ? [] : [notes])].join('\n\n')
}

/** A table of texts with aligned columns. */
export function columns(rows: string[][], indent = '  '): string {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => (row[column] ?? '').length)))
  return rows
    .map(
      (row) =>
        indent +
        row
          .map((text, column) => text.padEnd(widths[column] ?? 0))
          .join('  ')
          .trimEnd(),
    )
    .join('\n')
}
