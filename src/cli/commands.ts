import type { Command, Option } from './command.ts'

const DATA: Record<string, Option> = {
  config: { value: 'FILE', summary: 'Configuration file (default: $SLUICE_CONFIG, else sluice.yaml where it exists)' },
  data: {
    value: 'FOLDER',
    summary: 'Data folder (default: $SLUICE_DATA, else the one the configuration names, else ./data)',
  },
}

const LISTEN: Record<string, Option> = {
  host: { value: 'HOST', summary: 'Address to listen on' },
  port: { value: 'PORT', summary: 'Port to listen on; 0 takes any free one' },
}

const JSON_OUTPUT: Record<string, Option> = { json: { summary: 'Print JSON' } }

const SERVE_NOTES = `The first start with a data folder makes the account "default" with a starting credit (billing.startingCredit, 100 USD), and one key of
each kind, which it prints as "key KIND TEXT": the texts are shown only then. When $SLUICE_KEY is set it is the pay-as-you-go key instead of a random one; on a later start it is added
when it is not known yet, and refused when it was revoked. It must begin with sk-ai-v1-, followed by 16 or more letters, digits, "-" or "_".
"listening on URL" is printed when requests are answered. Options win over variables (SLUICE_HOST, SLUICE_PORT, SLUICE_DATA,
SLUICE_CONFIG), variables over the file. Providers are switched on by the file or by their keys in the environment.

SIGTERM or Ctrl-C: nothing new is taken, what is under way is finished, then the process ends with 0. A second one ends it at once.`

const MODELS_NOTES = `CONTEXT is in tokens, INPUT and OUTPUT are USD per million of them now, before discounts; "+" where long prompts cost more. Nothing is said where
nothing is known. Model servers on this machine are asked for theirs. --json prints what GET /v1/models says.`

const EXPLAIN_NOTES = `For each provider that would be tried, in that order: address, headers without secrets, body, and what its protocol cannot carry. A request that its
provider hears in its own protocol travels as it is. Providers of the model that are off are named with what would switch them on. Files, stored conversations and reasoning that
only a running server knows are not put in. Ends with 1 where no provider would be asked. - as the file reads the standard input.`

/** Every command. Each loads what it needs when it runs, so that none waits for the others' modules. */
export const COMMANDS: readonly Command[] = [
  {
    words: 'serve',
    operands: '',
    takes: 0,
    summary: 'Run the gateway',
    notes: SERVE_NOTES,
    options: { ...DATA, ...LISTEN },
    run: async (given) => (await import('./serve.ts')).serve(given),
  },
  {
    words: 'sandbox',
    operands: '',
    takes: 0,
    options: LISTEN,
    summary:
      'Run the simulated provider by itself, as the upstream of tests and benchmarks (default: 127.0.0.1, port 4311)',
    run: async (given) => (await import('./serve.ts')).sandbox(given),
  },
  {
    words: 'keys create',
    operands: '',
    takes: 0,
    summary: 'Make a key; a running server accepts it within two seconds',
    notes: 'Prints "key KIND TEXT". Only a hash is kept: the text is never shown again.',
    options: {
      kind: { value: 'KIND', summary: 'pay-as-you-go (default), subscription or management' },
      account: { value: 'NAME', summary: 'Name or id of its account (default: default)' },
      name: { value: 'TEXT', summary: 'What it is for' },
      models: {
        value: 'PATTERNS',
        summary: "Models it may use, * standing for any text: 'openai/*,anthropic/claude-*' (default: all)",
      },
      limit: { value: 'USD', summary: 'What may be spent with it (default: what its account has)' },
      'limit-period': {
        value: 'PERIOD',
        summary: 'The limit is whole again with each day, week or month, in UTC (default: never)',
      },
      'requests-per-minute': { value: 'N', summary: "Limit for each endpoint, instead of the server's" },
      expires: {
        value: 'WHEN',
        summary: 'When it stops working: 2027-01-31, 2027-01-31T12:00:00Z, or 30m, 12h, 30d from now',
      },
      ...JSON_OUTPUT,
      ...DATA,
    },
    run: async (given) => (await import('./keys.ts')).createKey(given),
  },
  {
    words: 'keys list',
    operands: '',
    takes: 0,
    summary: 'List the stored keys (those of the configuration file are not stored)',
    options: { ...JSON_OUTPUT, ...DATA },
    run: async (given) => (await import('./keys.ts')).listKeys(given),
  },
  {
    words: 'keys revoke',
    operands: '<id or key>',
    takes: 1,
    summary: 'Revoke a key; a running server refuses it within two seconds',
    notes:
      "Takes a key's id, its whole text, or the beginning that `sluice keys list` shows when no other key begins so.",
    options: { ...JSON_OUTPUT, ...DATA },
    run: async (given, operands) => (await import('./keys.ts')).revokeKey(given, operands[0] ?? ''),
  },
  {
    words: 'keys rotate',
    operands: '<id or key>',
    takes: 1,
    summary: 'Give a key a new text: a new key with the options of the old one, which is revoked',
    notes:
      'Prints "key KIND TEXT". Takes what `sluice keys revoke` takes. What was spent of a limit is not carried over.',
    options: {
      grace: {
        value: 'TIME',
        summary: 'How long the old text still works: 30m, 24h, 7d (default: it is revoked at once)',
      },
      ...JSON_OUTPUT,
      ...DATA,
    },
    run: async (given, operands) => (await import('./keys.ts')).rotateKey(given, operands[0] ?? ''),
  },
  {
    words: 'accounts create',
    operands: '<name>',
    takes: 1,
    summary: 'Make an account',
    options: {
      credit: { value: 'USD', summary: 'Credit to begin with (default: none)' },
      bonus: { value: 'USD', summary: 'Bonus to begin with, which is spent before credit (default: none)' },
      plan: { value: 'TIER', summary: 'Its plan (default: free)' },
      discount: { value: 'PERCENT', summary: 'Off every pay-as-you-go bill (default: 0)' },
      ...JSON_OUTPUT,
      ...DATA,
    },
    run: async (given, [name = '']) => (await import('./accounts.ts')).createAccount(given, name),
  },
  {
    words: 'accounts list',
    operands: '',
    takes: 0,
    summary: 'List all accounts with their balances',
    options: { ...JSON_OUTPUT, ...DATA },
    run: async (given) => (await import('./accounts.ts')).listAccounts(given),
  },
  {
    words: 'accounts show',
    operands: '<name>',
    takes: 1,
    summary: 'Show an account: status, plan, balance, discount, keys with their limits',
    options: { ...JSON_OUTPUT, ...DATA },
    run: async (given, [name = '']) => (await import('./accounts.ts')).showAccount(given, name),
  },
  {
    words: 'accounts credit',
    operands: '<name> <usd>',
    takes: 2,
    summary: 'Add credit to an account, or take it back with a negative amount',
    notes: 'Amounts are USD with up to nine decimals. A running server counts with them within two seconds.',
    options: {
      bonus: { summary: 'A bonus, which is spent before credit and was given away' },
      note: { value: 'TEXT', summary: 'Kept with the posting' },
      reference: { value: 'ID', summary: 'Number of the payment: what was posted under it before is not posted again' },
      ...JSON_OUTPUT,
      ...DATA,
    },
    run: async (given, [name = '', usd = '']) => (await import('./accounts.ts')).creditAccount(given, name, usd),
  },
  {
    words: 'accounts plan',
    operands: '<name> <tier>',
    takes: 2,
    summary: 'Change the plan of an account',
    notes:
      'A plan that costs as much or more counts at once, a cheaper one from the next period on. What was used in the quota windows stays used.',
    options: {
      now: { summary: 'A cheaper plan counts at once too' },
      'no-renew': { summary: 'When the period ends the account goes back to the free plan' },
      ...JSON_OUTPUT,
      ...DATA,
    },
    run: async (given, [name = '', tier = '']) => (await import('./accounts.ts')).changeAccountPlan(given, name, tier),
  },
  {
    words: 'accounts status',
    operands: '<name> <status>',
    takes: 2,
    summary: 'Set the status of an account: healthy, monitored, abusive, suspended or banned',
    notes:
      'The keys of a suspended or banned account are refused. Sluice itself changes the first three by the rules of accountStatus, never the last two.',
    options: { ...JSON_OUTPUT, ...DATA },
    run: async (given, [name = '', status = '']) =>
      (await import('./accounts.ts')).setAccountStatus(given, name, status),
  },
  {
    words: 'accounts discount',
    operands: '<name> <percent>',
    takes: 2,
    summary: 'Set what an account pays less than the list price',
    options: { ...JSON_OUTPUT, ...DATA },
    run: async (given, [name = '', percent = '']) =>
      (await import('./accounts.ts')).setAccountDiscount(given, name, percent),
  },
  {
    words: 'models',
    operands: '',
    takes: 0,
    summary: 'List the models that this configuration can reach, with their prices',
    notes: MODELS_NOTES,
    options: {
      find: { value: 'TEXT', summary: 'Only those with this text in their id or name' },
      ...JSON_OUTPUT,
      config: DATA['config']!,
    },
    run: async (given) => (await import('./models.ts')).listModels(given),
  },
  {
    words: 'explain',
    operands: '<request.json>',
    takes: 1,
    summary: 'Show what would be sent for a request, to whom, and what would be lost, without sending it',
    notes: EXPLAIN_NOTES,
    options: {
      model: { value: 'NAME', summary: 'The model to ask (default: the one the file names)' },
      protocol: {
        value: 'NAME',
        summary:
          'What the request is written in: chat, responses, messages, generateContent or images (default: guessed from its members)',
      },
      stream: { summary: 'As if the answer were to be streamed' },
      ...JSON_OUTPUT,
      config: DATA['config']!,
    },
    run: async (given, [file = '']) => (await import('./explain.ts')).explain(given, file),
  },
  {
    words: 'ledger audit',
    operands: '',
    takes: 0,
    summary:
      'Compute the book again from its rows, name the first row that is wrong, and exit with 1 when there is one',
    notes: 'Reads one state of the data, also beside a running server.',
    options: { ...JSON_OUTPUT, ...DATA },
    run: async (given) => (await import('./ledger.ts')).auditLedger(given),
  },
  {
    words: 'config check',
    operands: '',
    takes: 0,
    summary: 'Read the configuration, list every problem with its line, and exit with 1 when there is one',
    options: { ...JSON_OUTPUT, ...DATA, ...LISTEN },
    run: async (given) => (await import('./serve.ts')).checkConfig(given),
  },
]
