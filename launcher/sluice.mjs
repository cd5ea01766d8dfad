#!/usr/bin/env node
// The command `sluice`: runs it under its own Bun, after installing missing packages.
import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { ALLOCATOR, findBun, installMissing, root } from './install.mjs'

installMissing()
const bun = findBun()
// A server that was started here builds its console. One that a script runs directly is left as it is.
const env = { ...ALLOCATOR, ...process.env, SLUICE_BUILD_CONSOLE: '1' }
const args = ['--no-install', join(root, 'src', 'main.ts'), ...process.argv.slice(2)]

// A waiting Node would occupy as much memory as half the server. Windows and Node before 22.15 cannot do without.
if (process.execve !== undefined && process.platform !== 'win32') process.execve(bun, [bun, ...args], env)

// Before the server is started: a signal would otherwise end only this process.
const SIGNALS = ['SIGTERM', 'SIGINT', 'SIGHUP', 'SIGQUIT', 'SIGUSR1', 'SIGUSR2']
for (const signal of SIGNALS) process.on(signal, () => child.kill(signal))

// When this process ends, even by SIGKILL, the IPC channel closes, and the server stops as on SIGTERM.
const child = spawn(bun, args, { env, stdio: ['inherit', 'inherit', 'inherit', 'ipc'] })

child.on('error', (error) => {
  console.error(`sluice: cannot start ${bun}: ${error.message}`)
  process.exit(1)
})
child.on('exit', (code, signal) => {
  if (signal === 'SIGILL')
    console.error('sluice: Bun ended with an illegal instruction; it does not support this processor')
  if (signal === null) process.exit(code ?? 1)
  for (const name of SIGNALS) process.removeAllListeners(name)
  process.kill(process.pid, signal)
})
