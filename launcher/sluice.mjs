#!/usr/bin/env node
// Starts Sluice under its own Bun, after installing missing packages. `run FILE` runs another script of the project.
import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { findBun, installMissing, root } from './install.mjs'

/** How often the launcher checks that npm is still running. */
const PARENT_CHECK_MS = 250

const args = process.argv.slice(2)
const script = args[0] === 'run' && args.length > 1 ? args.slice(1) : [join(root, 'src', 'main.ts'), ...args]

installMissing()
const bun = findBun()
// Bun's default limit is 256 concurrent outgoing requests; this is its maximum.
const env = { BUN_CONFIG_MAX_HTTP_REQUESTS: '65336', ...process.env }
let stopping = false
const stop = (signal) => {
  stopping = true
  child.kill(signal)
}
// Before the server is started: a signal would otherwise end only this process.
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => stop(signal))

// When this process ends, even by SIGKILL, the IPC channel closes, and the server stops as on SIGTERM.
const child = spawn(bun, ['--no-install', ...script], { env, stdio: ['inherit', 'inherit', 'inherit', 'ipc'] })

child.on('error', (error) => {
  console.error(`sluice: cannot start ${bun}: ${error.message}`)
  process.exit(1)
})
child.on('exit', (code, signal) => {
  if (signal === 'SIGILL')
    console.error('sluice: Bun ended with an illegal instruction; it does not support this processor')
  if (signal === null) process.exit(code ?? 1)
  for (const name of ['SIGINT', 'SIGTERM']) process.removeAllListeners(name)
  process.kill(process.pid, signal)
})

// On SIGTERM, npm ends the shell between it and this process, which does not pass the signal on. npm may also be
// killed. Then nothing else could stop the server. Only one signal is sent: a second one would mean "at once".
if (process.env.npm_lifecycle_event !== undefined) {
  const parents = parentsNow()
  setInterval(() => !stopping && parentsNow() !== parents && stop('SIGTERM'), PARENT_CHECK_MS).unref()
}

/** The process ids of the parent, a shell that npm started, and of npm if the system shows it. */
function parentsNow() {
  try {
    const stat = readFileSync(`/proc/${process.ppid}/stat`, 'utf8')
    // The program's name is in parentheses and may contain anything. State and parent follow it.
    return `${process.ppid} ${stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]}`
  } catch {
    return String(process.ppid)
  }
}
