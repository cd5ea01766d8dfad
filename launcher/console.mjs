// `npm run console`: installs the packages of the web console, and builds it. A server starts this beside itself and
// ends it with itself. Progress is in `console/state.json`, which the server shows until there is something to serve.
import { spawn } from 'node:child_process'
import { renameSync, rmSync, writeFileSync } from 'node:fs'
import { constants, setPriority } from 'node:os'
import { join } from 'node:path'
import { consoleInstallation, findBun, root } from './install.mjs'

const folder = join(root, 'console')
const stateFile = join(folder, 'state.json')
const beside = process.send !== undefined

let child
process.on('disconnect', end)
for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP']) process.on(signal, end)
if (beside) lowerPriority()

try {
  const install = consoleInstallation()
  if (install !== undefined) {
    report('installing', 'Installing the packages of the console.')
    await run(install.command, install.args, 'npm ci')
  }
  report('building', 'Building the console.')
  await run(findBun(), ['--no-install', join(folder, 'build.ts')], 'bun console/build.ts')
  rmSync(stateFile, { force: true })
  if (!beside) console.error('sluice: the console is built; a running server serves it at /console')
} catch (error) {
  report('failed', `${error.message} npm run console repeats it.`)
  process.exitCode = 1
}

/** Requests come first: this takes the time that the server leaves. */
function lowerPriority() {
  try {
    setPriority(constants.priority.PRIORITY_LOW)
  } catch {}
}

function report(state, message) {
  if (!beside || state === 'failed') console.error(`sluice: ${message}`)
  try {
    writeFileSync(`${stateFile}.new`, JSON.stringify({ state, message }))
    renameSync(`${stateFile}.new`, stateFile)
  } catch {}
}

function run(command, args, name) {
  return new Promise((resolve, reject) => {
    const output = beside ? 'ignore' : 2
    child = spawn(command, args, { cwd: folder, stdio: ['ignore', output, output], shell: command.endsWith('npm.cmd') })
    child.on('error', (error) => reject(new Error(`${name} could not be started (${error.message}).`)))
    child.on('close', (code, signal) =>
      code === 0 ? resolve() : reject(new Error(`${name} failed in ${folder} (${signal ?? `exit code ${code}`}).`)),
    )
  })
}

function end() {
  rmSync(stateFile, { force: true })
  child?.kill()
  process.exit(1)
}
