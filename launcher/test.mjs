// `npm test`: installs missing packages, checks types, runs the tests. Ends with "N passed, N failed, N skipped".
import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { findBun, installMissing, root } from './install.mjs'

/** Bun prints its summary within this much of its output's end. */
const TAIL_CHARACTERS = 4000

installMissing({ tests: true })
const args = process.argv.slice(2)
const paths = args.some((arg) => !arg.startsWith('-')) ? args : ['./tests/', ...args]
const types = await run(process.execPath, [
  join(root, 'node_modules', 'typescript', 'bin', 'tsc'),
  '--noEmit',
  '-p',
  root,
])
const tests = await run(findBun(), ['test', '--no-install', ...paths])
const [passed, failed, skipped] = [countOf('pass'), countOf('fail'), countOf('skip') + countOf('todo')]
// Type errors count as one failure; so does a run that fails without a failed test, or has no tests.
const failures = Math.max(failed, tests.code === 0 && passed > 0 ? 0 : 1) + (types.code === 0 ? 0 : 1)
if (types.code !== 0) console.error('type errors (see above) count as one failure')
console.log(`${passed} passed, ${failures} failed, ${skipped} skipped`)
process.exitCode = failures === 0 ? 0 : 1

/** Bun's summary has a line per outcome: ` 12 pass`. */
function countOf(outcome) {
  const lines = [...tests.tail.matchAll(new RegExp(`^ *(\\d+) ${outcome}$`, 'gm'))]
  return Number(lines.at(-1)?.[1] ?? 0)
}

/** Runs a command with its output passed through. Resolves to its exit code and the end of its stderr. */
function run(command, args) {
  const env = { BUN_CONFIG_MAX_HTTP_REQUESTS: '65336', ...process.env }
  const child = spawn(command, args, { cwd: root, stdio: ['ignore', 'inherit', 'pipe'], env })
  let tail = ''
  child.stderr.setEncoding('utf8').on('data', (text) => {
    process.stderr.write(text)
    // Colours would hide the summary.
    tail = (tail + text.replace(/\x1b\[[\d;]*m/g, '')).slice(-TAIL_CHARACTERS)
  })
  return new Promise((resolve) => {
    child.on('error', (error) => {
      console.error(`cannot start ${command}: ${error.message}`)
      resolve({ code: 1, tail })
    })
    child.on('close', (code) => resolve({ code: code ?? 1, tail }))
  })
}
