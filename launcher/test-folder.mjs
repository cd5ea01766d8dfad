// The folder of what tests write. Plain Node, as steps.mjs.
import { spawnSync } from 'node:child_process'
import { chmodSync, mkdtempSync, rmSync, statfsSync, writeFileSync } from 'node:fs'
import { constants } from 'node:os'
import { join } from 'node:path'

const MEMORY = '/dev/shm'
/** Tests write less than a quarter of it. */
const NEEDED_BYTES = 4 * 2 ** 30

/**
 * Has tests write to memory where the system has enough, because flushes to a disk take a tenth of their CPU time. The
 * folder is removed at the end of this process. One that the environment names is kept.
 */
export function writeToMemory() {
  if (process.env.TMPDIR !== undefined) return
  const folder = openFolder()
  if (folder === undefined) return
  process.env.TMPDIR = folder
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }))
  for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => process.exit(128 + constants.signals[signal]))
}

/** Undefined where there is too little memory, or where programs in it are not started. */
function openFolder() {
  let folder
  try {
    const { bavail, bsize } = statfsSync(MEMORY)
    if (bavail * bsize < NEEDED_BYTES) return undefined
    folder = mkdtempSync(join(MEMORY, 'sluice-'))
    // PostgreSQL runs as another user.
    chmodSync(folder, 0o755)
    const program = join(folder, 'program')
    writeFileSync(program, '#!/bin/sh\n')
    chmodSync(program, 0o700)
    if (spawnSync(program).status === 0) return folder
  } catch {
    // A system without such a folder.
  }
  if (folder !== undefined) rmSync(folder, { recursive: true, force: true })
  return undefined
}
