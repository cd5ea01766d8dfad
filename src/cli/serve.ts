import { loadConfig, type Config } from '../config.ts'
import { UsageError, type Given } from './command.ts'

const SANDBOX = { host: '127.0.0.1', port: 4311 }
/** One Ctrl-C arrives up to three times: from the terminal, from npm and from the launcher. */
const SAME_SIGNAL_MS = 1000

export async function serve(given: Given): Promise<void> {
  const config = configOf(given)
  // A rejection that nobody waited for concerns one request; it must not take the others down with the process.
  process.on('unhandledRejection', (error) => console.error('unhandled rejection:', error))
  const { start } = await import('../app.ts')
  stopOnSignal(await start(config))
}

export async function sandbox(given: Given): Promise<void> {
  const port = given.text('port') ?? String(SANDBOX.port)
  if (!/^\d{1,5}$/.test(port) || Number(port) > 65535) throw new UsageError('--port must be a whole number from 0 to 65535')
  const { serveSandbox } = await import('../providers/sandbox/server.ts')
  const server = await serveSandbox({ host: given.text('host') ?? SANDBOX.host, port: Number(port) })
  console.log(`listening on ${server.url}`)
  stopOnSignal(server)
}

export async function checkConfig(given: Given): Promise<void> {
  const config = configOf(given)
  const counts = [`${config.providers.size} providers`, `${config.models.size} models`, `${config.keys.length} keys`].join(', ')
  console.log(`${config.file === undefined ? 'no configuration file, defaults are used' : `${config.file} is good: it names ${counts}`}\nlisten on ${config.listen.host} port ${config.listen.port}, data in ${config.data}`)
}

export const configOf = (given: Given): Config => {
  const options = { file: given.text('config'), data: given.text('data'), host: given.text('host'), port: given.text('port') }
  return loadConfig(Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)), process.env)
}

function stopOnSignal(server: { stop(): unknown }): void {
  let first: number | undefined
  const stop = async (): Promise<void> => {
    if (first !== undefined) {
      if (performance.now() - first > SAME_SIGNAL_MS) process.exit(1)
      return
    }
    first = performance.now()
    try {
      await server.stop()
      process.exit(0)
    } catch (error) {
      console.error(`sluice: ${error instanceof Error ? error.message : String(error)}`)
      process.exit(1)
    }
  }
  process.on('SIGTERM', stop)
  process.on('SIGINT', stop)
  // The launcher holds the other end: when it was killed outright, nobody is left who could stop this server.
  process.on('disconnect', stop)
}
