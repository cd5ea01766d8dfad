// `npm run check`: what to run after every change, in less than 20 seconds on two cores.
import { checkFormat, checkTypes, runSteps, runTests } from './steps.mjs'

/** Folders whose tests start no process, and files of them that wait for timers. */
const QUICK = ['accounts', 'config', 'generation', 'matrix', 'protocols', 'providers']
const SLOW = ['accounts/keys', 'protocols/images/gateway', 'providers/local']

/** Properties are tried less often than by `npm test`. */
const test = (...args) => runTests(['--only-failures', ...args], { SLUICE_QUICK_TESTS: '1' })

await runSteps([
  ['format', checkFormat],
  ['types', checkTypes],
  ['tidy', () => test('./tests/tidy.test.ts')],
  [
    'quick tests',
    () =>
      test(
        ...SLOW.map((name) => `--path-ignore-patterns=tests/${name}.test.ts`),
        ...QUICK.map((name) => `./tests/${name}/`),
      ),
  ],
  ['scenarios', () => test('./tests/scenarios/')],
])
