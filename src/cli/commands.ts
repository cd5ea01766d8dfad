import type { Command, Option } from './command.ts'

const DATA: Record<string, Option> = {
  config: { value: 'FILE', summary: 'Configuration file (default: $SLUICE_CONFIG, else sluice.yaml where it exists)' },
  data: { value: 'FOLDER', summary: 'Data folder (default: $SLUICE_DATA, else the one the configuration names, else ./data)' },
}

const LISTEN: Record<string, Option> = {
  host: { value: 'HOST', summary: 'Address to listen on' },
  port: { value: 'PORT', summary: 'Port to listen on; 0 takes any free one' },
}

const JSON_OUTPUT: Record<string, Option> = { json: { summary: 'Print JSON' } }

const SERVE_NOTES = `The first start with a data folder makes one account and one key of each kind and prints each as "key KIND TEXT": the
texts are shown only then. When $SLUICE_KEY is set it is the pay-as-you-go key instead of a random one; on a later start it is added
when it is not known yet, and refused when it was revoked. It must begin with sk-ai-v1-, followed by 16 or more letters, digits, "-" or "_".
"listening on URL" is printed when requests are answered. Options win over variables (SLUICE_HOST, SLUICE_PORT, SLUICE_DATA,
SLUICE_CONFIG), variables over the file. Providers are switched on by the file or by their keys in the environment.

SIGTERM or Ctrl-C: nothing new is taken, what is under way is finished, then the process ends with 0. A second one ends it at once.`

/** Every command. Each loads what it needs when it runs, so that none waits for the others' modules. */
export const COMMANDS: readonly Command[] = [
  {
    words: 'serve', operands: '', takes: 0, summary: 'Run the gateway', notes: SERVE_NOTES, options: { ...DATA, ...LISTEN },
    run: async (given) => (await import('./serve.ts')).serve(given),
  },
  {
    words: 'sandbox', operands: '', takes: 0, options: LISTEN,
    summary: 'Run the simulated provider by itself, as the upstream of tests and benchmarks (default: 127.0.0.1, port 4311)',
    run: async (given) => (await import('./serve.ts')).sandbox(given),
  },
  {
    words: 'keys create', operands: '', takes: 0, summary: 'Make a key; a running server accepts it within two seconds',
    notes: 'Prints "key KIND TEXT". Only a hash is kept: the text is never shown again.',
    options: {
      kind: { value: 'KIND', summary: 'pay-as-you-go (default), subscription or management' },
      account: { value: 'NAME', summary: 'Name or id of its account, made when there is none (default: default)' },
      name: { value: 'TEXT', summary: 'What it is for' },
      'requests-per-minute': { value: 'N', summary: "Limit for each endpoint, instead of the server's" },
      expires: { value: 'WHEN', summary: 'When it stops working: 2027-01-31, 2027-01-31T12:00:00Z, or 12h, 30d from now' },
      ...JSON_OUTPUT, ...DATA,
    },
    run: async (given) => (await import('./keys.ts')).createKey(given),
  },
  {
    words: 'keys list', operands: '', takes: 0, summary: 'List the stored keys (those of the configuration file are not stored)', options: { ...JSON_OUTPUT, ...DATA },
    run: async (given) => (await import('./keys.ts')).listKeys(given),
  },
  {
    words: 'keys revoke', operands: '<id or key>', takes: 1, summary: 'Revoke a key; a running server refuses it within two seconds',
    notes: "Takes a key's id, its whole text, or the beginning that `sluice keys list` shows when no other key begins so.", options: { ...JSON_OUTPUT, ...DATA },
    run: async (given, operands) => (await import('./keys.ts')).revokeKey(given, operands[0] ?? ''),
  },
  {
    words: 'config check', operands: '', takes: 0, summary: 'Read the configuration, list every problem with its line, and exit with 1 when there is one', options: { ...DATA, ...LISTEN },
    run: async (given) => (await import('./serve.ts')).checkConfig(given),
  },
]
