import { expect, test } from 'bun:test'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { program } from '../program.ts'
import { inScene, Scene } from '../scene.ts'
import { startGatewayProcess, type GatewayProcess } from '../server.ts'
import { sqlIn } from '../stores.ts'
import { until } from '../transport/raw-server.ts'

/** Signals, and a terminal that is closed, while a response streams. */

/** They wait for streams, so they run at the same time, each with a server of its own. */
const LIMIT_MS = 60_000

class SignalScene extends Scene {
  async start(config?: string): Promise<GatewayProcess> {
    const gateway = await startGatewayProcess(config === undefined ? {} : { config })
    this.atEnd(() => gateway.stop())
    return gateway
  }

  /** The words of a command that serves from a new folder. */
  serve(): string[] {
    const folder = mkdtempSync(join(tmpdir(), 'sluice-signals-'))
    this.atEnd(() => rmSync(folder, { recursive: true, force: true }))
    return [program(), 'serve', '--port', '0', '--data', folder]
  }
}

function signalTest(name: string, run: (at: SignalScene) => Promise<void>): void {
  test.concurrent(
    name,
    inScene(() => new SignalScene(), run),
    LIMIT_MS,
  )
}

const WORDS = 'one two three four five six'

const streamOf = ({ url, key }: Pick<GatewayProcess, 'url' | 'key'>, content: string): Promise<Response> =>
  fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}` },
    body: JSON.stringify({ model: 'sandbox/chat', stream: true, messages: [{ role: 'user', content }] }),
  })
const shortStream = (gateway: Pick<GatewayProcess, 'url' | 'key'>): Promise<Response> =>
  streamOf(gateway, `[[reply: ${WORDS}]] [[chunk: 1]] [[pace: 300ms]]`)

const complete = ({ url, key }: GatewayProcess, model: string): Promise<Response> =>
  fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}` },
    body: JSON.stringify({ model, messages: [{ role: 'user', content: 'hello' }] }),
  })

for (const signal of ['SIGTERM', 'SIGINT', 'SIGQUIT', 'SIGUSR1', 'SIGUSR2'] as const)
  signalTest(`${signal} lets a stream finish, says so, and ends the server with 0`, async (at) => {
    const gateway = await at.start()
    const stream = await shortStream(gateway)
    gateway.kill(signal)
    expect(await stream.text()).toEndWith('data: [DONE]\n\n')
    expect(await gateway.exited).toBe(0)
    expect(gateway.output().stderr).toContain(
      'stopping: waiting for 1 request, at most 30 s; a second signal ends them at once\n',
    )
  })

signalTest('on SIGHUP a server without a terminal reads its file again, and a stream goes on', async (at) => {
  const gateway = await at.start('timeouts: { idle: 40s }\n')
  const file = join(gateway.data, 'test-config.yaml')
  const text = readFileSync(file, 'utf8')
  const logged = (line: string): Promise<unknown> => until(() => gateway.output().stderr.includes(line))
  const stream = await shortStream(gateway)
  const fast = 'models: { fast: { endpoints: [{ provider: sandbox, model: chat }] } }\n'
  const more = `keepAlive: 7s\nfetch: { requestUrls: true }\n${fast}`
  writeFileSync(file, text.replace('idle: 40s', 'idle: 50s, total: 2h') + more)
  gateway.kill('SIGHUP')
  await logged(
    'info  test-config.yaml is read again: changed timeouts.idle, timeouts.total, keepAlive, models.fast.endpoints; ' +
      'from the next start on fetch.requestUrls\n',
  )
  expect((await complete(gateway, 'fast')).status).toBe(200)
  gateway.kill('SIGHUP')
  // Settings that hold from the next start on still wait for it.
  await logged('info  test-config.yaml is read again: from the next start on fetch.requestUrls\n')
  writeFileSync(file, `${text}models: { fast: 7 }\nstrictly: true\n`)
  gateway.kill('SIGHUP')
  await logged('error test-config.yaml is not taken over, and what was in force stays:\n')
  expect(gateway.output().stderr).toMatch(/test-config\.yaml:\d+:\d+: models\.fast[^]*strictly/)
  expect((await complete(gateway, 'fast')).status).toBe(200)
  writeFileSync(file, text)
  expect(await stream.text()).toEndWith('data: [DONE]\n\n')
  const [line] = await sqlIn(gateway.data, "SELECT actor_name AS who FROM changes WHERE action = 'settings.reload'")
  expect(line).toEqual({ who: 'command line' })
})

signalTest('a second signal of any kind ends the server at once, and it says so', async (at) => {
  const gateway = await at.start('timeouts: { drain: 60s }\n')
  const streams = await Promise.all(
    [1, 2].map(() => streamOf(gateway, '[[reply: one two]] [[chunk: 1]] [[pace: 10s]]')),
  )
  gateway.kill('SIGTERM')
  await until(() => gateway.output().stderr.includes('waiting for 2 requests, at most 60 s'))
  // One Ctrl-C may arrive several times within a second.
  await Bun.sleep(1_100)
  gateway.kill('SIGHUP')
  expect(await gateway.exited).toBe(1)
  expect(gateway.output().stderr).toContain('error ended at once by a second signal; requests in flight were cut\n')
  await Promise.all(streams.map((stream) => stream.text().catch(() => {})))
})

const ENV = { PATH: process.env.PATH ?? '', OLLAMA_HOST: 'http://127.0.0.1:9' }

/** Waits for the lines of a start. */
async function startedIn(output: () => string): Promise<{ url: string; key: string }> {
  await until(() => /^listening on \S+\s[^]*providers:/m.test(output()))
  const [, key = ''] = /^key pay-as-you-go (\S+)/m.exec(output()) ?? []
  const [, url = ''] = /^listening on (\S+)/m.exec(output()) ?? []
  return { url, key }
}

signalTest(
  'a server whose terminal is closed lets a stream finish; it showed each key once, and no colour',
  async (at) => {
    let shown = ''
    const child = Bun.spawn(at.serve(), {
      env: { ...ENV, TERM: 'xterm-256color' },
      terminal: { data: (_, bytes) => void (shown += Buffer.from(bytes).toString()) },
    })
    at.atEnd(() => child.kill('SIGKILL'))
    const { url, key } = await startedIn(() => shown)
    expect(shown.split(key)).toHaveLength(2)
    expect(shown).not.toContain('\x1b[')
    const stream = await shortStream({ url, key })
    child.terminal!.close()
    expect(await stream.text()).toEndWith('data: [DONE]\n\n')
    expect(await child.exited).toBe(0)
  },
)

signalTest('a server that was started with nohup goes on after SIGHUP', async (at) => {
  const child = Bun.spawn(['sh', '-c', 'trap "" HUP; exec "$@"', 'sh', ...at.serve()], {
    env: ENV,
    stdin: 'ignore',
    stdout: 'pipe',
    stderr: 'pipe',
  })
  at.atEnd(() => child.kill('SIGKILL'))
  let shown = ''
  for (const stream of [child.stdout, child.stderr])
    void (async () => {
      for await (const bytes of stream) shown += Buffer.from(bytes).toString()
    })()
  const { url, key } = await startedIn(() => shown)
  child.kill('SIGHUP')
  expect(await (await shortStream({ url, key })).text()).toEndWith('data: [DONE]\n\n')
  child.kill('SIGTERM')
  expect(await child.exited).toBe(0)
})
