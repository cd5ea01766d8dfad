import { setTimeout as sleep } from 'node:timers/promises'
import type { Config } from '../config/load.ts'
import { machineMemory } from '../http/machine-memory.ts'
import { requireFree } from '../http/serve.ts'
import { log } from '../log/log.ts'
import { commandLine } from '../worker/modules.ts'

/** The pause before a worker that ended is started again: it doubles with each that ends soon. */
const FIRST_PAUSE_MS = 1_000
const LONGEST_PAUSE_MS = 30_000
/** A worker that ran so long did not end soon. */
const STABLE_MS = 60_000

/** The variable by which a process knows that it is a worker: its number, from 1. */
const WORKER = 'SLUICE_WORKER'

/** The report of a worker to the process that started it, once it serves. */
type Report = { url: string; port: number }

/** The configuration for this process, if it is one of several workers. */
export function asWorker(config: Config): Config | undefined {
  const number = Number(process.env[WORKER] ?? 0)
  if (config.workers === 1 || number === 0) return undefined
  const { metrics, limits, workers } = config
  const port = metrics.port === undefined || metrics.port === 0 ? metrics.port : metrics.port + number - 1
  const memoryBytes = limits.memoryBytes ?? machineMemory() / 4 / workers
  return { ...config, worker: number, metrics: { ...metrics, port }, limits: { ...limits, memoryBytes } }
}

/** Reports to the process that started this worker that it serves. */
export const reportServing = (url: string, port: number): void => void process.send?.({ url, port } satisfies Report)

/** Servers on one port, each a process of its own over the same database. One that ends is started again. */
export class Workers {
  readonly #config: Config
  readonly #processes = new Map<number, Bun.Subprocess>()
  readonly #stop = new AbortController()
  readonly #ended: Promise<void>[] = []

  private constructor(config: Config) {
    this.#config = config
  }

  /** Starts the first one, which chooses the port and prints the first keys, then the others. Fails if one does. */
  static async start(config: Config): Promise<Workers> {
    log.configure(config.log)
    if (process.platform !== 'linux')
      throw new Error('workers: only Linux divides the connections of one port among processes; use workers: 1')
    requireFree(config.listen)
    const workers = new Workers(config)
    try {
      const { url, port } = await workers.#start(1, config.listen.port)
      await Promise.all(Array.from({ length: config.workers - 1 }, (_, index) => workers.#start(index + 2, port)))
      for (const number of workers.#processes.keys()) workers.#ended.push(workers.#keep(number, port))
      console.log(`listening on ${url}`)
      return workers
    } catch (error) {
      await workers.stop()
      throw error
    }
  }

  /** Has each of them stop as on SIGTERM, and waits until they have. */
  async stop(): Promise<void> {
    this.#stop.abort()
    const running = this.#running()
    for (const process of running) process.kill('SIGTERM')
    const codes = await Promise.all(running.map(({ exited }) => exited))
    await Promise.all(this.#ended)
    const failed = codes.filter((code) => code !== 0).length
    if (failed > 0) throw new Error(`${failed} of ${running.length} workers did not end well`)
  }

  /** Has one of them read the configuration file again; the others follow the database. */
  async reload(): Promise<void> {
    this.#running()[0]?.kill('SIGHUP')
  }

  #running(): Bun.Subprocess[] {
    return [...this.#processes.values()].filter(({ exitCode, signalCode }) => (exitCode ?? signalCode) === null)
  }

  /** Starts a worker, and waits until it serves. */
  async #start(number: number, port: number): Promise<Report> {
    const { listen, data, file, console } = this.#config
    const serving = Promise.withResolvers<Report>()
    const options = ['--host', listen.host, '--port', String(port), '--data', data]
    if (file !== undefined) options.push('--config', file)
    if (!console.enabled) options.push('--no-console')
    // The channel ends them with this process, which npm may have started.
    const env = { ...process.env, [WORKER]: String(number), npm_lifecycle_event: undefined }
    const started = Bun.spawn([...commandLine(), 'serve', ...options], {
      env,
      stdio: ['ignore', 'inherit', 'inherit'],
      ipc: (report: Report) => serving.resolve(report),
    })
    this.#processes.set(number, started)
    const ended = started.exited.then((code) => {
      throw new Error(`worker ${number} ended with ${code} before it served`)
    })
    return Promise.race([serving.promise, ended])
  }

  /** Starts a worker again whenever it has ended. */
  async #keep(number: number, port: number): Promise<void> {
    let pauseMs = FIRST_PAUSE_MS
    for (;;) {
      const startedAt = performance.now()
      const code = await this.#processes.get(number)?.exited
      if (this.#stop.signal.aborted) return
      if (performance.now() - startedAt > STABLE_MS) pauseMs = FIRST_PAUSE_MS
      log.error(`worker ${number} ended with ${code}; it is started again in ${pauseMs / 1000} s`)
      await sleep(pauseMs, undefined, { signal: this.#stop.signal }).catch(() => {})
      if (this.#stop.signal.aborted) return
      pauseMs = Math.min(2 * pauseMs, LONGEST_PAUSE_MS)
      await this.#start(number, port).catch(() => {})
    }
  }
}
