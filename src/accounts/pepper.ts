import { createHmac, randomBytes } from 'node:crypto'
import { closeSync, fsyncSync, linkSync, openSync, readFileSync, rmSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { PEPPER_FILE, type Store } from '../store/store.ts'

const PEPPER_BYTES = 32

/**
 * The secret of the key hashes: 32 random bytes in the data folder, created with it, so that a stolen database does not
 * reveal which texts are keys. Fails where it is not the one that the stored keys were hashed with, because the server
 * would refuse every key.
 */
export async function loadPepper(folder: string, store: Store): Promise<Buffer> {
  const file = join(folder, PEPPER_FILE)
  const storedCheck = await store.settings.get('pepper-check')
  const pepper = readPepper(file) ?? (storedCheck === undefined ? createPepper(file) : undefined)
  if (pepper === undefined)
    throw new Error(`${file} is missing, and keys cannot be checked without it. Restore it from a backup`)
  if (pepper.length !== PEPPER_BYTES)
    throw new Error(`${file} must have ${PEPPER_BYTES} bytes, not ${pepper.length}. Restore it from a backup`)
  const check = createHmac('sha256', pepper).update('pepper-check').digest('base64')
  if ((await store.settings.setOnce('pepper-check', check)) !== check) {
    throw new Error(`${file} does not match the keys of this data folder. Restore it from a backup`)
  }
  return pepper
}

function readPepper(file: string): Buffer | undefined {
  try {
    return readFileSync(file)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}

/** Written under another name and then linked, so that two processes that start at once get the same pepper. */
function createPepper(file: string): Buffer | undefined {
  const draft = `${file}.${process.pid}`
  const descriptor = openSync(draft, 'w', 0o600)
  try {
    writeSync(descriptor, randomBytes(PEPPER_BYTES))
    fsyncSync(descriptor)
    linkSync(draft, file)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  } finally {
    closeSync(descriptor)
    rmSync(draft, { force: true })
  }
  return readPepper(file)
}
