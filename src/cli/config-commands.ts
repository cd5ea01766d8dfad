import type { Command } from './command.ts'
import { DATA, JSON_OUTPUT, LISTEN } from './options.ts'

const SHOW_NOTES = `With --origin, each setting has where it comes from: an option (--port), a variable
(SLUICE_PORT), the line of the file (sluice.yaml:12), who set it in the console and when, or "default". Secrets are
hidden. What was set in the console is read from the data folder or the database; a server may run on it.`

export const CONFIG_COMMANDS: readonly Command[] = [
  {
    name: 'config check',
    operands: '',
    operandCount: 0,
    summary: 'Check the configuration, report every problem with its line, and exit with 1 if there is one',
    options: { ...JSON_OUTPUT, ...DATA, ...LISTEN },
    run: async (given) => (await import('./serve.ts')).checkConfig(given),
  },
  {
    name: 'config show',
    operands: '',
    operandCount: 0,
    summary: 'Show all settings of file, environment, console and defaults, as a server has them in force',
    notes: SHOW_NOTES,
    options: { origin: { summary: 'Also where each setting comes from' }, ...JSON_OUTPUT, ...DATA, ...LISTEN },
    run: async (given) => (await import('./config.ts')).showConfig(given),
  },
  {
    name: 'config export',
    operands: '',
    operandCount: 0,
    summary: 'Print the file and what was set in the console as one file, with variables for secrets',
    options: DATA,
    run: async (given) => (await import('./config.ts')).exportConfig(given),
  },
]
