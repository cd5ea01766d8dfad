import { afterEach, expect, test } from 'bun:test'
import { startGateway, type Gateway } from '../server.ts'
import { plain } from '../transport/call-kit.ts'
import { rawServer, type RawServer } from '../transport/raw-server.ts'

/** Counts the timers that fire among those that are set while it is installed. */
class TimerCounts {
  fired: string[] = []
  readonly #real = { setTimeout: globalThis.setTimeout, setInterval: globalThis.setInterval }

  install(): void {
    for (const name of ['setTimeout', 'setInterval'] as const) {
      const set = this.#real[name] as (run: () => void, ms?: number) => Timer
      globalThis[name] = ((run: () => void, ms?: number) =>
        set(() => {
          this.fired.push(`${name} ${ms}`)
          run()
        }, ms)) as never
    }
  }

  remove(): void {
    Object.assign(globalThis, this.#real)
  }
}

const counts = new TimerCounts()
let gateway: Gateway
let upstream: RawServer
afterEach(async () => {
  counts.remove()
  await gateway.stop()
  upstream.stop()
})

test('at rest, only the watch for writes of other processes fires', async () => {
  const response = JSON.stringify({
    id: 'c',
    object: 'chat.completion',
    created: 1,
    model: 'm',
    choices: [{ index: 0, message: { role: 'assistant', content: 'Hello' }, finish_reason: 'stop' }],
    usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
  })
  upstream = rawServer((socket) => void socket.write(plain(response, 'content-type: application/json\r\n')))
  counts.install()
  gateway = await startGateway({
    config: `providers: { up: { protocol: chat.completions, baseUrl: "${upstream.url}/v1", auth: none } }\n`,
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
  // A generation may have been open when the last sweep was set.
  await Bun.sleep(500)
  counts.fired = []
  await Bun.sleep(3_000)
  expect(new Set(counts.fired)).toEqual(new Set(['setInterval 1000']))
  expect(counts.fired.length).toBeWithin(2, 5)
}, 10_000)
