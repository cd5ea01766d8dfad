import { afterEach, expect, test } from 'bun:test'
import { join } from 'node:path'
import { type GatewayProcess, startGatewayProcess } from '../server.ts'
import { plain } from '../transport/call-kit.ts'
import { rawServer, type RawServer } from '../transport/raw-server.ts'

const WINDOW_MS = 3_000
/** Deadlines of the requests before may still pass in the first windows. */
const WINDOWS = 10

let gateway: GatewayProcess
let upstream: RawServer
afterEach(async () => {
  await gateway.stop()
  upstream.stop()
})

/** The timers that fire in one window. A process of its own: other tests leave deadlines in the one they share. */
async function firedInWindow(): Promise<string[]> {
  const before = gateway.output().stderr.length
  await Bun.sleep(WINDOW_MS)
  const { stderr } = gateway.output()
  return stderr.slice(before).match(/(?<=^timer ).+$/gm) ?? []
}

test('at rest, only the watches for writes of other processes and for surplus connections fire', async () => {
  const response = JSON.stringify({
    id: 'c',
    object: 'chat.completion',
    created: 1,
    model: 'm',
    choices: [{ index: 0, message: { role: 'assistant', content: 'Hello' }, finish_reason: 'stop' }],
    usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
  })
  upstream = rawServer((socket) => void socket.write(plain(response, 'content-type: application/json\r\n')))
  gateway = await startGatewayProcess({
    config: `providers: { up: { protocol: chat.completions, baseUrl: "${upstream.url}/v1", auth: none } }\n`,
    env: { BUN_OPTIONS: `--preload=${join(import.meta.dir, 'timer-lines.ts')}` },
  })
  const call = (model: string, stream: boolean): Promise<Response> =>
    fetch(`${gateway.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${gateway.key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model, stream, messages: [{ role: 'user', content: 'Hello' }] }),
    })
  for (const [model, stream] of [
    ['up/m', false],
    ['sandbox/chat', false],
    ['sandbox/chat', true],
  ] as const) {
    const answer = await call(model, stream)
    expect([answer.status, (await answer.text()).length > 0]).toEqual([200, true])
  }
  const watches = ['setInterval 1000', 'setTimeout 1000']
  let fired: string[] = []
  for (let window = 0; window < WINDOWS; window++) {
    fired = await firedInWindow()
    if (fired.length > 0 && fired.every((timer) => watches.includes(timer))) break
  }
  expect(new Set(fired)).toEqual(new Set(watches))
  expect(fired.length).toBeLessThanOrEqual(9)
}, 60_000)
