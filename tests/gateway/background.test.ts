import { expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startGateway, type Gateway } from '../server.ts'

/** A response in the background ends long after its request was answered: it is held, metered and billed all the same. */

const OUTPUT = [{ type: 'message', id: 'msg_bg', role: 'assistant', status: 'completed', content: [{ type: 'output_text', text: 'done', annotations: [] }] }]
const USAGE = { input_tokens: 1000, input_tokens_details: { cached_tokens: 0 }, output_tokens: 500, output_tokens_details: { reasoning_tokens: 0 }, total_tokens: 1500 }

const get = async (gateway: Gateway, path: string): Promise<{ status: number; body: Record<string, never> }> => {
  const response = await fetch(gateway.url + path, { headers: { authorization: `Bearer ${gateway.key}` } })
  return { status: response.status, body: (await response.json()) as Record<string, never> }
}

test('is settled when its provider has ended it, over a kill and without its client asking again', async () => {
  let status = 'queued'
  const upstream = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: () =>
    Response.json({ id: 'resp_theirs', object: 'response', created_at: 1, status, background: true, model: 'theirs', output: status === 'completed' ? OUTPUT : [], store: true, usage: status === 'completed' ? USAGE : null }) })
  const data = mkdtempSync(join(tmpdir(), 'sluice-background-'))
  const config = `billing: { startingCredit: 1, delay: 0s }
providers:
  up: { protocol: responses, baseUrl: "http://127.0.0.1:${upstream.port}/v1" }
models:
  up/m: { endpoints: [{ provider: up, model: m }], price: { prompt: 1, completion: 10 } }
`
  let gateway = await startGateway({ config, data })
  const create = (maxOutputTokens: number): Promise<Response> => fetch(`${gateway.url}/v1/responses`, {
    method: 'POST', headers: { authorization: `Bearer ${gateway.key}` }, body: JSON.stringify({ model: 'up/m', input: 'Hello', background: true, max_output_tokens: maxOutputTokens }),
  })
  try {
    const { id } = (await (await create(90_000)).json()) as { id: string }
    expect((await get(gateway, `/v1/management/generation?id=${id}`)).status).toBe(404)
    // The hold of the first leaves no room for a second one.
    expect((await create(90_000)).status).toBe(402)
    gateway.kill('SIGKILL')
    await gateway.exited
    gateway = await startGateway({ config, data })
    expect((await create(90_000)).status).toBe(402)
    status = 'completed'
    let record = await get(gateway, `/v1/management/generation?id=${id}`)
    for (let i = 0; i < 100 && record.status === 404; i += 1) {
      await Bun.sleep(100)
      record = await get(gateway, `/v1/management/generation?id=${id}`)
    }
    expect(record.body).toMatchObject({ ending: 'completed', estimated: false, usage: 0.006, nativeTokens: { prompt_tokens: 1000, completion_tokens: 500 } })
    expect((await get(gateway, '/v1/management/payg/balance')).body).toMatchObject({ data: { total_credits: 0.994 } })
    expect((await get(gateway, `/v1/responses/${id}`)).body).toMatchObject({ status: 'completed' })
  } finally {
    await gateway.stop()
    await upstream.stop(true)
    rmSync(data, { recursive: true, force: true })
  }
}, 30_000)
