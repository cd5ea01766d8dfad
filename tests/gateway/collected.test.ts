import { expect, test } from 'bun:test'
import { edenGC, fullGC, heapStats } from 'bun:jsc'
import { startGateway } from '../server.ts'

const CONNECTIONS = 16
const REQUESTS = 480
const RESPONSE = {
  id: 'chatcmpl-1',
  object: 'chat.completion',
  created: 1,
  model: 'm',
  choices: [{ index: 0, message: { role: 'assistant', content: 'Hello' }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 },
}
const TURN = { role: 'user', content: 'A turn of a conversation that grows. '.repeat(30) }

test('requests that have ended and bodies of earlier turns do not survive small collections', async () => {
  const provider = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    fetch: async (request) => (await request.arrayBuffer()) && Response.json(RESPONSE),
  })
  const gateway = await startGateway({
    config: `limits: { requestsPerMinute: 100000 }
providers: { one: { protocol: chat.completions, baseUrl: ${provider.url}v1, auth: none } }
`,
  })
  const conversations = Array.from({ length: CONNECTIONS }, (_, at) => [
    { role: 'user', content: `Conversation ${at}` },
  ])
  const request = async (messages: object[]): Promise<void> => {
    messages.push(TURN)
    const response = await fetch(`${gateway.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${gateway.key}` },
      body: JSON.stringify({ model: 'one/m', messages }),
    })
    expect(response.status).toBe(200)
    await response.text()
  }
  /** Always as many at a time: a registry that is never empty is the hard case. */
  const requests = async (count: number): Promise<void> => {
    let left = count
    await Promise.all(
      conversations.map(async (messages) => {
        while (left-- > 0) await request(messages)
      }),
    )
  }
  const present = (type: string): number => heapStats().objectTypeCounts[type] ?? 0
  await requests(16 * CONNECTIONS)
  fullGC()
  const before = { signals: present('AbortSignal'), buffers: present('ArrayBuffer') }
  for (let round = 0; round < 3; round++) {
    await requests(REQUESTS / 3)
    edenGC()
  }
  // As many as are in flight at each of the collections may survive it, and as many bodies are remembered.
  expect(present('AbortSignal') - before.signals).toBeLessThan(REQUESTS / 3)
  expect(present('ArrayBuffer') - before.buffers).toBeLessThan(REQUESTS / 2)
  await gateway.stop()
  await provider.stop(true)
}, 30_000)
