import { parseArgs } from 'node:util'
import { nearest } from '../nearest.ts'

/** One command of `sluice`. `words` is how it is called: `keys create`. */
export type Command = {
  words: string
  /** What stands after the words: `<id or key>`. */
  operands: string
  summary: string
  /** Said under the options: what the command prints, what it decides. */
  notes?: string
  options: Record<string, Option>
  /** Number of operands that must be given. */
  takes: number
  run(options: Given, operands: string[]): Promise<void>
}

/** `value` names the value in the help; without it the option is a switch. */
export type Option = { value?: string; summary: string }
export type Given = { text(name: string): string | undefined; on(name: string): boolean }

/** The command line cannot be understood: one line for stderr, exit code 2. */
export class UsageError extends Error {}

/** Arguments -> options and operands of this command. Throws UsageError. */
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
    if (token.kind === 'positional') operands.push(written(token.value))
    if (token.kind === 'option') values.set(token.name, readOption(command, options, token))
  }
  if (operands.length !== command.takes && !values.has('help')) throw new UsageError(operandsWrong(command, operands))
  const text = (name: string): string | undefined => {
    const value = values.get(name)
    return value === true ? undefined : value
  }
  return { operands, given: { text, on: (name) => values.has(name) } }
}

/** Before a negative number, which would be read as a bundle of short options; there are none. */
const NEGATIVE = '\0'
const written = (text: string): string => (text.startsWith(NEGATIVE) ? text.slice(1) : text)

const optionsOf = ({ options }: Command): Record<string, Option> => ({ ...options, help: { summary: 'Print this' } })

type OptionToken = { name: string; rawName: string; value?: string | undefined; inlineValue?: boolean | undefined }

function readOption(
  command: Command,
  options: Record<string, Option>,
  { name, rawName, value, inlineValue }: OptionToken,
): string | true {
  const option = Object.hasOwn(options, name) && rawName.startsWith('--') ? options[name] : undefined
  if (option === undefined)
    throw new UsageError(
      `unknown option ${rawName}${meant(name, Object.keys(options), '--')}; see sluice ${command.words} --help`,
    )
  if (option.value === undefined) {
    if (inlineValue === true) throw new UsageError(`${rawName} takes no value`)
    return true
  }
  // `--data --port 1` has forgotten a value; one that does begin with a dash is written `--data=-x`.
  if (value === undefined || (inlineValue !== true && value.startsWith('-')))
    throw new UsageError(`${rawName} needs a value: ${rawName} ${option.value}`)
  return written(value)
}

function operandsWrong({ words, operands, takes }: Command, given: string[]): string {
  const extra = given[takes]
  return extra === undefined ? `sluice ${words} needs ${operands}` : `sluice ${words} does not take "${extra}"`
}

/** `; did you mean --port?`, or nothing when no known word is near. */
export function meant(word: string, known: Iterable<string>, before = ''): string {
  const [near] = nearest(word, known, 1)
  return near === undefined ? '' : `; did you mean ${before}${near}?`
}

export function helpOf(command: Command): string {
  const { words, operands, summary, notes } = command
  const rows = Object.entries(optionsOf(command)).map(([name, { value, summary: what }]) => [
    `--${name}${value === undefined ? '' : ` ${value}`}`,
    what,
  ])
  const usage = ['sluice', words, operands, '[options]'].filter((word) => word !== '').join(' ')
  return [`${usage}\n\n${summary}.\n\nOptions:\n${columns(rows)}`, ...(notes === undefined ? [] : [notes])].join('\n\n')
}

/** Rows of texts, each column as wide as its widest text. */
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
