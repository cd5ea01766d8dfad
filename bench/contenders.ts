import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Subprocess } from 'bun'
import { startPostgres } from '../tests/postgres/server.ts'
import { descendantsOf } from './process.ts'

/** A running contender. `others`: its processes beside `pid`. */
export type Running = {
  pid: number
  others: number[]
  port: number
  startMs: number
  headers: Record<string, string>
  stop(): Promise<void>
}

/** A proxy between the load generator and the upstream. `translates`: it serves messages from a chat upstream. */
export type Contender = {
  name: string
  translates: boolean
  start(upstreamPort: number): Promise<Running>
  /** Starts it as its users do, if that is more than `start`. */
  startAsUser?(upstreamPort: number): Promise<Running>
}

const HERE = import.meta.dir
const PROJECT = join(HERE, '..')

type Child = Subprocess<'ignore', 'pipe', 'inherit'>

/** Starts a program and waits for the output line with its port. Throws if it exits or prints none in 15 s. */
export const startListening = async (
  command: string[],
  env: Record<string, string> = {},
): Promise<{ child: Child; port: number; startMs: number }> => {
  const startedAt = performance.now()
  const child = Bun.spawn(command, {
    stdin: 'ignore',
    stdout: 'pipe',
    stderr: 'inherit',
    env: { ...process.env, ...env },
  })
  const timeout = setTimeout(() => child.kill(), 15_000)
  const decoder = new TextDecoder()
  let text = ''
  const reader = child.stdout.getReader()
  for (;;) {
    const { done, value } = await reader.read()
    if (done) throw new Error(`${command.join(' ')} did not start: ${text}`)
    text += decoder.decode(value, { stream: true })
    const line = /listening on (?:https?:\/\/\S*:)?(\d+)\/?\s/.exec(text)
    if (line === null) continue
    clearTimeout(timeout)
    // The rest of the output is discarded, otherwise the pipe would fill.
    void (async () => {
      while (!(await reader.read()).done);
    })().catch(() => undefined)
    return { child, port: Number(line[1]), startMs: performance.now() - startedAt }
  }
}

const stopChild = async (child: Subprocess): Promise<void> => {
  child.kill()
  await child.exited
}

const scriptContender = (name: string, script: string): Contender => ({
  name,
  translates: false,
  async start(upstreamPort) {
    const { child, port, startMs } = await startListening(
      [process.execPath, join(HERE, script), String(upstreamPort)],
      // Bun's default limit is 256 concurrent outgoing requests; this is its maximum.
      { BUN_CONFIG_MAX_HTTP_REQUESTS: '65535' },
    )
    return { pid: child.pid, others: [], port, startMs, headers: {}, stop: () => stopChild(child) }
  },
})

const freePort = (): number => {
  const server = Bun.listen({ hostname: '127.0.0.1', port: 0, socket: { data() {} } })
  const { port } = server
  server.stop(true)
  return port
}

const nginxConfig = (directory: string, port: number, upstreamPort: number): string => `
daemon off; master_process off; pid ${directory}/nginx.pid; error_log ${directory}/error.log;
worker_rlimit_nofile 16384;
events { worker_connections 8192; }
http {
  access_log off; keepalive_requests 100000000; keepalive_timeout 600s; client_body_buffer_size 64m;
  client_max_body_size 0;
  client_body_temp_path ${directory}/body; proxy_temp_path ${directory}/proxy;
  fastcgi_temp_path ${directory}/fastcgi; uwsgi_temp_path ${directory}/uwsgi; scgi_temp_path ${directory}/scgi;
  upstream provider { server 127.0.0.1:${upstreamPort}; keepalive 256; keepalive_requests 100000000; }
  server {
    listen 127.0.0.1:${port};
    location / {
      proxy_pass http://provider; proxy_http_version 1.1; proxy_set_header Connection "";
      proxy_buffering off; proxy_read_timeout 600s;
    }
  }
}
`

const accepts = async (port: number): Promise<boolean> => {
  try {
    ;(await Bun.connect({ hostname: '127.0.0.1', port, socket: { data() {} } })).terminate()
    return true
  } catch {
    return false
  }
}

const nginx: Contender = {
  name: 'nginx',
  translates: false,
  async start(upstreamPort) {
    const program = Bun.which('nginx') ?? '/usr/sbin/nginx'
    const directory = mkdtempSync(join(tmpdir(), 'bench-nginx-'))
    const port = freePort()
    const config = join(directory, 'nginx.conf')
    writeFileSync(config, nginxConfig(directory, port, upstreamPort))
    const startedAt = performance.now()
    const child = Bun.spawn([program, '-c', config, '-e', join(directory, 'error.log')], {
      stdin: 'ignore',
      stdout: 'ignore',
      stderr: 'ignore',
    })
    while (!(await accepts(port))) {
      if (child.exitCode !== null || performance.now() - startedAt > 10_000)
        throw new Error(
          `nginx did not start: ${await Bun.file(join(directory, 'error.log'))
            .text()
            .catch(() => '')}`,
        )
      await Bun.sleep(1)
    }
    const startMs = performance.now() - startedAt
    const stop = async () => {
      await stopChild(child)
      rmSync(directory, { recursive: true, force: true })
    }
    return { pid: child.pid, others: [], port, startMs, headers: {}, stop }
  },
}

const KEY = 'sk-ai-v1-bench000000000000000000'

/** Sluice from a checkout. `settings`: further lines of its configuration. */
const sluiceContender = (name: string, project: string, settings = ''): Contender => {
  const starting = (commandOf: (project: string) => string[]) => async (upstreamPort: number) => {
    const directory = mkdtempSync(join(tmpdir(), 'bench-sluice-'))
    const running = await startSluice(directory, upstreamPort, commandOf(project), settings)
    const stop = async () => {
      await running.stop()
      rmSync(directory, { recursive: true, force: true })
    }
    return { ...running, stop }
  }
  return { name, translates: true, start: starting(serverOf), startAsUser: starting(npmStartOf) }
}

/** The same over a PostgreSQL of its own, which flushes commits to the disk. */
const onPostgres = (name: string): Contender => ({
  name,
  translates: true,
  async start(upstreamPort) {
    const server = await startPostgres([])
    try {
      const running = await sluiceContender(name, PROJECT, `store: ${server.url}\n`).start(upstreamPort)
      const stop = async () => {
        await running.stop()
        server.stop()
      }
      return { ...running, stop }
    } catch (error) {
      server.stop()
      throw error
    }
  },
})

const serverOf = (project: string): string[] => [process.execPath, join(project, 'src', 'main.ts'), 'serve']
const npmStartOf = (project: string): string[] => ['npm', 'start', '--prefix', project, '--']

/** Sluice with its data in this directory, which is not deleted. npm itself is not counted as a part of it. */
export const startSluice = async (
  directory: string,
  upstreamPort: number,
  command = serverOf(PROJECT),
  settings = '',
): Promise<Running> => {
  const config = join(directory, 'sluice.yaml')
  writeFileSync(config, sluiceConfig(upstreamPort, settings))
  const options = ['--config', config, '--data', join(directory, 'data'), '--port', '0']
  const { child, port, startMs } = await startListening([...command, ...options], { SLUICE_KEY: KEY })
  const [pid = child.pid, ...others] = command[0] === 'npm' ? descendantsOf(child.pid) : []
  const stop = async () => {
    // npm does not pass a signal on.
    for (const one of [pid, ...others]) process.kill(one, 'SIGTERM')
    await child.exited
  }
  return { pid, others, port, startMs, headers: { authorization: `Bearer ${KEY}` }, stop }
}

/**
 * Every request is metered and billed: a price, a hold, a record. The only provider has the chat protocol, so messages
 * clients are translated and chat clients passed through.
 */
const sluiceConfig = (upstreamPort: number, settings: string): string => `
${settings}limits: { requestsPerMinute: 1000000 }
${settings.startsWith('log:') ? '' : 'log: { requests: errors }'}
billing: { startingCredit: 1000000, delay: 0s }
providers:
  bench:
    protocol: chat.completions
    baseUrl: http://127.0.0.1:${upstreamPort}/v1
    auth: none
models:
  bench/m: { endpoints: [{ provider: bench, model: m }], price: { prompt: 0.1, completion: 0.4 } }
`

/**
 * The contenders in table order. `absent`: messages about missing ones, so that a short table is not mistaken.
 * `before`: another checkout of Sluice with its dependencies installed, to compare two versions.
 */
export const contenders = (before?: string): { present: Contender[]; absent: string[] } => {
  const present: Contender[] = []
  const absent: string[] = []
  if (Bun.which('nginx') !== null || existsSync('/usr/sbin/nginx')) present.push(nginx)
  else absent.push('nginx is not installed: skipped, so there are no ratios')
  present.push(
    scriptContender('Bun fetch proxy', 'fetch-proxy.ts'),
    scriptContender('HTTP module only', 'http-module-proxy.ts'),
  )
  if (before !== undefined) present.push(sluiceContender('Sluice before', before))
  present.push(
    sluiceContender('Sluice', PROJECT),
    sluiceContender('Sluice (process)', PROJECT, 'store: { durability: process }\n'),
    onPostgres('Sluice (PostgreSQL)'),
  )
  return { present, absent }
}
