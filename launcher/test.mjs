// `npm test`: format, types and every test. `npm test -- tests/gateway -t name` runs a part of the tests.
import { checkConsoleTypes, checkFormat, checkTypes, runSteps, runTests } from './steps.mjs'
import { runTestsOnPostgres } from './stores.mjs'

const args = process.argv.slice(2)
const paths = args.some((arg) => !arg.startsWith('-')) ? args : ['./tests/', ...args]

await runSteps(
  [
    ['format', checkFormat],
    ['types', checkTypes],
    ['types of the console', checkConsoleTypes],
    ['tests over PostgreSQL', (print) => runTestsOnPostgres(print, paths)],
    ['tests', (print) => runTests(print, paths)],
  ],
  { program: true },
)
