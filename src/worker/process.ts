import { type Message, MessageReader, piecesOf } from './messages.ts'
import { commandOf } from './modules.ts'

/** Bytes written in one turn of the event loop. */
const SLICE_BYTES = 256 * 1024

/** Variables that the runtime needs; keys of providers stay out. */
const INHERITED = ['PATH', 'HOME', 'TMPDIR', 'LANG', 'TZ'] as const

type Events = { onMessage(message: Message): void; onExit(): void }

/** Starts a process whose standard input ends when this one ends, however that happens. It then ends, too. */
export function startProcess(entry: URL): Bun.Subprocess<'pipe', 'pipe', 'inherit'> {
  const child = Bun.spawn(commandOf(entry), {
    env: Object.fromEntries(INHERITED.map((name) => [name, process.env[name]])),
    stdin: 'pipe',
    stdout: 'pipe',
    stderr: 'inherit',
  })
  // An idle worker must not keep the process alive.
  child.unref()
  return child
}

/** One process that does jobs. */
export class WorkerProcess {
  readonly #child: ReturnType<typeof startProcess>

  constructor(entry: URL, events: Events) {
    this.#child = startProcess(entry)
    void this.#read(events)
  }

  async #read({ onMessage, onExit }: Events): Promise<void> {
    const reader = new MessageReader(onMessage)
    try {
      for await (const chunk of this.#child.stdout) reader.push(chunk)
    } catch {
      // Its end is what matters.
    }
    onExit()
  }

  /** Writes a message, slice by slice. A process that ended meanwhile is reported by `onExit`. */
  async send(value: unknown, bytes: readonly Uint8Array[]): Promise<void> {
    const { stdin } = this.#child
    try {
      for (const piece of piecesOf(value, bytes))
        for (let at = 0; at < piece.length; at += SLICE_BYTES)
          // Both fail when the process ends meanwhile.
          await Promise.all([stdin.write(piece.subarray(at, at + SLICE_BYTES)), stdin.flush()])
    } catch {
      this.kill()
    }
  }

  kill(): void {
    this.#child.kill('SIGKILL')
  }
}
