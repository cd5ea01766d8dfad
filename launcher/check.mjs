// `npm run check`: what to run after every change, in less than 20 seconds on two cores.
import { availableParallelism } from 'node:os'
import { checkFormat, checkTypes, runSteps, runTests } from './steps.mjs'

/**
 * Folders whose tests start no process, and files of them that do: PostgreSQL, a gateway, tests that wait for timers,
 * measure growth, compile large schemas or try thousands of cases.
 */
const QUICK = ['accounts', 'config', 'matrix', 'protocols', 'providers']
const SLOW = [
  'accounts/keys',
  'accounts/pepper',
  'accounts/quota-model',
  'accounts/shared-activity',
  'accounts/shared-limits',
  'accounts/sign-in',
  'accounts/tries',
  'config/mutations',
  'matrix/citation-streams',
  'protocols/images/billing',
  'protocols/images/gateway',
  'protocols/many-calls',
  'protocols/offsets',
  'protocols/predictions/call',
  'protocols/remembered-memory',
  'protocols/responses/clients',
  'protocols/schema/any-schema',
  'providers/dialects',
  'providers/local',
]

/** Properties are tried less often than by `npm test`. Quick tests wait for nothing, so each core has one worker. */
const quickTests = (print) =>
  runTests(
    print,
    [
      '--only-failures',
      ...SLOW.map((name) => `--path-ignore-patterns=tests/${name}.test.ts`),
      './tests/tidy/',
      './tests/scenarios/',
      ...QUICK.map((name) => `./tests/${name}/`),
    ],
    { env: { SLUICE_QUICK_TESTS: '1' }, workers: availableParallelism() },
  )

await runSteps([
  ['format', checkFormat],
  ['types', checkTypes],
  ['tidy, scenarios and quick tests', quickTests],
])
