/** Heavy bodies: the event loop and the memory of the server while it works on them. */
import { join } from 'node:path'
import { residentMegabytes } from '../bench/process.ts'
import { modelOf, providersAt } from './requests.ts'
import { Server, startSandbox } from './servers.ts'
import type { Finding } from './table.ts'

const MEGABYTE = 2 ** 20
const LIVEZ_MS = 50

const user = (content: unknown): object => ({ role: 'user', content })
const many = <T>(length: number, make: (index: number) => T): T[] => Array.from({ length }, (_, index) => make(index))
const text = (bytes: number): string => 'All water runs to the sea. '.repeat(Math.ceil(bytes / 27)).slice(0, bytes)

type Heavy = { name: string; path: string; body: () => object }

const chat = (name: string, body: () => object, model = modelOf('messages')): Heavy => ({
  name,
  path: '/v1/chat/completions',
  body: () => ({ model, max_tokens: 10, ...body() }),
})

/** Bodies of at most 32 MB; many are refused for the number of their parts, which must not take long either. */
const HEAVY: Heavy[] = [
  chat('30 MB of text, translated', () => ({ messages: [user(text(30 * MEGABYTE))] })),
  chat('30 MB of text, passed through', () => ({ messages: [user(text(30 * MEGABYTE))] }), modelOf('chat.completions')),
  chat('a million parts', () => ({ messages: [user(many(1_000_000, () => ({ type: 'text', text: 'x' })))] })),
  chat('18,000 parts of 1 KB', () => ({ messages: [user(many(18_000, () => ({ type: 'text', text: text(1_000) })))] })),
  chat('a million keys like integers', () => ({
    messages: [user('x')],
    metadata: Object.fromEntries(many(1_000_000, (index) => [String(index * 7), 1])),
  })),
  chat('metadata of 100,000 pairs', () => ({
    messages: [user('x')],
    metadata: Object.fromEntries(many(100_000, (index) => [`k${index}`, 'v'])),
  })),
  chat('a schema of 20,000 properties', () => ({
    messages: [user('x')],
    tools: [
      {
        type: 'function',
        function: {
          name: 'f',
          parameters: {
            type: 'object',
            properties: Object.fromEntries(
              many(20_000, (index) => [`p${index}`, { type: 'string', enum: ['a', 'b'] }]),
            ),
          },
        },
      },
    ],
  })),
  chat('6,000 tool rounds', () => ({
    messages: many(6_000, (index) => [
      {
        role: 'assistant',
        tool_calls: [{ id: `c${index}`, type: 'function', function: { name: 'f', arguments: '{}' } }],
      },
      { role: 'tool', tool_call_id: `c${index}`, content: 'ok' },
    ]).flat(),
  })),
  chat('10,000 images of 4 bytes', () => ({
    messages: [user(many(10_000, () => ({ type: 'image_url', image_url: { url: 'data:image/png;base64,iVBORw==' } })))],
  })),
  {
    name: '300,000 response items',
    path: '/v1/responses',
    body: () => ({ model: modelOf('chat.completions'), store: false, input: many(300_000, () => user('x')) }),
  },
  {
    name: '18,000 response items of 1 KB, stored',
    path: '/v1/responses',
    body: () => ({ model: modelOf('chat.completions'), input: many(18_000, () => user(text(1_000))) }),
  },
  {
    name: '30 MB echoed by the sandbox',
    path: '/v1/chat/completions',
    body: () => ({ model: 'sandbox/chat', messages: [user(`[[echo: body]]${text(30 * MEGABYTE)}`)] }),
  },
]

/** The longest wait for `/livez`, asked by another process, while each body is worked on. */
export async function proveStall(rounds: number, progress: (text: string) => void): Promise<Finding[]> {
  const sandbox = await startSandbox()
  const server = new Server(
    'billing: { startingCredit: unlimited }\nlimits: { requestsPerMinute: 1000000 }\n' + providersAt(sandbox.url),
  )
  const findings: Finding[] = []
  try {
    await server.start()
    const idle = await longestWait(server, () => Bun.sleep(1_000))
    for (const { name, path, body } of HEAVY) {
      const bytes = Buffer.from(JSON.stringify(body()))
      let [longest, status] = [0, 0]
      for (let round = 0; round < rounds; round++)
        longest = Math.max(
          longest,
          await longestWait(server, async () => {
            const response = await fetch(server.url + path, {
              method: 'POST',
              headers: { authorization: `Bearer ${server.key}`, 'content-type': 'application/json' },
              body: bytes,
            })
            status = response.status
            for await (const _ of response.body ?? []) continue
          }),
        )
      progress(
        `${name}: ${status}, longest wait ${Math.round(longest)} ms, ${Math.round(residentMegabytes(server.pid))} MB`,
      )
      findings.push({
        what: `Stall: ${name} (${(bytes.length / MEGABYTE).toFixed(1)} MB)`,
        tried: `${rounds} x, /livez every 5 ms`,
        result: `${status}; longest wait ${Math.round(longest)} ms (${Math.round(idle)} at rest)`,
        ...(longest > LIVEZ_MS + idle ? { fault: `over ${LIVEZ_MS} ms` } : {}),
      })
    }
    findings.push(await manyAtOnce(server, progress))
  } finally {
    await server.remove()
    await sandbox.stop()
  }
  return findings
}

const AT_ONCE = 100

/** Bodies of 31 MB from many clients at once: most wait or are refused, and small requests are served all the time. */
async function manyAtOnce(server: Server, progress: (text: string) => void): Promise<Finding> {
  const bytes = Buffer.from(
    JSON.stringify({ model: modelOf('messages'), max_tokens: 10, messages: [user(text(31 * MEGABYTE))] }),
  )
  const statuses = new Map<number, number>()
  let most = 0
  const watch = setInterval(() => (most = Math.max(most, residentMegabytes(server.pid))), 50)
  const longest = await longestWait(server, async () => {
    await Promise.all(
      many(AT_ONCE, async () => {
        const status = await fetch(`${server.url}/v1/chat/completions`, {
          method: 'POST',
          headers: { authorization: `Bearer ${server.key}` },
          body: bytes,
        }).then(
          async (response) => (await response.text(), response.status),
          () => 0,
        )
        statuses.set(status, (statuses.get(status) ?? 0) + 1)
      }),
    )
  })
  clearInterval(watch)
  const shown = [...statuses].map(([status, times]) => `${times} x ${status}`).join(', ')
  progress(`${AT_ONCE} bodies of 31 MB at once: ${shown}, at most ${Math.round(most)} MB`)
  return {
    what: `Memory: ${AT_ONCE} bodies of 31 MB at once`,
    tried: '1 x',
    result: `${shown}; at most ${Math.round(most)} MB resident; longest wait ${Math.round(longest)} ms`,
    ...(server.isAlive && !statuses.has(500) ? {} : { fault: server.isAlive ? 'a 500' : 'the server died' }),
  }
}

/** The longest time between two answers of `/livez` while `task` runs. */
async function longestWait(server: Server, task: () => Promise<unknown>): Promise<number> {
  const poll = Bun.spawn([process.execPath, join(import.meta.dir, '../bench/poll.ts'), String(server.port)], {
    stdin: 'pipe',
    stdout: 'pipe',
    stderr: 'inherit',
  })
  const reader = poll.stdout.getReader()
  const decoder = new TextDecoder()
  let printed = decoder.decode((await reader.read()).value)
  await task()
  void poll.stdin.end()
  for (let read = await reader.read(); !read.done; read = await reader.read()) printed += decoder.decode(read.value)
  return Number(printed.trim().split('\n').at(-1))
}
