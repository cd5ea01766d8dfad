import { createHmac, randomBytes } from 'node:crypto'
import { closeSync, fsyncSync, linkSync, openSync, readFileSync, rmSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import type { Store } from '../store/store.ts'

const PEPPER_BYTES = 32

/**
 * The secret under which keys are hashed: 32 random bytes in the data folder, created with the folder. Without it a
 * stolen
 * database tells nobody which texts are keys. Fails when it is not the one that the store's keys were hashed with:
 * going on
 * would refuse every key without a word.
 */
export async function loadPepper(folder: string, store: Store): Promise<Buffer> {
  const file = join(folder, 'pepper')
  const kept = await store.settings.get('pepper-check')
  const pepper = readPepper(file) ?? (kept === undefined ? createPepper(file) : undefined)
  if (pepper === undefined)
    throw new Error(
      `${file} is missing: without it no key of this data folder can be checked. Restore it from a backup`,
    )
  if (pepper.length !== PEPPER_BYTES)
    throw new Error(`${file} must hold ${PEPPER_BYTES} bytes, not ${pepper.length}. Restore it from a backup`)
  const check = createHmac('sha256', pepper).update('pepper-check').digest('base64')
  if ((await store.settings.setOnce('pepper-check', check)) !== check) {
    throw new Error(`${file} is not the one that the keys of this data folder were made with. Restore it from a backup`)
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

/** Written whole under another name and then linked: two processes that start at once end up with the same pepper. */
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
