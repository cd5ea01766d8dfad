import { Database } from 'bun:sqlite'
import { existsSync } from 'node:fs'
import { chmod, cp, mkdir, readdir, rename, rm } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { PEPPER_FILE } from '../store.ts'
import { DATABASE } from './store.ts'

const FILES = 'files'
/** Contents that are being uploaded. */
const UPLOADS = 'uploads'

/**
 * Copies a data folder, also of a running server, into a new folder that a server can be started on. The database is
 * one consistent snapshot, for which no lock is held. Fails with an Error for the operator where `target` exists.
 */
export async function backUp(folder: string, target: string): Promise<void> {
  if (existsSync(target)) throw new Error(`${target} exists; name a folder that does not`)
  const partial = join(dirname(target), `.${basename(target)}.partial`)
  try {
    await rm(partial, { recursive: true, force: true })
    await mkdir(join(partial, FILES), { recursive: true, mode: 0o700 })
  } catch (error) {
    const { message } = error as Error
    throw new Error(`cannot make ${target} (${message}); name one in a folder that this user can write to`, {
      cause: error,
    })
  }
  // It is in the environment instead where there is no file.
  await cp(join(folder, PEPPER_FILE), join(partial, PEPPER_FILE)).catch(ignoreMissing)
  // First, because a file may be removed after the snapshot; and again, because one may be added before it.
  await copyFiles(join(folder, FILES), join(partial, FILES))
  snapshot(join(folder, DATABASE), join(partial, DATABASE))
  await copyFiles(join(folder, FILES), join(partial, FILES))
  await chmod(join(partial, DATABASE), 0o600)
  await rename(partial, target)
}

function snapshot(file: string, target: string): void {
  const database = new Database(file, { readonly: true })
  try {
    database.query('VACUUM INTO ?').run(target)
  } finally {
    database.close()
  }
}

/** Contents never change: those that were copied before are left. */
async function copyFiles(from: string, to: string): Promise<void> {
  if (!existsSync(from)) return
  for (const name of await readdir(from)) {
    if (name === UPLOADS) continue
    await mkdir(join(to, name), { recursive: true, mode: 0o700 })
    for (const content of await readdir(join(from, name))) {
      const path = join(to, name, content)
      // One that is gone meanwhile belongs to a file that was deleted.
      if (!existsSync(path)) await cp(join(from, name, content), path).catch(ignoreMissing)
    }
  }
}

const ignoreMissing = (error: unknown): void => {
  if ((error as { code?: unknown }).code !== 'ENOENT') throw error
}
