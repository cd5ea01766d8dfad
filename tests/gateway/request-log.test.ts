import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { closeSync, mkdtempSync, openSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { listening } from '../cli/listening.ts'
import { program } from '../program.ts'
import { startGatewayProcess, type GatewayProcess } from '../server.ts'
import { until } from '../transport/raw-server.ts'
import { ask, PROTOCOLS } from './asking.ts'

/** The log of a server in a process of its own: what it says of requests, and what it must never say. */

/** Each occurs in one place of the requests or answers below, and nowhere else. */
const CANARY = {
  key: 'sk-ai-v1-canarykey0123456789abcdef0123456789abcdef',
  wrongKey: 'sk-ai-v1-canarywrongkey0123456789abcdef',
  providerKey: 'canary-provider-key-0123456789',
  prompt: 'canaryprompt',
  answer: 'canaryanswer',
  file: 'canaryfilename',
  header: 'canaryheader',
  path: 'canarypath',
  query: 'canaryquery',
  tool: 'canarytool',
  providerError: 'canaryprovidererror',
} as const

const answer = {
  id: 'c',
  object: 'chat.completion',
  created: 1,
  model: 'm',
  choices: [{ index: 0, message: { role: 'assistant', content: CANARY.answer }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 7, completion_tokens: 5, total_tokens: 12 },
}

/** A provider that answers, fails, or breaks, as the prompt says. */
async function respond(request: Request): Promise<Response> {
  const text = await request.text()
  if (text.includes('please fail')) {
    const message = `${CANARY.providerError} ${CANARY.providerKey}`
    return Response.json({ error: { message, type: 'x', code: message } }, { status: 500 })
  }
  if (text.includes('please break')) return new Response(`{"choices": [${CANARY.answer}`)
  if (!text.includes('"stream":true')) return Response.json(answer)
  const chunk = { ...answer, object: 'chat.completion.chunk' }
  const [delta, end] = [
    { ...chunk, choices: [{ index: 0, delta: { content: CANARY.answer }, finish_reason: null }], usage: null },
    { ...chunk, choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] },
  ]
  const frames = [delta, ...(text.includes('please stop') ? [] : [end])].map(
    (one) => `data: ${JSON.stringify(one)}\n\n`,
  )
  return new Response(frames.join(''), { headers: { 'content-type': 'text/event-stream' } })
}

type Line = Record<string, unknown>

let provider: Bun.Server<undefined>
let gateway: GatewayProcess
beforeAll(async () => {
  provider = Bun.serve({ port: 0, hostname: '127.0.0.1', development: false, fetch: respond })
  gateway = await startGatewayProcess({ key: CANARY.key, config: config('json') })
})
afterAll(async () => {
  await gateway?.stop()
  await provider?.stop(true)
})

const config = (format: string): string => `
log: { format: ${format} }
limits: { requestsPerMinute: 1000000 }
billing: { unpriced: free }
providers:
  acme:
    protocol: chat.completions
    baseUrl: http://127.0.0.1:${provider.port}/v1
    apiKey: ${CANARY.providerKey}
models:
  acme/large:
    endpoints: [{ provider: acme, model: large-2026 }]
    price: { prompt: 1, completion: 2 }
`

/** The lines of requests; each other line is parsed, too. */
const requestsIn = (stderr: string): Line[] =>
  stderr
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Line)
    .filter(({ message }) => message === 'request')

/** The line of the request with this response. */
async function lineOf(response: Response): Promise<Line> {
  const id = response.headers.get('x-request-id')
  const find = (): Line | undefined => requestsIn(whole(gateway)).find(({ request }) => request === id)
  await until(() => find() !== undefined)
  return find()!
}

/** The output up to its last complete line. */
const whole = ({ output }: GatewayProcess): string => output().stderr.slice(0, output().stderr.lastIndexOf('\n') + 1)

const send = (model: string, stream = false, text: string = CANARY.prompt, more = {}): Promise<Response> =>
  ask({ url: gateway.url, key: CANARY.key, protocol: 'messages', model, stream, text, more })

describe('one line for each request', () => {
  test.each([false, true])('a generation has its tokens, cost, endpoint and outcome, streamed: %p', async (stream) => {
    const response = await send('acme/large', stream)
    await response.text()
    const line = await lineOf(response)
    expect(line).toEqual({
      time: expect.any(String),
      level: 'info',
      message: 'request',
      request: response.headers.get('x-request-id'),
      route: 'messages',
      status: 200,
      ms: expect.any(Number),
      key: 'first',
      model: 'acme/large',
      generation: response.headers.get('x-generation-id'),
      protocol: 'messages',
      stream,
      outcome: 'completed',
      inputTokens: 7,
      cachedTokens: 0,
      outputTokens: 5,
      reasoningTokens: 0,
      cost: 0.000017,
      provider: 'acme',
      providerModel: 'large-2026',
      firstMs: expect.any(Number),
    })
  })

  test('a failed attempt has its code, and a lost setting its code', async () => {
    const failed = await send('acme/large', false, 'please fail')
    expect(await lineOf(failed)).toMatchObject({
      level: 'error',
      status: failed.status,
      outcome: 'failed',
      attempts: expect.arrayContaining([
        { provider: 'acme', error: 'upstream_error', milliseconds: expect.any(Number) },
      ]),
    })
    const lossy = await send('acme/large', false, CANARY.prompt, { top_k: 3 })
    await lossy.text()
    expect((await lineOf(lossy)).losses).toEqual([expect.stringMatching(/^[a-z_]+$/)])
  })

  test('a stream that breaks off has its line at the end, with the outcome and the code of its error', async () => {
    const response = await send('acme/large', true, 'please stop')
    await response.text()
    expect(await lineOf(response)).toMatchObject({
      level: 'error',
      status: 200,
      outcome: 'failed',
      stream: true,
      error: 'upstream_error',
      attempts: [{ provider: 'acme', error: 'upstream_error', milliseconds: expect.any(Number) }],
    })
  })

  test('a client that leaves a stream has one line, once the provider has ended', async () => {
    const left = new AbortController()
    const { url } = gateway
    const response = await ask({
      url,
      key: CANARY.key,
      protocol: 'chat.completions',
      model: 'sandbox/chat',
      stream: true,
      text: '[[pace: 100ms]] [[reply: one two three four]]',
      signal: left.signal,
    })
    await response.body!.getReader().read()
    left.abort()
    expect(await lineOf(response)).toMatchObject({ level: 'warn', status: 200, outcome: 'client-left' })
    const id = response.headers.get('x-request-id')
    expect(requestsIn(whole(gateway)).filter(({ request }) => request === id).length).toBe(1)
  })

  test('refusals and other routes have their route, status and code, and probes have no line', async () => {
    const { url } = gateway
    const headers = { authorization: `Bearer ${CANARY.key}` }
    const unknown = await send('acme/nothing')
    expect(await lineOf(unknown)).toMatchObject({
      level: 'warn',
      status: 404,
      route: 'messages',
      model: 'acme/nothing',
      error: 'model_not_found',
    })
    for (const path of ['livez', 'metrics', 'console', 'console/assets/none.js']) await fetch(`${url}/${path}`)
    for (const path of ['/v1/models', '/v1/files', '/v1/predictions']) {
      const listed = await fetch(url + path, { headers })
      await listed.text()
      expect(listed.headers.get('request-id')).toBe(listed.headers.get('x-request-id'))
      expect(await lineOf(listed)).toMatchObject({ level: 'info', status: 200, key: 'first', ms: expect.any(Number) })
    }
    const lost = await fetch(`${url}/v1/v1/${CANARY.path}/messages?key=${CANARY.query}`, { headers })
    expect(await lineOf(lost)).toMatchObject({ status: 404, route: 'GET /v1/v1/*/messages', error: 'not_found' })
    expect(requestsIn(whole(gateway)).filter(({ route }) => /livez|metrics|console/.test(String(route)))).toEqual([])
  })

  test('no key, prompt, answer, file name, header, path or error of a provider is ever in the log', async () => {
    const other = await startGatewayProcess({ key: CANARY.key, config: config('text') })
    try {
      for (const server of [gateway, other]) {
        const { url, key } = server
        const headers = { authorization: `Bearer ${key}`, 'x-custom': CANARY.header, cookie: CANARY.header }
        const texts = [CANARY.prompt, `please fail ${CANARY.prompt}`, `please break ${CANARY.prompt}`]
        for (const protocol of PROTOCOLS) {
          for (const stream of [false, true]) {
            for (const text of texts) {
              await (await ask({ url, key, protocol, model: 'acme/large', stream, text, headers })).text()
              await (await ask({ url, key, protocol, model: 'sandbox/chat', stream, text, headers })).text()
            }
            const wrong = { url, key: CANARY.wrongKey, protocol, model: 'acme/large', stream, text: CANARY.prompt }
            await (await ask(wrong)).text()
            const more = { tools: [{ [CANARY.tool]: CANARY.prompt }], messages: CANARY.prompt, input: 5 }
            await (await ask({ ...wrong, key, more })).text()
          }
        }
        for (const path of ['/v1/chat/completions', '/v1/responses', '/v1/messages', '/v1/images/generations'])
          for (const body of [CANARY.prompt, `{"model":"acme/large","messages":[${CANARY.prompt}]}`, '{"a":1'])
            await (await fetch(url + path, { method: 'POST', headers, body })).text()
        const image = { model: 'sandbox/image', prompt: CANARY.prompt }
        const prediction = { model: 'sandbox/chat', input: { prompt: CANARY.prompt } }
        for (const [path, body] of [
          ['/v1/images/generations', image],
          ['/v1/predictions', prediction],
        ] as const)
          await (await fetch(url + path, { method: 'POST', headers, body: JSON.stringify(body) })).text()
        const form = new FormData()
        form.set('file', new File([CANARY.prompt], `${CANARY.file}.txt`))
        const upload = await fetch(`${url}/v1/files`, { method: 'POST', headers, body: form })
        const { id } = (await upload.json()) as { id: string }
        await (await fetch(`${url}/v1/files/${id}/content`, { headers })).text()
        for (const path of [`/v1/files/${CANARY.path}`, `/v1/outputs/${CANARY.path}`, `/v1/streams/${CANARY.path}`])
          await (await fetch(`${url}${path}?key=${CANARY.query}`, { headers })).text()
        server.kill('SIGTERM')
        expect(await server.exited).toBe(0)
        const { stderr } = server.output()
        expect(stderr.length).toBeGreaterThan(5_000)
        for (const secret of Object.values(CANARY)) expect([secret, stderr.includes(secret)]).toEqual([secret, false])
      }
    } finally {
      await other.stop()
    }
  }, 60_000)
})

test('`requests: errors` has lines of refused and of unfinished requests only, and `none` has none', async () => {
  for (const [requests, expected] of [
    ['errors', ['warn 404', 'error 200 timed-out']],
    ['none', []],
  ] as const) {
    const server = await startGatewayProcess({
      config: `
log: { format: json, requests: ${requests}, level: error }
billing: { unpriced: free }
timeouts: { idle: 50ms }
`,
    })
    try {
      const { url, key } = server
      for (const model of ['sandbox/chat', 'sandbox/unknown'])
        await (await ask({ url, key, protocol: 'messages', model, stream: false })).text()
      const text = '[[hang-after: 1]]'
      await (await ask({ url, key, protocol: 'messages', model: 'sandbox/chat', stream: true, text })).text()
      server.kill('SIGTERM')
      await server.exited
      const { stderr } = server.output()
      const lines = requestsIn(stderr).map(({ level, status, outcome }) => [level, status, outcome].join(' ').trim())
      expect(lines).toEqual([...expected])
      expect(stderr.split('\n').length - 1).toBe(expected.length)
    } finally {
      await server.stop()
    }
  }
})

const hasFifo = process.platform === 'linux' && Bun.which('mkfifo') !== null

test.skipIf(!hasFifo)(
  'a log that is not read loses lines and holds up no request',
  async () => {
    const folder = mkdtempSync(join(tmpdir(), 'sluice-log-'))
    const fifo = join(folder, 'fifo')
    Bun.spawnSync(['mkfifo', fifo])
    writeFileSync(join(folder, 'sluice.yaml'), 'limits: { requestsPerMinute: 1000000 }')
    // Open for both, so that the server finds a reader.
    const reader = openSync(fifo, 'r+')
    const key = `sk-ai-v1-test${'0123456789abcdef'.repeat(3)}`
    const child = Bun.spawn(
      ['sh', '-c', 'exec "$0" "$@" 2> "$FIFO"', program(), 'serve', '--port', '0', '--data', folder],
      {
        cwd: folder,
        env: {
          PATH: process.env.PATH ?? '',
          HOME: folder,
          OLLAMA_HOST: 'http://127.0.0.1:9',
          SLUICE_KEY: key,
          FIFO: fifo,
        },
        stdin: 'ignore',
        stdout: 'pipe',
        stderr: 'pipe',
      },
    )
    try {
      const { url } = await listening(child)
      const model = `sandbox/${'x'.repeat(180)}`
      // 64 KiB are in the pipe, and 1 MiB waits.
      for (let sent = 0; sent < 4000; sent += 50)
        await Promise.all(
          Array.from({ length: 50 }, async () => {
            const response = await ask({ url, key, protocol: 'messages', model, stream: false })
            await response.text()
            expect(response.status).toBe(404)
          }),
        )
      const late = Bun.spawn(['cat', fifo], { stdout: 'pipe' })
      let text = ''
      for await (const piece of late.stdout) {
        text += Buffer.from(piece).toString()
        if (text.includes('lines of the log were dropped')) break
      }
      late.kill()
      expect(Number(/(\d+) lines of the log were dropped/.exec(text)![1])).toBeGreaterThan(100)
      child.kill('SIGTERM')
      expect(await child.exited).toBe(0)
    } finally {
      child.kill('SIGKILL')
      await child.exited
      closeSync(reader)
      rmSync(folder, { recursive: true })
    }
  },
  60_000,
)
