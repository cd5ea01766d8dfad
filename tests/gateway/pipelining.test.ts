import { afterAll, beforeAll, expect, test } from 'bun:test'
import { startGatewayProcess, type GatewayProcess } from '../server.ts'
import { rawClient, requestHead, until } from '../transport/raw-server.ts'
import { gatedConfig, gatedProvider, type Gated } from './gated.ts'

/** Requests that a client sends on one connection before it has the response to the one before. */

let provider: Gated
let gateway: GatewayProcess
beforeAll(async () => {
  provider = gatedProvider()
  gateway = await startGatewayProcess({ config: gatedConfig({ up: provider }) })
})
afterAll(async () => {
  await gateway?.stop()
  await provider.stop()
})

function postOf(model: string): string {
  const body = JSON.stringify({ model, max_tokens: 10, messages: [{ role: 'user', content: 'hi' }] })
  const headers = [`authorization: Bearer ${gateway.key}`, `content-length: ${body.length}`]
  return requestHead('POST /v1/chat/completions', ...headers) + body
}

/** The lines of the log about generations of this model. */
const linesOf = (model: string): string[] =>
  gateway
    .output()
    .stderr.split('\n')
    .filter((line) => line.includes(` ${model} `))

const recordsOf = async (): Promise<number> => {
  const answer = await fetch(`${gateway.url}/v1/management/requests`, {
    headers: { authorization: `Bearer ${gateway.createdKeys.management}` },
  })
  return ((await answer.json()) as { data: unknown[] }).data.length
}

test('a request behind one to a model is not made, and the first is recorded as left by its client', async () => {
  provider.shut()
  const client = await rawClient(Number(new URL(gateway.url).port))
  client.write(postOf('up/chat.completions'))
  await until(() => provider.begun === 1)
  client.write(postOf('up/messages') + postOf('up/messages'))
  await until(() => client.closed())
  expect(client.text()).toBe('')
  provider.open()
  await until(() => linesOf('up/chat.completions').length > 0)
  expect(linesOf('up/chat.completions')).toEqual([expect.stringContaining('client-left')])
  expect([provider.begun, await recordsOf()]).toEqual([1, 1])
})

test('a request behind one that was answered at once is served', async () => {
  provider.open()
  const client = await rawClient(Number(new URL(gateway.url).port))
  client.write(requestHead('GET /livez') + postOf('up/messages'))
  await until(() => client.text().split('HTTP/1.1 200').length === 3)
  client.close()
})
