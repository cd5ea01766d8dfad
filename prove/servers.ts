/** Processes under attack: Sluice itself, and the sandbox as its provider. Both listen on loopback only. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Subprocess } from 'bun'

/** The command line of Sluice. */
let sluice: readonly string[] = [process.execPath, join(import.meta.dir, '../src/main.ts')]

/** Variables of its processes. */
let environment: Record<string, string> = { PATH: process.env.PATH ?? '' }

/** Has another command run Sluice: tests start an executable, which takes less time. `env`: more variables. */
export function runWith(command: string, env: Record<string, string>): void {
  sluice = [command]
  environment = { ...environment, ...env }
}

const KEY = `sk-ai-v1-prove${'0123456789abcdef'.repeat(3)}`

type Process = { child: Subprocess<'ignore', 'pipe', 'pipe'>; port: number; printed(): string }

/** Starts a command of Sluice and waits until it listens. Throws with what it printed if it ends before. */
async function listening(command: string[], env: Record<string, string>): Promise<Process> {
  const child = Bun.spawn(command, {
    env: { ...environment, HOME: process.env.HOME ?? '', OLLAMA_HOST: 'http://127.0.0.1:9', ...env },
    stdin: 'ignore',
    stdout: 'pipe',
    stderr: 'pipe',
  })
  let text = ''
  const port = await new Promise<number>((resolve, reject) => {
    const read = async (stream: ReadableStream<Uint8Array>): Promise<void> => {
      const decoder = new TextDecoder()
      for await (const bytes of stream) {
        text += decoder.decode(bytes, { stream: true })
        const found = /listening on \S*?:(\d+)/.exec(text)?.[1]
        if (found !== undefined) resolve(Number(found))
      }
    }
    void read(child.stdout)
    void read(child.stderr)
    void child.exited.then((status) => reject(new Error(`ended with ${status} before it listened:\n${text}`)))
  })
  return { child, port, printed: () => text }
}

/** The sandbox in a process of its own. Its URL has no path. */
export async function startSandbox(): Promise<{ url: string; stop(): Promise<void> }> {
  const { child, port } = await listening([...sluice, 'sandbox', '--port', '0'], {})
  return {
    url: `http://127.0.0.1:${port}`,
    stop: async () => {
      child.kill('SIGKILL')
      await child.exited
    },
  }
}

/** One Sluice with a data folder of its own, which survives `kill`. */
export class Server {
  readonly data = mkdtempSync(join(tmpdir(), 'sluice-prove-'))
  readonly key = KEY
  readonly #config = join(this.data, 'prove.yaml')
  #process: Process | undefined
  #port = 0

  /** `config`: the text of sluice.yaml. */
  constructor(config: string) {
    writeFileSync(this.#config, config)
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}`
  }

  get port(): number {
    return this.#port
  }

  get pid(): number {
    return this.#process!.child.pid
  }

  get printed(): string {
    return this.#process!.printed()
  }

  /** True until the process ends, whatever ended it. */
  get isAlive(): boolean {
    return this.#process?.child.exitCode === null && this.#process.child.signalCode === null
  }

  /** Starts it, at the port of its first start. `prefix`: a command that runs it, such as `prlimit`. */
  async start(prefix: string[] = []): Promise<void> {
    const serve = ['serve', '--config', this.#config, '--data', this.data, '--port', String(this.#port)]
    this.#process = await listening([...prefix, ...sluice, ...serve], { SLUICE_KEY: KEY })
    this.#port = this.#process.port
  }

  async kill(signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
    this.#process!.child.kill(signal)
    await this.#process!.child.exited
  }

  /** Runs another command of Sluice on its data. Returns its output; throws with it if the command fails. */
  async sluice(...args: string[]): Promise<string> {
    const child = Bun.spawn([...sluice, ...args, '--data', this.data, '--config', this.#config], {
      env: { ...environment, SLUICE_KEY: KEY },
      stdin: 'ignore',
      stdout: 'pipe',
      stderr: 'pipe',
    })
    const [out, err] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()])
    if ((await child.exited) !== 0) throw new Error(`${args.join(' ')}:\n${out}${err}`)
    return out
  }

  async remove(): Promise<void> {
    if (this.isAlive) await this.kill()
    rmSync(this.data, { recursive: true, force: true })
  }
}
