import { expect } from 'bun:test'
import { rmSync } from 'node:fs'
import { startGatewayProcess } from '../server.ts'
import { newPostgresFolder, once } from '../stores.ts'
import { backgroundTest, MESSAGE, PAID, USAGE } from './background-scene.ts'

/**
 * Background responses end long after the response to their request. They are reserved, metered and billed all the
 * same.
 */

backgroundTest('the error of a background response that failed shows no credential', async (at) => {
  await at.start()
  const { body } = await at.create()
  at.status = 'failed'
  const error = { code: 'server_error', message: 'Incorrect API key provided: sk-proj-0123456789abcdef' }
  at.respond = (name) => (name.startsWith('GET') ? Response.json({ ...at.theirs(), error }) : undefined)
  const shown = { ...error, message: 'Incorrect API key provided: [hidden]' }
  expect((await at.call('GET', `/v1/responses/${body.id}`)).body).toMatchObject({ status: 'failed', error: shown })
  // As it was stored, too.
  expect((await at.call('GET', `/v1/responses/${body.id}`)).body).toMatchObject({ status: 'failed', error: shown })
})

backgroundTest(
  'a background response is settled when its provider ends it, even after a kill and without polling',
  async (at) => {
    const killed = await at.startProcess()
    const { id } = (await at.create()).body
    expect((await at.recordOf(id!)).status).toBe(404)
    // The hold of the first leaves no credit for a second one.
    expect((await at.create()).status).toBe(402)
    await at.restart(killed)
    expect((await at.create()).status).toBe(402)
    at.status = 'completed'
    expect(await at.settled(id!)).toMatchObject({ ending: 'completed', ...PAID })
    expect(await at.balance()).toBe(0.994)
    expect((await at.call('GET', `/v1/responses/${id}`)).body).toMatchObject({ id, status: 'completed', model: 'up/m' })
  },
)

backgroundTest('a container that a background response made can be named again', async (at) => {
  await at.start()
  const naming = (container: string): Promise<{ status: number }> =>
    at.call('POST', '/v1/responses', {
      model: 'up/m',
      input: 'Go on',
      max_output_tokens: 10,
      tools: [{ type: 'code_interpreter', container }],
    })
  const { id } = (await at.create()).body
  expect((await naming('cntr_1')).status).toBe(404)
  const made = { type: 'code_interpreter_call', id: 'ci_1', status: 'completed', code: '', container_id: 'cntr_1' }
  at.respond = () => Response.json({ ...at.theirs(USAGE), output: [made, MESSAGE] })
  at.status = 'completed'
  expect(await at.settled(id!)).toMatchObject({ ending: 'completed' })
  expect([(await naming('cntr_1')).status, (await naming('cntr_2')).status]).toEqual([200, 404])
})

backgroundTest(
  'a deleted background response is cancelled at its provider and costs the reported usage',
  async (at) => {
    await at.start()
    const { id } = (await at.create()).body
    at.respond = (name) => {
      if (name === 'POST /resp_theirs/cancel') at.status = 'cancelled'
      return Response.json(at.theirs(USAGE))
    }
    expect((await at.call('DELETE', `/v1/responses/${id}`)).body).toMatchObject({ id, deleted: true })
    expect(at.calls).toContain('POST /resp_theirs/cancel')
    expect((await at.recordOf(id!)).body).toMatchObject({ ending: 'client-left', ...PAID })
    expect(await at.balance()).toBe(0.994)
    expect((await at.call('GET', `/v1/responses/${id}`)).status).toBe(404)
  },
)

backgroundTest('a background response cancelled without reported usage costs its input', async (at) => {
  // Its worker that counts tokens starts from bytecode.
  await at.startProcess()
  const { id } = (await at.create()).body
  at.status = 'cancelled'
  await at.call('DELETE', `/v1/responses/${id}`)
  expect((await at.recordOf(id!)).body).toMatchObject({
    ending: 'client-left',
    estimated: true,
    nativeTokens: { completion_tokens: 0 },
  })
})

backgroundTest('a failed background response costs nothing', async (at) => {
  await at.start()
  const { id } = (await at.create()).body
  at.status = 'failed'
  expect((await at.call('GET', `/v1/responses/${id}`)).body).toMatchObject({ id, status: 'failed' })
  expect((await at.recordOf(id!)).body).toMatchObject({ ending: 'failed', usage: 0 })
})

backgroundTest(
  'a response deleted while its provider is unreachable is followed until it ends, even after a kill',
  async (at) => {
    const killed = await at.startProcess()
    const { id } = (await at.create()).body
    at.respond = () => new Response('{}', { status: 503 })
    expect((await at.call('DELETE', `/v1/responses/${id}`)).status).toBe(200)
    expect((await at.call('GET', `/v1/responses/${id}`)).status).toBe(404)
    expect((await at.recordOf(id!)).status).toBe(404)
    await at.restart(killed)
    expect((await at.create()).status).toBe(402)
    at.calls = []
    at.status = 'completed'
    at.respond = (name) => (name.endsWith('/cancel') ? new Response('{}', { status: 400 }) : undefined)
    expect(await at.settled(id!)).toMatchObject({ ending: 'completed', ...PAID })
    expect(at.calls).toEqual(['POST /resp_theirs/cancel', 'GET /resp_theirs'])
    expect((await at.call('GET', `/v1/responses/${id}`)).status).toBe(404)
  },
)

backgroundTest('a response deleted while its provider is polled stays deleted', async (at) => {
  await at.start()
  const { id } = (await at.create()).body
  const [gate, reached] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  at.respond = async (name) => {
    if (name.startsWith('POST')) return new Response('{}', { status: 503 })
    reached.resolve()
    await gate.promise
    return undefined
  }
  const question = at.call('GET', `/v1/responses/${id}`)
  await reached.promise
  const deletion = at.call('DELETE', `/v1/responses/${id}`)
  while ((await at.call('GET', `/v1/responses/${id}/input_items`)).status !== 404) await Bun.sleep(5)
  at.status = 'completed'
  gate.resolve()
  expect((await question).body).toMatchObject({ status: 'completed' })
  expect((await deletion).status).toBe(200)
  expect(await at.settled(id!)).toMatchObject({ ending: 'completed', ...PAID })
  expect((await at.call('GET', `/v1/responses/${id}`)).status).toBe(404)
  expect(
    (await at.call('POST', '/v1/responses', { model: 'up/m', input: [{ type: 'item_reference', id: 'msg_bg' }] }))
      .status,
  ).toBe(404)
})

backgroundTest('a background response is cancelled if its client left before receiving its id', async (at) => {
  await at.start()
  const [gate, abort] = [Promise.withResolvers<void>(), new AbortController()]
  at.respond = async (name) => {
    if (name === 'POST ') await gate.promise
    if (name.endsWith('/cancel')) at.status = 'cancelled'
    return Response.json(at.theirs(name === 'POST ' ? null : USAGE))
  }
  const gone = fetch(`${at.gateway.url}/v1/responses`, {
    method: 'POST',
    signal: abort.signal,
    headers: { authorization: `Bearer ${at.gateway.key}` },
    body: JSON.stringify({ model: 'up/m', input: 'Hello', background: true }),
  }).catch(() => {})
  while (at.calls.length === 0) await Bun.sleep(5)
  abort.abort()
  await gone
  await Bun.sleep(100)
  gate.resolve()
  while (!at.calls.includes('POST /resp_theirs/cancel')) await Bun.sleep(20)
  while ((await at.balance()) === 1) await Bun.sleep(20)
  expect(await at.balance()).toBe(0.994)
})

backgroundTest('a background response can be followed up once it has ended', async (at) => {
  await at.start()
  const { id } = (await at.create()).body as unknown as { id: string }
  const followUp = { background: false, previous_response_id: id }
  expect(await at.create(followUp)).toMatchObject({
    status: 400,
    body: { error: { param: 'previous_response_id', message: expect.stringContaining('has not ended yet') } },
  })
  expect(at.calls.filter((name) => name === 'POST ')).toHaveLength(1)
  at.status = 'completed'
  await at.call('GET', `/v1/responses/${id}`)
  expect((await at.create(followUp)).status).toBe(200)
})

backgroundTest('a background response is refused with store: false', async (at) => {
  await at.start()
  const refused = await at.create({ store: false })
  expect([refused.status, (refused.body as { error?: { param: string } }).error?.param]).toEqual([400, 'background'])
  expect(at.calls).toEqual([])
})

backgroundTest('a background response whose client leaves its stream is followed like any other', async (at) => {
  await at.start()
  at.respond = (name) => (name === 'POST ' ? at.streaming() : undefined)
  const { id, leave } = await at.begin()
  leave()
  while ((await at.call('GET', `/v1/responses/${id}`)).status === 404) await Bun.sleep(5)
  expect((await at.call('GET', `/v1/responses/${id}`)).body).toMatchObject({ id, status: 'queued', model: 'up/m' })
  expect((await at.recordOf(id)).status).toBe(404)
  at.status = 'completed'
  expect(await at.settled(id)).toMatchObject({ ending: 'completed', streamed: true, ...PAID })
  expect((await at.call('GET', `/v1/responses/${id}`)).body).toMatchObject({ id, output: [MESSAGE] })
})

for (const isCut of [true, false])
  backgroundTest(
    `a background response that streams is cancelled, and ${isCut ? 'cut' : 'ended'} by its provider`,
    async (at) => {
      await at.start()
      at.respond = (name) => (name === 'POST ' ? at.cancellable(isCut) : undefined)
      const { id } = await at.begin()
      expect((await at.call('GET', `/v1/responses/${id}`)).body).toMatchObject({ id, status: 'queued', model: 'up/m' })
      const cancel = () => at.call('POST', `/v1/responses/${id}/cancel`)
      expect(await cancel()).toMatchObject({ status: 200, body: { id, status: 'cancelled' } })
      // A cancellation by the client is no failure of the provider.
      const { estimated: _, ...paid } = PAID
      const record = await at.settled(id)
      expect(record).toMatchObject({ streamed: true, ending: 'client-left', ...paid })
      if (!isCut) expect(JSON.stringify(record)).not.toContain('upstream_error')
      const health = await (await fetch(`${at.gateway.url}/metrics`)).text()
      expect(health).toMatch(/^sluice_attempts_total\{[^}]*provider="up"/m)
      expect(health).not.toMatch(/^sluice_attempts_total\{[^}]*upstream_error/m)
      expect(await cancel()).toMatchObject({ status: 200, body: { id, status: 'cancelled' } })
      expect((await at.call('GET', `/v1/responses/${id}`)).body).toMatchObject({ id, status: 'cancelled' })
      expect([at.calls.filter((name) => name.endsWith('/cancel')).length, await at.balance()]).toEqual([1, 0.994])
    },
  )

backgroundTest(
  'a background response deleted while it streams is cancelled at its provider and stays deleted',
  async (at) => {
    await at.start()
    at.respond = (name) => (name === 'POST ' ? at.cancellable(true) : undefined)
    const { id } = await at.begin()
    expect((await at.call('DELETE', `/v1/responses/${id}`)).body).toMatchObject({ id, deleted: true })
    expect(at.calls).toContain('POST /resp_theirs/cancel')
    expect(await at.settled(id)).toMatchObject({ ending: 'client-left', ...PAID })
    expect((await at.call('GET', `/v1/responses/${id}`)).status).toBe(404)
    expect(await at.balance()).toBe(0.994)
  },
)

backgroundTest('a background response that streams is stored once, as it ends', async (at) => {
  await at.start()
  const whole = (): Response => {
    const frames = ['response.created', 'response.completed'].map((type) => {
      at.status = type === 'response.created' ? 'in_progress' : 'completed'
      return `event: ${type}\ndata: ${JSON.stringify({ type, response: at.theirs() })}\n\n`
    })
    return new Response(frames.join(''), { headers: { 'content-type': 'text/event-stream' } })
  }
  at.respond = (name) => (name === 'POST ' ? whole() : undefined)
  const { id } = await at.begin()
  expect(await at.settled(id)).toMatchObject({ ending: 'completed', ...PAID })
  at.calls = []
  expect((await at.call('GET', `/v1/responses/${id}`)).body).toMatchObject({
    id,
    status: 'completed',
    output: [MESSAGE],
  })
  expect((await at.call('GET', `/v1/responses/${id}/input_items`)).body).toMatchObject({ data: [{ role: 'user' }] })
  expect(at.calls).toEqual([])
})

backgroundTest(
  'a background response that was streaming when the server was killed is followed after the restart',
  async (at) => {
    const killed = await at.startProcess()
    at.respond = (name) => (name === 'POST ' ? at.streaming() : undefined)
    const { id } = await at.begin()
    // A generation of this age is stored as open.
    await Bun.sleep(400)
    await at.restart(killed)
    at.status = 'completed'
    expect(await at.settled(id)).toMatchObject({ ending: 'completed', ...PAID })
  },
)

backgroundTest(
  'a response is read and deleted at a process that does not follow it, and cancelled at its provider',
  async (at) => {
    await at.start()
    const folder = newPostgresFolder()
    const own = at.gateway
    const both = [
      await startGatewayProcess({ config: at.config, data: folder }),
      await startGatewayProcess({ config: at.config, data: folder }),
    ] as const
    try {
      at.gateway = both[0]
      const { body } = await at.create()
      const id = String(body.id)
      at.gateway = both[1]
      expect((await at.call('GET', `/v1/responses/${id}`)).body).toMatchObject({ id, status: 'queued' })
      at.respond = (name) => {
        if (name === 'POST /resp_theirs/cancel') at.status = 'cancelled'
        return undefined
      }
      expect((await at.call('DELETE', `/v1/responses/${id}`)).body).toMatchObject({ id, deleted: true })
      expect(at.calls).toContain('POST /resp_theirs/cancel')
      expect((await at.call('GET', `/v1/responses/${id}`)).status).toBe(404)
      expect(await at.settled(id)).toMatchObject({ ending: 'client-left', streamed: false })
    } finally {
      at.gateway = own
      for (const one of both) await one.stop()
      rmSync(folder, { recursive: true, force: true })
    }
  },
  once,
)
