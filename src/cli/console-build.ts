import { dirname, join } from 'node:path'
import { log } from '../log/log.ts'

const LAUNCHER = join(dirname(dirname(import.meta.dir)), 'launcher/console.mjs')

/** True where the launcher or `npm start` started this server: others have not asked for packages and a build. */
const isLaunched = (env: NodeJS.ProcessEnv): boolean =>
  env.SLUICE_BUILD_CONSOLE === '1' || env.npm_lifecycle_event === 'start'

/**
 * Installs and builds the web console beside the server, at low priority and in processes of their own, which end with
 * this one. The server needs neither: until then it answers how far this is.
 */
export function buildConsole(): void {
  if (!isLaunched(process.env)) return
  const node = Bun.which('node')
  if (node === null) return log.warn('the console is not built: there is no node; npm run console builds it')
  const build = Bun.spawn([node, LAUNCHER], {
    stdio: ['ignore', 'ignore', 'pipe'],
    // With this channel the build ends when this process ends, however that happens.
    ipc: () => {},
    serialization: 'json',
    onExit: (_, code) => void report(code, build.stderr),
  })
  build.unref()
}

async function report(code: number | null, output: ReadableStream<Uint8Array>): Promise<void> {
  const message = (await new Response(output).text()).trim().replace(/^sluice: /, '')
  if (code !== 0 && message !== '') log.warn(message)
}
