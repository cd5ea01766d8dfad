import { createHmac, randomBytes } from 'node:crypto'
import { closeSync, fsyncSync, linkSync, openSync, readFileSync, rmSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { hideSecret } from '../log/secrets.ts'
import { PEPPER_FILE, type Store } from '../store/store.ts'

const PEPPER_BYTES = 32

/** The setting with the fingerprint of the pepper, and after a space the pepper itself where it is stored there. */
const CHECK = 'pepper-check'

type PepperOptions = { folder: string; store: Store; env?: Record<string, string | undefined> }

type Pepper = { bytes: Buffer; from: string }

/**
 * The secret of the key hashes, 32 random bytes, without which a stolen database does not reveal which texts are keys:
 * the one in SLUICE_PEPPER, or in a file of the data folder. Processes that share a database, each with a folder of its
 * own, find one in the database if nothing else was chosen. Fails with an Error for the operator where it is not the
 * one that the stored keys were hashed with, because the server would refuse every key.
 */
export async function loadPepper({ folder, store, env = {} }: PepperOptions): Promise<Buffer> {
  const file = join(folder, PEPPER_FILE)
  const stored = await store.settings.get(CHECK)
  const pepper = chosenPepper(env) ?? storedPepper(stored) ?? readPepper(file)
  if (pepper !== undefined) return checked(pepper, store)
  if (stored !== undefined) throw missing(file, store)
  if (!store.isShared) return checked(createPepper(file), store)
  // The first process decides for all.
  const made = randomBytes(PEPPER_BYTES)
  const decided = storedPepper(await store.settings.setOnce(CHECK, `${fingerprint(made)} ${made.toString('base64')}`))
  if (decided === undefined) throw missing(file, store)
  return decided.bytes
}

async function checked({ bytes, from }: Pepper, store: Store): Promise<Buffer> {
  if (bytes.length !== PEPPER_BYTES)
    throw new Error(`${from} must have ${PEPPER_BYTES} bytes, not ${bytes.length}. Restore it from a backup`)
  const [check] = (await store.settings.setOnce(CHECK, fingerprint(bytes))).split(' ')
  if (check === fingerprint(bytes)) return bytes
  throw new Error(
    store.isShared
      ? `${from} does not match the keys in the database. All processes need the same one: ${ALIKE}`
      : `${from} does not match the keys of this data folder. Restore it from a backup`,
  )
}

const fingerprint = (pepper: Buffer): string => createHmac('sha256', pepper).update(CHECK).digest('base64')

const ALIKE =
  'set SLUICE_PEPPER to that of a process that runs, or copy the file pepper from its data folder (or, if neither ' +
  'has one, remove this one)'

const missing = (file: string, store: Store): Error =>
  new Error(
    store.isShared
      ? `the keys in the database were hashed with a pepper that this process does not have: ${ALIKE}`
      : `${file} is missing, and keys cannot be checked without it. Restore it from a backup`,
  )

/** The pepper in SLUICE_PEPPER. */
function chosenPepper({ SLUICE_PEPPER: text = '' }: Record<string, string | undefined>): Pepper | undefined {
  if (text === '') return undefined
  hideSecret(text)
  const bytes = Buffer.from(text, /^[0-9a-f]{64}$/i.test(text) ? 'hex' : 'base64')
  if (bytes.length !== PEPPER_BYTES)
    throw new Error(`SLUICE_PEPPER must be ${PEPPER_BYTES} bytes in base64 or hexadecimal: openssl rand -base64 32`)
  return { bytes, from: 'SLUICE_PEPPER' }
}

function storedPepper(setting: string | undefined): Pepper | undefined {
  const text = setting?.split(' ')[1]
  return text === undefined ? undefined : { bytes: Buffer.from(text, 'base64'), from: 'the pepper in the database' }
}

function readPepper(file: string): Pepper | undefined {
  try {
    return { bytes: readFileSync(file), from: file }
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    if (code === 'ENOENT') return undefined
    throw new Error(`cannot read ${file} (${message}); the user of Sluice must be able to`, { cause: error })
  }
}

/** Written under another name and then linked, so that two processes that start at once get the same pepper. */
function createPepper(file: string): Pepper {
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
  return { bytes: readFileSync(file), from: file }
}
