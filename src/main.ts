import { columns, didYouMean, helpOf, readArguments, UsageError } from './cli/command.ts'
import { COMMANDS } from './cli/commands.ts'

/** The command line. Exit codes: 0 success, 1 failure, 2 invalid command line. */
async function main(args: string[]): Promise<void> {
  const [first, second] = args
  if (first === undefined || first === '--help' || first === 'help') return console.log(help())
  if (first === '--version') return console.log((await import('../package.json')).default.version)
  const command = COMMANDS.find(({ name }) => name === first || name === `${first} ${second}`)
  if (command === undefined) return reportUnknown(first, second)
  const { given, operands } = readArguments(command, args.slice(command.name.split(' ').length))
  return given.on('help') ? console.log(helpOf(command)) : command.run(given, operands)
}

/** Handles an unknown command, and the first word of a group (`keys`) without a second one. */
function reportUnknown(first: string, second: string | undefined): void {
  const group = COMMANDS.filter(({ name }) => name.startsWith(`${first} `))
  if (group.length > 0 && second === '--help') return console.log(group.map(helpOf).join('\n\n'))
  if (first.startsWith('-'))
    throw new UsageError(`unknown option ${first}; the command comes first: sluice serve ${first}. See sluice --help`)
  if (group.length === 0)
    throw new UsageError(
      `unknown command ${JSON.stringify(first)}${didYouMean(
        first,
        COMMANDS.map(({ name }) => name.split(' ')[0] ?? name),
      )}; see sluice --help`,
    )
  const known = group.map(({ name }) => name.slice(first.length + 1))
  throw new UsageError(
    `sluice ${first} requires one of ${known.join(', ')}` +
      (second === undefined ? '' : `, not ${JSON.stringify(second)}${didYouMean(second, known)}`),
  )
}

const help = (): string => `sluice <command> [options]

A model gateway: one credential and one server for any generative model, over four wire protocols.

${columns(COMMANDS.map(({ name, operands, summary }) => [`${name} ${operands}`.trim(), summary]))}

  --version  Print the version
  --help     Print this help; see also "sluice <command> --help"`

try {
  await main(process.argv.slice(2))
} catch (error) {
  console.error(error instanceof Error ? error.message.replace(/^/gm, 'sluice: ') : `sluice: ${String(error)}`)
  process.exit(error instanceof UsageError ? 2 : 1)
}
