import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { listen, type Listening, type ListenOptions } from '../http/serve.ts'
import { isLocked, runningServer } from './sqlite/lock.ts'

/**
 * A server that takes over from the one on its data folder. It accepts connections before the other one stops to, and
 * its requests wait until it has the folder. The other one passes on what still arrives on its own connections.
 */

const RETRY_MS = 20
/** Time for a server to record what it ended, after its drain. */
const CLOSE_MS = 60_000

type Successor = {
  server: Listening
  /** Ends the other server, and waits until that has given up the folder. */
  openFolder(): Promise<void>
  /** Ends with the other process what serves that one only. */
  opened(): void
}

/** The file in the data folder that names the successor: its process and its address for the predecessor. */
const fileIn = (folder: string): string => join(folder, 'successor')

/** The address for forwarded requests of a server that takes over from this one; undefined where none does. */
export function successorOf(folder: string): string | undefined {
  try {
    const [pid, url] = readFileSync(fileIn(folder), 'utf8').trim().split(' ')
    process.kill(Number(pid), 0)
    return url
  } catch {
    return undefined
  }
}

/** Removes the file: the hand-over has ended, or its successor did before it began. */
export const clearSuccessor = (folder: string): void => rmSync(fileIn(folder), { force: true })

/**
 * Begins to take over from the server that runs on a folder; undefined where none does, or the system does not show it.
 * `drainMs`: the time that the other one takes to drain.
 */
export function takeOver(folder: string, options: ListenOptions, drainMs: number): Successor | undefined {
  const pid = runningServer(folder)
  if (pid === undefined) return undefined
  const server = listen({ ...options, shared: true })
  const forwarded = listen({ host: '127.0.0.1', port: 0, fetch: options.fetch })
  return {
    server,
    async openFolder() {
      const file = fileIn(folder)
      writeFileSync(`${file}.new`, `${process.pid} ${forwarded.url}\n`, { mode: 0o600 })
      renameSync(`${file}.new`, file)
      process.kill(pid, 'SIGTERM')
      const giveUpAt = performance.now() + drainMs + CLOSE_MS
      while (runningServer(folder) === pid || isLocked(folder)) {
        if (performance.now() > giveUpAt) throw new Error(`the running server (process ${pid}) does not stop`)
        await Bun.sleep(RETRY_MS)
      }
    },
    opened: () => whenEnded(pid, () => void forwarded.stop(0)),
  }
}

const CHECK_MS = 1_000

function whenEnded(pid: number, then: () => void): void {
  const timer = setInterval(() => {
    try {
      process.kill(pid, 0)
    } catch {
      clearInterval(timer)
      then()
    }
  }, CHECK_MS).unref()
}
