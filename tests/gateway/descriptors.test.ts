import { afterAll, beforeAll, expect, test } from 'bun:test'
import { readdirSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { startGatewayProcess, type GatewayProcess } from '../server.ts'

/** A server with 256 descriptors under connections that send nothing. */

let gateway: GatewayProcess
const sockets: Socket[] = []
beforeAll(async () => {
  const group = { command: ['sh', '-c', 'ulimit -n 256 && exec "$@"', 'sh'] }
  gateway = await startGatewayProcess({ group })
})
afterAll(async () => {
  for (const socket of sockets) socket.destroy()
  await gateway?.stop()
})

const port = (): number => Number(new URL(gateway.url).port)

async function openSilent(count: number): Promise<void> {
  const opened = Array.from({ length: count }, () => {
    const socket = connect(port(), '127.0.0.1')
    sockets.push(socket)
    return new Promise((resolve) => socket.once('connect', resolve).on('error', resolve))
  })
  await Promise.all(opened)
}

test.skipIf(process.platform !== 'linux')(
  'questions for life and streams under way are answered although connections use up all descriptors',
  async () => {
    const stream = await fetch(`${gateway.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${gateway.key}` },
      body: JSON.stringify({
        model: 'sandbox/chat',
        stream: true,
        messages: [{ role: 'user', content: '[[pace: 100ms]] [[length: 200]]' }],
      }),
    })
    for (let round = 0; round < 2; round++) {
      await openSilent(400)
      // The system hands connections without a request over after a second.
      while (readdirSync(`/proc/${gateway.pid}/fd`).length < 240) await Bun.sleep(5)
      // The runtime closes such connections after twelve seconds.
      const signal = AbortSignal.timeout(7_000)
      expect((await fetch(`${gateway.url}/livez`, { signal, headers: { connection: 'close' } })).status).toBe(200)
    }
    expect(await stream.text()).toContain('[DONE]')
  },
  60_000,
)
