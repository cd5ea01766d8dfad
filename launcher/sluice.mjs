#!/usr/bin/env node
// Starts Sluice under its own Bun, after installing what is missing. `run FILE` runs another script of the project the
// same way.
import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { findBun, installMissing, root } from './install.mjs'

/** How often the launcher looks whether npm is still there. */
const PARENT_EVERY_MS = 250

const args = process.argv.slice(2)
const script = args[0] === 'run' && args.length > 1 ? args.slice(1) : [join(root, 'src', 'main.ts'), ...args]

installMissing()
const bun = findBun()
// By default Bun lets only 256 outgoing requests run at once; this is the most it takes.
const env = { BUN_CONFIG_MAX_HTTP_REQUESTS: '65336', ...process.env }
let told = false
const tell = (signal) => {
  told = true
  child.kill(signal)
}
// Before there is a server that could be told: a signal would else end this process alone.
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => tell(signal))

// The channel tells the server when this process is gone, even by SIGKILL: it then stops as on SIGTERM.
const child = spawn(bun, ['--no-install', ...script], { env, stdio: ['inherit', 'inherit', 'inherit', 'ipc'] })

child.on('error', (error) => {
  console.error(`sluice: ${bun} could not be started: ${error.message}`)
  process.exit(1)
})
child.on('exit', (code, signal) => {
  if (signal === 'SIGILL')
    console.error('sluice: Bun ended with an illegal instruction: it does not know this processor')
  if (signal === null) process.exit(code ?? 1)
  for (const name of ['SIGINT', 'SIGTERM']) process.removeAllListeners(name)
  process.kill(process.pid, signal)
})

// npm hands SIGTERM to a shell between us that dies of it without a word to us, and npm itself may be killed: then the
// server has
// lost whoever could stop it. Told once: a second signal means "at once".
if (process.env.npm_lifecycle_event !== undefined) {
  const parents = parentsNow()
  setInterval(() => !told && parentsNow() !== parents && tell('SIGTERM'), PARENT_EVERY_MS).unref()
}

/** The shell that npm put between us, and npm where the system shows it. */
function parentsNow() {
  try {
    const stat = readFileSync(`/proc/${process.ppid}/stat`, 'utf8')
    // The program's name stands in parentheses and may hold anything; state and parent follow it.
    return `${process.ppid} ${stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]}`
  } catch {
    return String(process.ppid)
  }
}
