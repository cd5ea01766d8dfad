import { afterAll, beforeAll, expect, test } from 'bun:test'
import { rmSync } from 'node:fs'
import type { RequestAnswer } from '../../src/endpoints/management/answers.ts'
import { startGatewayProcess, type GatewayProcess } from '../server.ts'
import { newPostgresFolder } from '../stores.ts'

/** The live view of several processes over one PostgreSQL. */

const CONFIG = `
store: { deadAfter: 5s }
limits: { requestsPerMinute: 1000000 }
timeouts: { clientLeft: 0s }
billing: { delay: 0s, startingCredit: 100 }
models:
  acme/large: { endpoints: [{ provider: sandbox, model: chat }], price: { prompt: 2, completion: 8 } }
`

let folder: string
let processes: GatewayProcess[] = []
beforeAll(async () => {
  folder = newPostgresFolder()
  processes = [await startGatewayProcess({ data: folder, config: CONFIG })]
  processes.push(await startGatewayProcess({ data: folder, config: CONFIG }))
}, 60_000)
afterAll(async () => {
  for (const one of processes) await one.stop()
  rmSync(folder, { recursive: true, force: true })
}, 60_000)

type Shown = { event: string; row: RequestAnswer }

/** Adds what the live view of a process shows to a list. */
async function follow({ url, createdKeys }: GatewayProcess, shown: Shown[]): Promise<() => Promise<void>> {
  const response = await fetch(`${url}/v1/management/requests/stream`, {
    headers: { authorization: `Bearer ${createdKeys.management}` },
  })
  expect(response.status).toBe(200)
  const reader = response.body!.getReader()
  let text = ''
  const decoder = new TextDecoder()
  void (async () => {
    for (let piece = await reader.read(); !piece.done; piece = await reader.read()) {
      text += decoder.decode(piece.value, { stream: true })
      for (let end = text.indexOf('\n\n'); end >= 0; end = text.indexOf('\n\n')) {
        const [, event, data] = /^event: (\w+)\ndata: (.*)$/.exec(text.slice(0, end)) ?? []
        text = text.slice(end + 2)
        if (event !== undefined) shown.push({ event, row: JSON.parse(data!) as RequestAnswer })
      }
    }
  })().catch(() => {})
  return () => reader.cancel()
}

const generate = async ({ url, key }: GatewayProcess, text: string, model = 'acme/large'): Promise<void> => {
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model, messages: [{ role: 'user', content: text }] }),
  })
  await response.text()
}

test('a page that watches one process sees the requests of all, once, as the list has them', async () => {
  const [one, other] = processes as [GatewayProcess, GatewayProcess]
  const shown: Shown[] = []
  const stop = await follow(one, shown)
  // The other process is asked for its events when somebody begins to watch.
  while (shown.length === 0) {
    await generate(other, '[[reply: first]]')
    await Bun.sleep(50)
  }
  const before = shown.length
  await generate(one, '[[reply: here]]')
  await generate(other, '[[reply: £5, ünïcode]] [[usage: in=1000 out=7]]')
  await generate(other, 'Hello', 'no/such')
  const isClosed = ({ event }: Shown): boolean => event === 'closed'
  const refusals = (): Shown[] => shown.slice(before).filter(({ event }) => event === 'refused')
  while (refusals().length === 0) await Bun.sleep(20)
  await Bun.sleep(600)
  expect(refusals().length).toBe(1)
  const rows = shown.filter(isClosed).map(({ row }) => row)
  expect(new Set(rows.map(({ id }) => id)).size).toBe(rows.length)
  const key = `Bearer ${one.createdKeys.management}`
  const listed = await fetch(`${one.url}/v1/management/requests?outcome=completed`, { headers: { authorization: key } })
  const { data } = (await listed.json()) as { data: RequestAnswer[] }
  expect(rows.map(({ cost_usd }) => cost_usd)).toContain('0.002056')
  for (const row of rows) expect(data).toContainEqual(row)
  await stop()
}, 60_000)

test('an open request is listed and found at every process, until it has ended', async () => {
  const [one, other] = processes as [GatewayProcess, GatewayProcess]
  const ask = async <T>({ url, createdKeys }: GatewayProcess, path: string): Promise<T> => {
    const headers = { authorization: `Bearer ${createdKeys.management ?? one.createdKeys.management}` }
    return (await (await fetch(`${url}/v1/management/requests${path}`, { headers })).json()) as T
  }
  const response = await fetch(`${other.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${one.key}`, 'content-type': 'application/json' },
    body: JSON.stringify({
      model: 'acme/large',
      stream: true,
      messages: [{ role: 'user', content: '[[reply: one two three four five six]] [[chunk: 1]] [[hang-after: 3]]' }],
    }),
  })
  const id = response.headers.get('x-request-id')!.replace('req_', '')
  const reader = response.body!.getReader()
  await reader.read()
  const listed = async (at: GatewayProcess): Promise<RequestAnswer[]> =>
    (await ask<{ data: RequestAnswer[] }>(at, '?outcome=open')).data.filter((row) => row.id === id)
  for (const at of processes) {
    for (let looks = 0; (await listed(at)).length === 0; looks++) {
      if (looks === 500) throw new Error('not listed')
      await Bun.sleep(20)
    }
    const rows = await listed(at)
    expect(rows).toMatchObject([{ id, outcome: 'open', model: 'acme/large', provider: 'sandbox', streamed: true }])
    expect(typeof rows[0]!.first_token_ms).toBe('number')
    expect(await ask<object>(at, `/${id}`)).toMatchObject({ id, outcome: 'open', cost_usd: null })
    expect((await ask<{ data: object[] }>(at, '?outcome=open&model=acme/small')).data).toEqual([])
  }
  await reader.cancel()
  for (const at of processes) {
    while ((await listed(at)).length > 0) await Bun.sleep(20)
    while ((await ask<RequestAnswer>(at, `/${id}`)).outcome === 'open') await Bun.sleep(20)
  }
}, 60_000)
