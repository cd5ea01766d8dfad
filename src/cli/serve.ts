import { readFileSync } from 'node:fs'
import type { Running } from '../app.ts'
import { loadConfig, type Config } from '../config/load.ts'
import { shownUrl } from '../config/store-settings.ts'
import { log } from '../log/log.ts'
import { UsageError, type Given } from './command.ts'
import { buildConsole } from './console-build.ts'
import { asWorker, reportServing, Workers } from './workers.ts'

const SANDBOX = { host: '127.0.0.1', port: 4311 }
/** One Ctrl-C can arrive three times within this time: from the terminal, from npm and from the launcher. */
const SAME_SIGNAL_MS = 1000
/** Interval of checks that the npm which started this server is still running. */
const PARENT_CHECK_MS = 500

export async function serve(given: Given): Promise<void> {
  const config = configOf(given)
  refuseExampleKey(config)
  if (given.on('no-console')) config.console.enabled = false
  // An unhandled rejection concerns one request. It must not end the process and thereby all others.
  process.on('unhandledRejection', (error) => log.error('unhandled rejection', error))
  if (given.on('replace') && config.store.postgres !== undefined)
    throw new Error('--replace hands over the folder of SQLite; over PostgreSQL, servers run beside each other')
  const worker = asWorker(config)
  if (config.workers > 1 && worker === undefined) await untilSignal(Workers.start(config))
  else await untilSignal(serveAlone(worker ?? config, given))
  if (config.console.enabled && worker === undefined) buildConsole()
}

async function serveAlone(config: Config, given: Given): Promise<Stoppable> {
  const { start } = await import('../app.ts')
  const begin = async (replaces: boolean): Promise<Running> => {
    const running = await start(config, replaces)
    // A server that starts again has the same port.
    config.listen.port = Number(new URL(running.url).port)
    if (config.worker !== undefined) reportServing(running.url, config.listen.port)
    return running
  }
  return keepRunning(begin, given.on('replace'))
}

/** A server that starts again when other processes have declared it dead: a machine that slept, for example. */
async function keepRunning(start: (replaces: boolean) => Promise<Running>, replaces: boolean): Promise<Stoppable> {
  let running = await start(replaces)
  let isStopping = false
  const follow = async (): Promise<void> => {
    await running.fenced
    if (isStopping) return
    log.error('Other processes have taken over from this one, which did not report for too long. It starts again.')
    await running.stop(0).catch((error: unknown) => log.warn(String(error)))
    running = await start(false)
    void follow().catch(endAtOnce)
  }
  void follow().catch(endAtOnce)
  return {
    stop() {
      isStopping = true
      return running.stop()
    },
    reload: () => running.reload(),
  }
}

function endAtOnce(error: unknown): void {
  log.error('the server could not start again', error)
  process.exit(1)
}

export async function sandbox(given: Given): Promise<void> {
  const port = given.text('port') ?? String(SANDBOX.port)
  if (!/^\d{1,5}$/.test(port) || Number(port) > 65535)
    throw new UsageError('--port must be a whole number from 0 to 65535')
  const { serveSandbox } = await import('../providers/sandbox/server.ts')
  const server = Promise.try(serveSandbox, { host: given.text('host') ?? SANDBOX.host, port: Number(port) })
  await untilSignal(
    server.then((started) => {
      console.log(`listening on ${started.url}`)
      return started
    }),
  )
}

export async function checkConfig(given: Given): Promise<void> {
  const config = configOf(given)
  refuseExampleKey(config)
  const { file, listen, data, providers, models, keys } = config
  const { postgres } = config.store
  const store = postgres === undefined ? null : shownUrl(postgres.url)
  if (given.on('json'))
    return console.log(
      JSON.stringify({
        file: file ?? null,
        providers: providers.size,
        models: models.size,
        keys: keys.length,
        listen,
        data,
        store,
      }),
    )
  const counts = [counted(providers.size, 'provider'), counted(models.size, 'model'), counted(keys.length, 'key')].join(
    ', ',
  )
  console.log(
    `${file === undefined ? 'no configuration file, using defaults' : `${file} is valid: ${counts}`}\n` +
      `listen on ${listen.host} port ${listen.port}, data in ${data}${store === null ? '' : ` and ${store}`}`,
  )
}

const counted = (count: number, what: string): string => `${count} ${what}${count === 1 ? '' : 's'}`

/** The key in sluice.example.yaml, which opens every server that was started with a copy of it. */
const EXAMPLE_KEY = 'sk-example-change-me'

function refuseExampleKey({ file, keys }: Config): void {
  const index = keys.findIndex(({ key }) => key === EXAMPLE_KEY)
  if (index >= 0)
    throw new Error(
      `${file}: keys[${index}].key is the public one of sluice.example.yaml; ` +
        'set SLUICE_FIXED_KEY to a key of your own, or remove keys from the file',
    )
}

export const configOf = (given: Given): Config => {
  const options = {
    file: given.text('config'),
    data: given.text('data'),
    host: given.text('host'),
    port: given.text('port'),
  }
  return loadConfig(Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)), process.env)
}

/** Signals that a terminal, a shell or a service manager ends a program with. SIGHUP may ask for something else. */
const SIGNALS = ['SIGTERM', 'SIGINT', 'SIGQUIT', 'SIGUSR1', 'SIGUSR2'] as const

/** `stop` gives a server that goes on, if one does. `reload` reads the configuration file again. */
type Stoppable = { stop(): Promise<Stoppable | undefined | void>; reload?(): Promise<void> }

/**
 * Stops the server on a signal, and handles signals before it has started, too. Fails if the server does not start.
 */
async function untilSignal(starting: Promise<Stoppable>): Promise<void> {
  let running = starting
  let first: number | undefined
  const stop = async (): Promise<void> => {
    if (first !== undefined) {
      if (performance.now() - first <= SAME_SIGNAL_MS) return
      log.error('ended at once by a second signal; requests in flight were cut')
      process.exit(1)
    }
    first = performance.now()
    try {
      const next = await (await running).stop()
      if (next === undefined) process.exit(0)
      running = Promise.resolve(next)
      first = undefined
    } catch (error) {
      log.error(error instanceof Error ? error.message : String(error))
      process.exit(1)
    }
  }
  // In a terminal SIGHUP says that it was closed. Elsewhere operators expect it to have the file read again.
  const hangUp = async (): Promise<void> => {
    const server = hasTerminal() || first !== undefined ? undefined : await running
    return server?.reload === undefined ? stop() : server.reload()
  }
  for (const signal of SIGNALS) process.on(signal, stop)
  // `nohup` starts a program that goes on when its terminal is closed.
  if (!ignoresHangUp()) process.on('SIGHUP', hangUp)
  // A terminal that was closed takes no more output.
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {})
  // The launcher has the other end of the channel. If it was killed, nothing else could stop this server.
  process.on('disconnect', stop)
  // On SIGTERM, npm ends the shell between it and this server, which passes no signal on. npm may also be killed.
  if (process.env.npm_lifecycle_event !== undefined) whenNpmEnds(stop)
  await starting
}

const hasTerminal = (): boolean => [process.stdin, process.stdout, process.stderr].some(({ isTTY }) => isTTY)

/** True where this process was started with SIGHUP ignored, as far as the system shows it. */
function ignoresHangUp(): boolean {
  try {
    const [, mask = '0'] = /^SigIgn:\s*([0-9a-f]+)$/m.exec(readFileSync('/proc/self/status', 'utf8')) ?? []
    return (BigInt(`0x${mask}`) & 1n) === 1n
  } catch {
    return false
  }
}

function whenNpmEnds(stop: () => Promise<void>): void {
  // Between npm and the server is a shell, and the launcher where it could not replace itself with the server.
  const generations = process.send === undefined ? 2 : 3
  const before = ancestors(generations)
  const timer = setInterval(() => {
    if (ancestors(generations) === before) return
    clearInterval(timer)
    void stop()
  }, PARENT_CHECK_MS).unref()
}

/** Process ids of the parent, of its parent, and so on as far as the system shows them. */
function ancestors(generations: number): string {
  const ids = [process.ppid]
  while (ids.length < generations) {
    try {
      const stat = readFileSync(`/proc/${ids.at(-1)}/stat`, 'utf8')
      // The program's name is in parentheses and may contain anything. State and parent follow it.
      ids.push(Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]))
    } catch {
      break
    }
  }
  return ids.join(' ')
}
