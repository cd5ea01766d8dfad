import { afterAll, afterEach, beforeAll, expect, test } from 'bun:test'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createConnection, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expectBookRight } from '../audit.ts'
import { LATE_COMPILERS, program } from '../program.ts'
import { runs } from '../runs.ts'
import { until } from '../transport/raw-server.ts'
import { ask } from './asking.ts'
import { gatedConfig, gatedProvider, type Gated } from './gated.ts'
import { storeIn } from '../stores.ts'

/** A server that takes over from another one on its folder and port, while clients go on. */

const cleanUp: (() => unknown)[] = []
afterEach(async () => {
  for (const step of cleanUp.splice(0).reverse()) await step()
})

let provider: Gated
beforeAll(() => {
  provider = gatedProvider()
})
afterAll(() => provider.stop())

const KEY = 'sk-ai-v1-chosen_by_the_operator'

function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-replace-'))
  cleanUp.push(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

/** A port that was free a moment ago. */
async function freePort(): Promise<number> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as { port: number }
  await new Promise((resolve) => server.close(resolve))
  return port
}

type Server = { child: Bun.Subprocess<'ignore', 'pipe', 'pipe'>; url: string; output: () => string }

async function serve(folder: string, port: number, ...more: string[]): Promise<Server> {
  const server = await begin(folder, port, ...more)
  await server.listens
  return server
}

type Starting = Server & { listens: Promise<void> }

async function begin(folder: string, port: number, ...more: string[]): Promise<Starting> {
  const config = join(folder, 'sluice.yaml')
  await Bun.write(config, gatedConfig({ up: provider }))
  const child = Bun.spawn([program(), 'serve', '--config', config, '--data', folder, '--port', String(port), ...more], {
    env: { PATH: process.env.PATH ?? '', OLLAMA_HOST: 'http://127.0.0.1:9', SLUICE_KEY: KEY, ...LATE_COMPILERS },
    stdin: 'ignore',
    stdout: 'pipe',
    stderr: 'pipe',
  })
  cleanUp.push(() => child.kill('SIGKILL'))
  let output = ''
  const { promise: listens, resolve } = Promise.withResolvers<void>()
  const read = [child.stdout, child.stderr].map(async (stream) => {
    for await (const bytes of stream) {
      output += Buffer.from(bytes).toString()
      if (/^listening on /m.test(output)) resolve()
    }
  })
  const ended = Promise.all(read).then(() => {
    if (!/^listening on /m.test(output)) throw new Error(output)
  })
  return { child, url: `http://127.0.0.1:${port}`, output: () => output, listens: Promise.race([listens, ended]) }
}

const askAt = (url: string, model: string, stream: boolean): Promise<Response> =>
  ask({ url, key: KEY, protocol: 'chat.completions', model, stream, limit: 10 })

/** One request on a connection of its own; the status line, or what went wrong. */
const exchange = (port: number): Promise<string> =>
  new Promise((resolve) => {
    const body = JSON.stringify({ model: 'sandbox/chat', messages: [{ role: 'user', content: 'hi' }] })
    let received = ''
    const socket = createConnection({ host: '127.0.0.1', port }, () =>
      socket.write(
        `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${KEY}\r\n` +
          `content-length: ${body.length}\r\nconnection: close\r\n\r\n${body}`,
      ),
    )
    socket.on('data', (bytes) => (received += String(bytes)))
    socket.on('error', (error) => resolve(received === '' ? error.message : `${error.message} after ${received}`))
    socket.on('close', () => resolve(received.split('\r\n')[0] || 'closed'))
  })

/** The same; a connection that the old server had not taken yet when its socket closed is reset, and made again. */
const patientExchange = async (port: number): Promise<string> => {
  const answer = await exchange(port)
  return answer === 'read ECONNRESET' ? exchange(port) : answer
}

/** For so long nothing changes: a server that was replaced passes requests on for 2 s before it ends. */
const CALM_MS = 1_500
/** Between two requests of a client meanwhile. */
const PAUSE_MS = 20

test.if(process.platform === 'linux')(
  'no request is refused while servers replace one another, and each is recorded once',
  async () => {
    const [folder, port] = [newFolder(), await freePort()]
    let current = await serve(folder, port)
    const { url } = current
    const answers: string[] = []
    let isDone = false
    let calmUntil = 0
    // Half of the clients keep their connections, the others open one for each request.
    const clients = Array.from({ length: 8 }, async (_, client) => {
      while (!isDone) {
        if (performance.now() < calmUntil) await Bun.sleep(PAUSE_MS)
        answers.push(
          client % 2 === 0
            ? await patientExchange(port)
            : await askAt(url, 'sandbox/chat', client % 4 === 1).then(
                async (response) => (await response.text(), `HTTP/1.1 ${response.status} OK`),
                (error: unknown) => String(error),
              ),
        )
      }
    })
    for (let replaced = 0; replaced < runs(2, 10); replaced++) {
      const [before, asked] = [current, answers.length]
      current = await serve(folder, port, '--replace')
      calmUntil = performance.now() + CALM_MS
      expect(await before.child.exited).toBe(0)
      while (answers.length <= asked + 100) await Bun.sleep(5)
    }
    isDone = true
    await Promise.all(clients)
    expect(answers.filter((answer) => answer !== 'HTTP/1.1 200 OK')).toEqual([])
    current.child.kill('SIGTERM')
    expect(await current.child.exited).toBe(0)
    const store = await storeIn(folder)
    cleanUp.push(() => store.close())
    const records = await store.ledger.generations(undefined, 1_000_000)
    expect([records.length, new Set(records.map(({ ending }) => ending))]).toEqual([
      answers.length,
      new Set(['completed']),
    ])
    await expectBookRight(folder)
  },
  120_000,
)

test.if(process.platform === 'linux')(
  'a stream of the replaced server goes on to its end, and requests meanwhile wait for it',
  async () => {
    const [folder, port] = [newFolder(), await freePort()]
    const first = await serve(folder, port)
    provider.shut()
    const stream = await askAt(first.url, 'up/chat.completions', true)
    const second = serve(folder, port, '--replace')
    await until(() => first.output().includes('waiting for 1 request'))
    let answered = 0
    const waiting = [1, 2, 3, 4].map(() => exchange(port).finally(() => answered++))
    await Bun.sleep(50)
    expect(answered).toBe(0)
    provider.open()
    expect(await stream.text()).toEndWith('data: [DONE]\n\n')
    expect(await Promise.all(waiting)).toEqual(waiting.map(() => 'HTTP/1.1 200 OK'))
    expect(await first.child.exited).toBe(0)
    const { child } = await second
    child.kill('SIGTERM')
    expect(await child.exited).toBe(0)
    await expectBookRight(folder)
  },
  60_000,
)

/** Asks until it is answered: what the system gave to the process that was killed is reset. */
async function answerAt(port: number): Promise<string> {
  let answer = await exchange(port)
  while (/ECONNRESET|closed/.test(answer)) answer = await exchange(port)
  return answer
}

/** Kills a server that takes over, and expects that the other one serves, and can be replaced later. */
async function expectGoesOn(folder: string, port: number, first: Server, second: Starting): Promise<void> {
  second.listens.catch(() => {})
  second.child.kill('SIGKILL')
  // A request that is forwarded to a process that ends is refused, with a time to try again.
  await second.child.exited
  const answers = [1, 2, 3].map(() => answerAt(port))
  provider.open()
  expect(await Promise.all(answers)).toEqual(answers.map(() => 'HTTP/1.1 200 OK'))
  expect(first.output()).toContain('ended before it served: this one goes on')
  const third = await serve(folder, port, '--replace')
  expect(await first.child.exited).toBe(0)
  expect(await answerAt(port)).toBe('HTTP/1.1 200 OK')
  third.child.kill('SIGTERM')
  expect(await third.child.exited).toBe(0)
  await expectBookRight(folder)
}

test.if(process.platform === 'linux')(
  'a server goes on if the one that takes over is killed while streams end',
  async () => {
    const [folder, port] = [newFolder(), await freePort()]
    const first = await serve(folder, port)
    provider.shut()
    const stream = await askAt(first.url, 'up/chat.completions', true)
    const second = await begin(folder, port, '--replace')
    await until(() => first.output().includes('waiting for 1 request'))
    await expectGoesOn(folder, port, first, second)
    expect(await stream.text()).toEndWith('data: [DONE]\n\n')
  },
  60_000,
)

test.if(process.platform === 'linux')(
  'a server goes on if the one that takes over is killed when it could open the folder',
  async () => {
    const [folder, port] = [newFolder(), await freePort()]
    const first = await serve(folder, port)
    provider.shut()
    const stream = await askAt(first.url, 'up/chat.completions', true)
    const second = await begin(folder, port, '--replace')
    await until(() => first.output().includes('waiting for 1 request'))
    second.child.kill('SIGSTOP')
    provider.open()
    expect(await stream.text()).toEndWith('data: [DONE]\n\n')
    // The first server has given up the folder once its name is gone.
    await until(() => readFileSync(join(folder, 'server.pid'), 'utf8').trim() === '')
    await expectGoesOn(folder, port, first, second)
  },
  60_000,
)

test('--replace without a running server is an ordinary start, beside which another is refused', async () => {
  const [folder, port] = [newFolder(), await freePort()]
  const { child } = await serve(folder, port, '--replace')
  await expect(serve(newFolder(), port)).rejects.toThrow(`port ${port} of 127.0.0.1 is in use by another program`)
  await expect(serve(folder, await freePort())).rejects.toThrow('is in use by another Sluice')
  child.kill('SIGTERM')
  expect(await child.exited).toBe(0)
}, 30_000)
