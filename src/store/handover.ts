import { renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { listen, type Listening, type ListenOptions } from '../http/serve.ts'
import { serverIn } from './server-address.ts'
import { isLocked, isRunning, processName, runningServer } from './sqlite/lock.ts'

/**
 * A server that takes over from the one on its data folder. It accepts connections before the other one stops to, and
 * its requests wait until it has the folder. The other one passes on what still arrives on its own connections, and
 * goes on itself where the new one ends before it serves.
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

/** The successor that the file names: its process, and its address for forwarded requests. */
const named = (folder: string): ReturnType<typeof serverIn> => serverIn(fileIn(folder))

/** A hand-over as the server sees it that is replaced. */
export class Handover {
  readonly #folder: string
  #url: string | undefined

  private constructor(folder: string) {
    this.#folder = folder
  }

  /** Undefined where no server takes over from this one. */
  static on(folder: string): Handover | undefined {
    const handover = new Handover(folder)
    return handover.url === undefined ? undefined : handover
  }

  /** The successor's address for requests; undefined where it ended before it had opened the folder. */
  get url(): string | undefined {
    const successor = named(this.#folder)
    if (successor !== undefined) this.#url = isRunning(successor.owner) ? successor.url : undefined
    return this.#url
  }

  /** Waits until the successor has opened the folder, or has ended. False where this server has to go on. */
  async succeeded(): Promise<boolean> {
    while (named(this.#folder) !== undefined && this.url !== undefined) await Bun.sleep(RETRY_MS)
    return this.#url !== undefined
  }
}

/** Removes the file, unless it names another server, which takes over from this one already. */
export function clearSuccessor(folder: string): void {
  const owner = named(folder)?.owner
  if (owner === undefined || owner === processName() || !isRunning(owner)) rmSync(fileIn(folder), { force: true })
}

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
      writeFileSync(`${file}.new`, `${processName()} ${forwarded.url}\n`, { mode: 0o600 })
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
