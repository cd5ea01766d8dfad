import { Database } from 'bun:sqlite'
import {
  closeSync,
  existsSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  writeSync,
} from 'node:fs'
import { join } from 'node:path'

const LOCK_FILE = 'lock.sqlite'
const PID_FILE = 'server.pid'
/** The longest wait of a starting server for one that is still stopping. */
const WAIT_MS = 3000
/** The longest wait for a process that has given up its lock to be gone. */
const END_MS = 1000

/**
 * Locks a data folder for one server. The lock is an open exclusive transaction on a file of its own: the operating
 * system releases it when the process ends, so that a `kill -9` leaves nothing to clean up. `server.pid` names the
 * process, also for the case that the locked file was removed. Where both were, it is found by what it has open.
 * Fails with an Error that names the process which has the lock.
 */
export function lockFolder(folder: string): { release(): void } {
  const beside = serverWithoutFiles(folder)
  if (beside !== undefined) throw inUse(folder, beside)
  const lock = new Database(join(folder, LOCK_FILE))
  // The pid is in another file: opening and closing the locked file in this process would release a POSIX lock.
  const pidFile = join(folder, PID_FILE)
  try {
    lock.run(`PRAGMA busy_timeout = ${WAIT_MS}`)
    // Not WAL: only a rollback journal makes an exclusive transaction exclude others before anything is written.
    lock.run('PRAGMA journal_mode = DELETE')
    lock.run('BEGIN EXCLUSIVE')
    refuseBeside(folder)
  } catch (error) {
    lock.close()
    if ((error as { code?: string }).code?.startsWith('SQLITE_BUSY') !== true) throw error
    throw inUse(folder, readOwner(pidFile).pid)
  }
  writeOwner(pidFile, processName())
  return {
    release() {
      try {
        writeOwner(pidFile, '')
      } catch {
        // The folder was removed, for example. A name that stays there is that of a process that has ended.
      } finally {
        lock.close()
      }
    },
  }
}

/** Fails where the process that is named as the server still runs: the file with its lock was removed. */
function refuseBeside(folder: string): void {
  // A process that ends gives up its files a moment before it is gone.
  const giveUpAt = performance.now() + END_MS
  while (runningServer(folder) !== undefined && performance.now() < giveUpAt) Bun.sleepSync(10)
  const pid = runningServer(folder)
  if (pid !== undefined) throw inUse(folder, String(pid))
}

/** The process that has the lock of a folder open after its removal. Only a database in use lets one look for it. */
function serverWithoutFiles(folder: string): string | undefined {
  if (existsSync(join(folder, LOCK_FILE)) || !existsSync(join(folder, 'sluice.sqlite-wal'))) return undefined
  const removed = `${join(realpathSync(folder), LOCK_FILE)} (deleted)`
  return namesIn('/proc').find((pid) => {
    const descriptors = /^\d+$/.test(pid) && pid !== String(process.pid) ? `/proc/${pid}/fd` : undefined
    return (
      descriptors !== undefined && namesIn(descriptors).some((name) => targetOf(join(descriptors, name)) === removed)
    )
  })
}

/** Empty where the system does not show it. */
const namesIn = (folder: string): string[] => orElse(() => readdirSync(folder), [])
const targetOf = (link: string): string => orElse(() => readlinkSync(link), '')

function orElse<T>(read: () => T, otherwise: T): T {
  try {
    return read()
  } catch {
    return otherwise
  }
}

/** The process of another server that runs on a folder, as far as the system shows it. */
export function runningServer(folder: string): number | undefined {
  const { pid, startedAt } = readOwner(join(folder, PID_FILE))
  return pid !== String(process.pid) && isRunning(`${pid} ${startedAt}`) ? Number(pid) : undefined
}

/** True where another process has locked the folder. Not for a folder that this process has locked. */
export function isLocked(folder: string): boolean {
  const lock = new Database(join(folder, LOCK_FILE))
  try {
    lock.run('BEGIN EXCLUSIVE')
    return false
  } catch {
    return true
  } finally {
    lock.close()
  }
}

const inUse = (folder: string, pid: string): Error =>
  new Error(
    `the data folder ${folder} is in use by another Sluice (process ${pid}); ` +
      'stop that one, or set another folder with --data',
  )

/** Names this process, also after its number was given to another one. */
export const processName = (): string => `${process.pid} ${startOf('self')}`

/** True while the process of this name runs. */
export function isRunning(name: string): boolean {
  const [pid = '', startedAt = ''] = name.split(' ')
  return startedAt !== '' && startOf(pid) === startedAt
}

/** The time at which a running process started, in ticks since the system did; empty where it is not known. */
function startOf(pid: string): string {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    // The program's name is in parentheses and may contain anything. The start is the 20th field after it.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    return isEnded(fields[0]) ? '' : (fields[19] ?? '')
  } catch {
    return ''
  }
}

const isEnded = (state: string | undefined): boolean => state === 'Z' || state === 'X'

function readOwner(pidFile: string): { pid: string; startedAt: string } {
  try {
    const [pid = '', startedAt = ''] = readFileSync(pidFile, 'utf8').trim().split(' ')
    return { pid, startedAt }
  } catch {
    return { pid: 'unknown', startedAt: '' }
  }
}

/** Characters of the file, always the same, so that it can be written on a full disk. */
const OWNER_LENGTH = 40

function writeOwner(pidFile: string, owner: string): void {
  closeSync(openSync(pidFile, 'a', 0o600))
  const descriptor = openSync(pidFile, 'r+')
  writeSync(descriptor, `${owner.padEnd(OWNER_LENGTH)}\n`, 0)
  closeSync(descriptor)
}
