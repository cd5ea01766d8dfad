import type { Command } from './command.ts'
import { CONFIG_COMMANDS } from './config-commands.ts'
import { DATA, JSON_OUTPUT, LISTEN, SERVER } from './options.ts'

const SERVE_NOTES = `The first start with a data folder creates the account "default" with a starting credit
(billing.startingCredit, 100 USD) and one key of each kind. It prints them as "key KIND TEXT"; the texts are not shown
again.

$SLUICE_KEY replaces the random pay-as-you-go key. On later starts it is added if it is unknown, and refused if it was
revoked. It must be sk-ai-v1- followed by 16 or more letters, digits, "-" or "_". $SLUICE_PEPPER, 32 bytes in base64 or
hexadecimal, is the secret of the hashes of keys, instead of the file "pepper" in the data folder.

Sluice prints "listening on URL" when it is ready. Options override the variables SLUICE_HOST, SLUICE_PORT, SLUICE_DATA
and SLUICE_CONFIG; variables override the file. A provider is switched on by the file or by its key in the environment.

On SIGTERM, Ctrl-C or a closed terminal, Sluice refuses new requests, finishes those in flight and exits with 0. A
second signal ends it at once. On SIGHUP without a terminal it reads the configuration file again.`

const MODELS_NOTES = `CONTEXT is in tokens. INPUT and OUTPUT are the current USD per million tokens before discounts;
"+" marks higher rates for long prompts. Unknown values are empty. Model servers on this machine are included. --json
prints the same as GET /v1/models.`

const EXPLAIN_NOTES = `For each provider that would be tried, in order: URL, headers without secrets, body, and what its
protocol cannot represent. A request in the provider's own protocol is sent unchanged. Providers of the model that are
switched off are listed with what switches them on. Files, stored conversations and reasoning are not inserted; only a
running server has them. Exits with 1 if no provider would be tried. Use - as the file to read the standard input.`

const MIGRATE_NOTES = `The database must be empty. Counts, sums and the audit are compared on both sides. The folder
stays as it is. If it is interrupted, run it again: it continues. No server starts on the database before it has
ended.`

const MOVE_FILES_NOTES = `Every content is read again from the new store, and compared by size and hash. The old
store stays as it is. Servers may run meanwhile. If it is interrupted, run it again: it continues, and copies what
was stored since. The key of a bucket comes from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, as for a server.`

/** Every command. Each imports its modules when it runs, so that it does not load those of the others. */
export const COMMANDS: readonly Command[] = [
  {
    name: 'serve',
    operands: '',
    operandCount: 0,
    summary: 'Run the gateway',
    notes: SERVE_NOTES,
    options: {
      ...DATA,
      ...LISTEN,
      'no-console': { summary: 'Neither build nor serve the web console' },
      replace: { summary: 'Take over from the server that runs on the data folder, without refusing requests' },
    },
    run: async (given) => (await import('./serve.ts')).serve(given),
  },
  {
    name: 'sandbox',
    operands: '',
    operandCount: 0,
    options: LISTEN,
    summary: 'Run only the simulated provider, as an upstream for tests and benchmarks (default: 127.0.0.1, port 4311)',
    run: async (given) => (await import('./serve.ts')).sandbox(given),
  },
  {
    name: 'console',
    operands: '',
    operandCount: 0,
    summary: 'Print a link that opens the console once, within 15 minutes',
    notes:
      'As long as there is no user, whoever opens the link becomes the first owner. Later it signs in the first\n' +
      'owner, or the user of --user. On a machine with a screen it is opened, too.',
    options: {
      user: { value: 'NAME', summary: 'Name or e-mail address of a user who is locked out' },
      ...JSON_OUTPUT,
      ...DATA,
      ...SERVER,
    },
    run: async (given) => (await import('./console.ts')).openConsole(given),
  },
  {
    name: 'keys create',
    operands: '',
    operandCount: 0,
    summary: 'Create a key; a running server accepts it within two seconds',
    notes: 'Prints "key KIND TEXT". Only a hash is stored: the text is never shown again.',
    options: {
      kind: { value: 'KIND', summary: 'pay-as-you-go (default), subscription or management' },
      account: { value: 'NAME', summary: 'Name or id of the account (default: default)' },
      name: { value: 'TEXT', summary: 'Display name' },
      role: {
        value: 'ROLE',
        summary: 'owner, admin or viewer of the installation, for a management key (default: viewer of its account)',
      },
      models: {
        value: 'PATTERNS',
        summary: "Allowed models, with * as a wildcard: 'openai/*,anthropic/claude-*' (default: all)",
      },
      limit: { value: 'USD', summary: 'Spending limit (default: the balance of the account)' },
      'limit-period': {
        value: 'PERIOD',
        summary: 'The limit resets every day, week or month, in UTC (default: never)',
      },
      'requests-per-minute': { value: 'N', summary: "Rate limit per route, instead of the server's" },
      'no-idempotency': { summary: 'Ignore the Idempotency-Key of requests' },
      expires: {
        value: 'WHEN',
        summary: 'Expiry: 2027-01-31, 2027-01-31T12:00:00Z, or 30m, 12h, 30d from now',
      },
      ...JSON_OUTPUT,
      ...DATA,
    },
    run: async (given) => (await import('./keys.ts')).createKey(given),
  },
  {
    name: 'keys list',
    operands: '',
    operandCount: 0,
    summary: 'List the stored keys, which do not include those in the configuration file',
    options: { ...JSON_OUTPUT, ...DATA },
    run: async (given) => (await import('./keys.ts')).listKeys(given),
  },
  {
    name: 'keys revoke',
    operands: '<id or key>',
    operandCount: 1,
    summary: 'Revoke a key; a running server refuses it within two seconds',
    notes:
      'Accepts the id of a key, its text, or the beginning of the text that `sluice keys list` shows if it is unique.',
    options: { ...JSON_OUTPUT, ...DATA },
    run: async (given, operands) => (await import('./keys.ts')).revokeKey(given, operands[0] ?? ''),
  },
  {
    name: 'keys rotate',
    operands: '<id or key>',
    operandCount: 1,
    summary: 'Replace a key by a new one with the same options, and revoke the old one',
    notes: 'Prints "key KIND TEXT". Accepts the same as `sluice keys revoke`. The new key begins with its whole limit.',
    options: {
      grace: {
        value: 'TIME',
        summary: 'How long the old key keeps working: 30m, 24h, 7d (default: it is revoked at once)',
      },
      ...JSON_OUTPUT,
      ...DATA,
    },
    run: async (given, operands) => (await import('./keys.ts')).rotateKey(given, operands[0] ?? ''),
  },
  {
    name: 'accounts create',
    operands: '<name>',
    operandCount: 1,
    summary: 'Create an account',
    options: {
      credit: { value: 'USD', summary: 'Initial credit (default: none)' },
      bonus: { value: 'USD', summary: 'Initial bonus, which is spent before credit (default: none)' },
      plan: { value: 'TIER', summary: 'Plan (default: free)' },
      discount: { value: 'PERCENT', summary: 'Discount on pay-as-you-go bills (default: 0)' },
      ...JSON_OUTPUT,
      ...DATA,
    },
    run: async (given, [name = '']) => (await import('./accounts.ts')).createAccount(given, name),
  },
  {
    name: 'accounts list',
    operands: '',
    operandCount: 0,
    summary: 'List all accounts with their balances',
    options: { ...JSON_OUTPUT, ...DATA },
    run: async (given) => (await import('./accounts.ts')).listAccounts(given),
  },
  {
    name: 'accounts show',
    operands: '<name>',
    operandCount: 1,
    summary: 'Show an account: status, plan, balance, discount, and keys with their limits',
    options: { ...JSON_OUTPUT, ...DATA },
    run: async (given, [name = '']) => (await import('./accounts.ts')).showAccount(given, name),
  },
  {
    name: 'accounts credit',
    operands: '<name> <usd>',
    operandCount: 2,
    summary: 'Add credit to an account, or remove it with a negative amount',
    notes: 'Amounts are USD with up to nine decimals. A running server uses the new balance within two seconds.',
    options: {
      bonus: { summary: 'Add a bonus, which is free and spent before credit' },
      note: { value: 'TEXT', summary: 'Note that is stored with the posting' },
      reference: { value: 'ID', summary: 'Payment id; the same id is posted only once' },
      ...JSON_OUTPUT,
      ...DATA,
    },
    run: async (given, [name = '', usd = '']) => (await import('./accounts.ts')).creditAccount(given, name, usd),
  },
  {
    name: 'accounts plan',
    operands: '<name> <tier>',
    operandCount: 2,
    summary: 'Change the plan of an account',
    notes:
      'A plan of the same or a higher price takes effect at once, a cheaper one with the next period.\n' +
      'The usage in the quota windows is kept.',
    options: {
      now: { summary: 'A cheaper plan takes effect at once, too' },
      'no-renew': { summary: 'At the end of the period the account returns to the free plan' },
      ...JSON_OUTPUT,
      ...DATA,
    },
    run: async (given, [name = '', tier = '']) => (await import('./accounts.ts')).changeAccountPlan(given, name, tier),
  },
  {
    name: 'accounts status',
    operands: '<name> <status>',
    operandCount: 2,
    summary: 'Set the status of an account: healthy, monitored, abusive, suspended or banned',
    notes:
      'The keys of a suspended or banned account are refused. Sluice itself changes the status between the first\n' +
      'three by the rules of accountStatus, but never from or to the last two.',
    options: { ...JSON_OUTPUT, ...DATA },
    run: async (given, [name = '', status = '']) =>
      (await import('./accounts.ts')).setAccountStatus(given, name, status),
  },
  {
    name: 'accounts discount',
    operands: '<name> <percent>',
    operandCount: 2,
    summary: 'Set the discount of an account on list prices',
    options: { ...JSON_OUTPUT, ...DATA },
    run: async (given, [name = '', percent = '']) =>
      (await import('./accounts.ts')).setAccountDiscount(given, name, percent),
  },
  {
    name: 'quota reset',
    operands: '<name>',
    operandCount: 1,
    summary: 'Reset the quota windows of an account to unused',
    notes:
      'For a subscription whose 5-hour, 7-day or monthly quota shall not wait for its reset. A running server does\n' +
      'it within two seconds, otherwise the next start. Requests in flight count in no window. The period stays,\n' +
      'unless it lies in the future because the clock was wrong.',
    options: { ...JSON_OUTPUT, ...DATA },
    run: async (given, [name = '']) => (await import('./quota.ts')).resetQuota(given, name),
  },
  {
    name: 'models',
    operands: '',
    operandCount: 0,
    summary: 'List the models that are available with this configuration, and their prices',
    notes: MODELS_NOTES,
    options: {
      find: { value: 'TEXT', summary: 'Only models with this text in their id or name' },
      ...JSON_OUTPUT,
      config: DATA['config']!,
    },
    run: async (given) => (await import('./models.ts')).listModels(given),
  },
  {
    name: 'explain',
    operands: '<request.json>',
    operandCount: 1,
    summary: 'Show what each provider would be sent for a request, and what would be lost, without sending it',
    notes: EXPLAIN_NOTES,
    options: {
      model: { value: 'NAME', summary: 'Model (default: the one in the file)' },
      protocol: {
        value: 'NAME',
        summary: 'Protocol of the request: chat, responses, messages, generateContent or images (default: detected)',
      },
      stream: { summary: 'As a streaming request' },
      ...JSON_OUTPUT,
      config: DATA['config']!,
    },
    run: async (given, [file = '']) => (await import('./explain.ts')).explain(given, file),
  },
  {
    name: 'route',
    operands: '<model>',
    operandCount: 1,
    summary: 'Show the endpoints that the running server would try for a model, in order, and why others are left out',
    notes:
      'A lower score is better. Nothing is sent to a provider. With --request, the preferences and the size of a\n' +
      'request count. Needs a management key with a role on the installation.',
    options: {
      request: { value: 'FILE', summary: 'The body of a request; - for the standard input' },
      protocol: { value: 'NAME', summary: 'Protocol of the request: chat, responses, messages or generateContent' },
      key: { value: 'KEY', summary: 'Management key (default: $SLUICE_MANAGEMENT_KEY)' },
      ...JSON_OUTPUT,
      ...DATA,
      ...SERVER,
    },
    run: async (given, [model = '']) => (await import('./route.ts')).showRoute(given, model),
  },
  {
    name: 'ledger audit',
    operands: '',
    operandCount: 0,
    summary: 'Recompute the ledger, report the first wrong row, and exit with 1 if there is one',
    notes: 'Reads a consistent snapshot, also while a server is running.',
    options: { ...JSON_OUTPUT, ...DATA },
    run: async (given) => (await import('./ledger.ts')).auditLedger(given),
  },
  {
    name: 'store backup',
    operands: '<folder>',
    operandCount: 1,
    summary: 'Copy the data folder, also of a running server, into a new folder',
    notes: 'The copy is a data folder itself: to restore it, start a server on it, or put it where the old one was.',
    options: { ...JSON_OUTPUT, ...DATA },
    run: async (given, operands) => (await import('./store.ts')).backUpStore(given, operands[0] ?? ''),
  },
  {
    name: 'store restore',
    operands: '<folder>',
    operandCount: 1,
    summary: 'Replace the content of the data folder by a copy that store backup made',
    notes: 'Refused while a server runs. What was there is moved to a folder in the data folder.',
    options: { ...JSON_OUTPUT, ...DATA },
    run: async (given, operands) => (await import('./store.ts')).restoreStore(given, operands[0] ?? ''),
  },
  {
    name: 'store status',
    operands: '',
    operandCount: 0,
    summary: 'Show schema, sizes, the processes that serve, what they have leased, and pending work',
    options: { ...JSON_OUTPUT, ...DATA },
    run: async (given) => (await import('./store-status.ts')).showStoreStatus(given),
  },
  {
    name: 'store migrate',
    operands: '',
    operandCount: 0,
    summary: 'Copy the data folder of a server that is stopped to PostgreSQL',
    notes: MIGRATE_NOTES,
    options: {
      to: { value: 'URL', summary: 'postgres://user:password@host/database (default: store of the file)' },
      'keep-files': { summary: 'Leave the contents of files in the folder, for files.store: folder' },
      ...JSON_OUTPUT,
      ...DATA,
    },
    run: async (given) => (await import('./store.ts')).migrateStore(given),
  },
  {
    name: 'store move-files',
    operands: '',
    operandCount: 0,
    summary: 'Copy the bytes of files and outputs to another store: folder, postgres or a bucket',
    notes: MOVE_FILES_NOTES,
    options: {
      to: { value: 'STORE', summary: 'folder, postgres or s3://bucket/prefix' },
      from: { value: 'STORE', summary: 'The same (default: files.store of the file)' },
      ...JSON_OUTPUT,
      ...DATA,
    },
    run: async (given) => (await import('./store-files.ts')).moveFiles(given),
  },
  {
    name: 'health',
    operands: '',
    operandCount: 0,
    summary: 'Ask the running server whether it takes requests, and exit with 1 if it does not',
    options: { ...DATA, ...SERVER },
    run: async (given) => (await import('./health.ts')).checkHealth(given),
  },
  {
    name: 'usage',
    operands: '',
    operandCount: 0,
    summary: 'Sum requests, tokens and costs over a range, by up to two groups',
    notes:
      'An instant is ISO 8601 or a time before now, such as -30m, -24h or -7d. Costs are what pay-as-you-go keys\n' +
      'were billed. Reads the data folder, also while a server is running, whose last second may be missing.',
    options: {
      from: { value: 'TIME', summary: 'First instant (default: -24h)' },
      to: { value: 'TIME', summary: 'End, exclusive (default: now)' },
      group: { value: 'A,B', summary: 'One or two of model, key, account, provider, outcome, code, user' },
      bucket: { value: 'NAME', summary: 'minute, hour, day, week or month (default: none)' },
      tz: { value: 'ZONE', summary: 'Time zone of buckets, such as Europe/Berlin (default: UTC)' },
      account: { value: 'NAME', summary: 'Only this account' },
      format: { value: 'FORMAT', summary: 'table, csv or json (default: table)' },
      ...DATA,
    },
    run: async (given) => (await import('./usage.ts')).printUsage(given),
  },
  ...CONFIG_COMMANDS,
]
