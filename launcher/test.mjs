// `npm test`: installs what is missing, checks types, runs the tests. Its last line is "N passed, N failed, N skipped".
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { findBun, installMissing, root } from './install.mjs'

installMissing({ tests: true })
const typesHold = run(process.execPath, [join(root, 'node_modules', 'typescript', 'bin', 'tsc'), '--noEmit', '-p', root])
const { passed, failed, skipped } = runTests(process.argv.slice(2))
// A type error is one failure; so are no tests at all.
const failures = failed + (typesHold ? 0 : 1) + (passed + failed === 0 ? 1 : 0)
if (!typesHold) console.error('the types do not hold (see above): counted as one failure')
console.log(`${passed} passed, ${failures} failed, ${skipped} skipped`)
process.exit(failures === 0 ? 0 : 1)

function runTests(args) {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-test-'))
  const report = join(folder, 'report.xml')
  try {
    const paths = args.some((arg) => !arg.startsWith('-')) ? args : ['./tests/', ...args]
    const good = run(findBun(), ['test', '--no-install', '--reporter=junit', `--reporter-outfile=${report}`, ...paths])
    const counted = countsIn(report)
    // A file that cannot even be loaded, or an error between two tests, fails the run without being one of the tests.
    return { ...counted, failed: good || counted.failed > 0 ? counted.failed : 1 }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

function countsIn(report) {
  try {
    const head = /<testsuites[^>]*>/.exec(readFileSync(report, 'utf8'))?.[0] ?? ''
    const [tests, failed, skipped] = ['tests', 'failures', 'skipped'].map((name) => Number(new RegExp(` ${name}="(\\d+)"`).exec(head)?.[1] ?? 0))
    return { passed: tests - failed - skipped, failed, skipped }
  } catch {
    return { passed: 0, failed: 0, skipped: 0 }
  }
}

/** True when it ended well. Its words go through as they come. */
function run(command, args) {
  const { status } = spawnSync(command, args, { cwd: root, stdio: ['ignore', 'inherit', 'inherit'], env: { BUN_CONFIG_MAX_HTTP_REQUESTS: '65336', ...process.env } })
  return status === 0
}
