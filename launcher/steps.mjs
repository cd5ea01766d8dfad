// Steps of `npm run check` and `npm test`. Plain Node: this runs before anything is installed.
import { spawn, spawnSync } from 'node:child_process'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { ALLOCATOR, findBun, installConsole, installMissing, root } from './install.mjs'
import { writeToMemory } from './test-folder.mjs'

/** Bun prints its summary at the end of its output. */
const TAIL_CHARACTERS = 4000
/** Files run in parallel on busy machines: a test may wait longer than Bun's five seconds. */
const TEST_TIMEOUT_MS = 60_000

/**
 * Test files run in several workers: two for each core, because most slow tests wait for timers and processes, and one
 * more, without which a twelfth of the time of two cores is idle.
 */
const WORKERS = 2 * availableParallelism() + 1

/**
 * Runs the steps at the same time, prints the seconds of each, names the failed tests, and ends with the line `N
 * passed, N failed, N skipped`. A step that only checks counts as one failure when it fails. Sets the exit code. The
 * output of the last step is shown as it comes, that of each other one when it ends. `program`: builds the executable
 * that tests start.
 */
export async function runSteps(steps, { program = false } = {}) {
  installMissing({ tests: true })
  writeToMemory()
  // Once, before several workers want it. One that cannot be built is reported by each test that needs it.
  if (program) spawnSync(findBun(), ['--no-install', 'tests/program.ts'], { cwd: root, stdio: 'ignore' })
  const ended = steps.map(([name, step], index) => runStep(name, step, index === steps.length - 1))
  const sum = { passed: 0, failed: 0, skipped: 0 }
  const failures = []
  for (const { name, counts } of await Promise.all(ended)) {
    for (const key of Object.keys(sum)) sum[key] += counts[key]
    if (counts.failed > 0) failures.push(...(counts.failures ?? []).map((test) => `failed in ${name}: ${test}`))
  }
  for (const failure of failures) console.log(failure)
  console.log(`${sum.passed} passed, ${sum.failed} failed, ${sum.skipped} skipped`)
  process.exitCode = sum.failed === 0 ? 0 : 1
}

async function runStep(name, step, isShown) {
  const printed = []
  const began = performance.now()
  const counts = await step(isShown ? (text) => process.stderr.write(text) : (text) => printed.push(text))
  process.stderr.write(printed.join(''))
  const seconds = ((performance.now() - began) / 1000).toFixed(1)
  console.log(`${name}: ${counts.failed === 0 ? 'passed' : 'failed'} in ${seconds} s`)
  return { name, counts }
}

/** The steps are given what takes their output. */
export const checkFormat = (print) => checkWith(print, '@biomejs/biome/bin/biome', 'format', root)

export const checkTypes = (print) => checkTypesOf(print, root, 'types')

/** Without its packages, as on a machine without network, the console is neither checked nor tried in a browser. */
export async function checkConsoleTypes(print) {
  if (!installConsole()) return { passed: 0, failed: 0, skipped: 1 }
  return checkTypesOf(print, join(root, 'console'), 'console-types')
}

/** A check of types that leaves out what did not change since the last one. */
const checkTypesOf = (print, folder, name) =>
  checkWith(
    print,
    'typescript/bin/tsc',
    ...['--noEmit', '-p', folder],
    ...['--incremental', '--tsBuildInfoFile', join(root, `node_modules/.cache/sluice/${name}.json`)],
  )

/**
 * `args`: paths and options of `bun test`. `store`: that the tests run over. `mayBeNone`: the options may choose no
 * test. Each worker begins with its slowest file, so that none is left to run alone at the end.
 */
export async function runTests(print, args, { env = {}, store = 'sqlite', workers = WORKERS, mayBeNone = false } = {}) {
  const options = ['--no-install', `--timeout=${TEST_TIMEOUT_MS}`, `--parallel=${workers}`, '--no-isolate']
  options.push(`--timings=tests/timings/${store}.json`)
  const { code, tail, failures } = await run(print, findBun(), ['test', ...options, ...args], env)
  const count = (outcome) => countOf(outcome, tail)
  const passed = count('pass')
  if (mayBeNone && NO_TESTS.test(tail)) return { passed: 0, failed: 0, skipped: 0 }
  // A run without tests is a failure, and so is one that ends badly without a failed test.
  const failed = Math.max(count('fail'), code === 0 && passed > 0 ? 0 : 1)
  return { passed, failed, skipped: count('skip') + count('todo'), failures }
}

const NO_TESTS = /^error: regex .* matched 0 tests/m

async function checkWith(print, program, ...args) {
  const { code } = await run(print, process.execPath, [join(root, 'node_modules', program), ...args])
  return { passed: 0, failed: code === 0 ? 0 : 1, skipped: 0 }
}

/** Bun's summary has a line per outcome: ` 12 pass`. */
function countOf(outcome, tail) {
  const lines = [...tail.matchAll(new RegExp(`^ *(\\d+) ${outcome}$`, 'gm'))]
  return Number(lines.at(-1)?.[1] ?? 0)
}

/** Settings of Bun for tests, and that its third JIT compiler is off: they end before it pays for itself. */
const RUNTIME = { ...ALLOCATOR, BUN_CONFIG_MAX_HTTP_REQUESTS: '65336', BUN_JSC_useFTLJIT: '0' }

/** Bun's output: the name of a file before its tests, a mark before a failed test, and its failed tests once more. */
const TEST_FILE = /^(\S+\.test\.ts):$/
const FAILED_AGAIN = /^\d+ tests failed:$/
const FAILED_TEST = /^(?:\(fail\)|✗) (.*?)(?: \[[\d.]+ms\])?$/

/**
 * Gives the output to `print` as it comes; resolves to the exit code, the end of what the command printed on stderr,
 * and the names of the tests that failed.
 */
function run(print, command, args, more = {}) {
  const env = { ...RUNTIME, ...process.env, ...more }
  const child = spawn(command, args, { cwd: root, stdio: ['ignore', 'pipe', 'pipe'], env })
  let tail = ''
  let line = ''
  let file = ''
  const failures = []
  child.stdout.setEncoding('utf8').on('data', print)
  child.stderr.setEncoding('utf8').on('data', (text) => {
    print(text)
    // Colours would hide the summary.
    const plain = text.replace(/\x1b\[[\d;]*m/g, '')
    tail = (tail + plain).slice(-TAIL_CHARACTERS)
    const lines = (line + plain).split('\n')
    line = lines.pop()
    for (const whole of lines) {
      file = TEST_FILE.exec(whole)?.[1] ?? file
      if (FAILED_AGAIN.test(whole)) file = undefined
      const failed = FAILED_TEST.exec(whole)?.[1]
      if (file !== undefined && failed !== undefined) failures.push(`${file}: ${failed}`)
    }
  })
  return new Promise((resolve) => {
    child.on('error', (error) => {
      console.error(`${command} could not be started: ${error.message}`)
      resolve({ code: 1, tail, failures: [] })
    })
    child.on('close', (code) => resolve({ code: code ?? 1, tail, failures }))
  })
}
