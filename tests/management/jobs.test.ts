import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type {
  ChangeAnswer,
  JobAnswer,
  JobFileAnswer,
  JobQuotaAnswer,
  KeyAnswer,
  Page,
} from '../../src/endpoints/management/answers.ts'
import { predictionProvider, type PredictionProvider } from '../gateway/predicting.ts'
import { startGateway, type Gateway } from '../server.ts'
import { ownerOf, signedIn, type Browser } from './browser.ts'

/** Predictions, and responses in the background, whose ends the test decides. */

let provider: PredictionProvider
let upstream: Bun.Server<undefined>
let responseStatus = 'queued'
let gateway: Gateway
let owner: Browser
let member: Browser
/** The text of a key of the member. */
let memberKey: string

beforeAll(async () => {
  provider = predictionProvider()
  upstream = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    fetch(request) {
      if (request.url.endsWith('/cancel')) responseStatus = 'cancelled'
      const theirs = { id: 'work', object: 'response', created_at: 1, status: responseStatus, model: 'm' }
      return Response.json({ ...theirs, background: true, output: [], usage: null })
    },
  })
  const config = `limits: { requestsPerMinute: 100000 }
billing: { delay: 0s, startingCredit: 100 }
predictions: { concurrency: 2, waiting: 10 }
providers:
  maker: { protocol: predictions, baseUrl: "${provider.url}" }
  up: { protocol: responses, baseUrl: "http://127.0.0.1:${upstream.port}/v1" }
models:
  acme/video: { endpoints: [{ provider: maker, model: a/video }], price: { request: 2 } }
  acme/text: { endpoints: [{ provider: up, model: m }], price: { prompt: 1, completion: 10 } }
`
  gateway = await startGateway({ config })
  owner = await ownerOf(gateway)
  const account = (await owner.get<Page<{ id: string }>>('/accounts')).json.data[0]!.id
  member = await signedIn(gateway, 'Mia', [{ scope: account, role: 'member' }])
  const made = await member.post<KeyAnswer & { text: string }>('/keys', { kind: 'pay-as-you-go', account, name: 'own' })
  memberKey = made.json.text
})
afterAll(async () => {
  await gateway.stop()
  await provider.stop()
  await upstream.stop(true)
})

async function send(path: string, body: object, key = gateway.key): Promise<string> {
  const response = await fetch(gateway.url + path, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
  return ((await response.json()) as { id: string }).id
}
const predict = (key?: string): Promise<string> =>
  send('/v1/predictions', { model: 'acme/video', input: { prompt: 'x' } }, key)

async function jobs(browser = owner, query = ''): Promise<JobAnswer[]> {
  const rows: JobAnswer[] = []
  for (let cursor = ''; ; ) {
    const { json, text } = await browser.get<Page<JobAnswer>>(`/jobs?limit=2${query}${cursor}`)
    if (json.data === undefined) throw new Error(text)
    rows.push(...json.data)
    if (json.next === null) return rows
    cursor = `&cursor=${json.next}`
  }
}

/** The job once it has a status. */
async function jobWith(id: string, isSo: (job: JobAnswer) => boolean): Promise<JobAnswer> {
  for (;;) {
    const job = (await jobs()).find(({ public_id }) => public_id === id)
    if (job !== undefined && isSo(job)) return job
    await Bun.sleep(20)
  }
}

describe('jobs', () => {
  test('a prediction shows key, progress and webhook, and its cost when it has ended', async () => {
    const id = await predict()
    const made = await untilMade()
    Object.assign(made, { status: 'processing', logs: 'loading\n 25%|##        | 1/4\n 50%|#####     | 2/4\n' })
    const running = await jobWith(id, ({ progress }) => progress !== null)
    expect(running).toMatchObject({
      ...{ kind: 'prediction', model: 'acme/video', status: 'running', progress: 50, cost_usd: null, ended_at: null },
      ...{ account: { name: 'default' }, key: { name: 'first' }, webhook: null, can_cancel: true },
    })
    Object.assign(made, { status: 'succeeded', output: 'https://a.example/x.mp4' })
    const ended = await jobWith(id, ({ cost_usd }) => cost_usd !== null)
    expect(ended).toMatchObject({ status: 'succeeded', progress: null, cost_usd: '2', can_cancel: false })
    expect(Date.parse(ended.ended_at!)).toBeGreaterThanOrEqual(Date.parse(ended.created_at))
  }, 60_000)

  test('the files of an output are listed with type and size, for those who may see bodies', async () => {
    const id = await predict()
    const large = `data:image/png;base64,${Buffer.alloc(30_000).toString('base64')}`
    const output = { images: [large, 'data:text/plain,a%20b'], video: 'https://a.example/x.mp4', text: 'no file' }
    Object.assign(await untilMade(), { status: 'succeeded', output })
    await jobWith(id, ({ ended_at }) => ended_at !== null)
    const { json } = await owner.get<Page<JobFileAnswer>>(`/jobs/${id}/files`)
    const none = { media_type: null, bytes: null, expires_at: null }
    expect(json).toMatchObject({
      data: [
        { state: 'stored', media_type: 'image/png', bytes: 30_000, expires_at: expect.stringContaining('T') },
        { url: 'data:text/plain,a%20b', state: 'inline', media_type: 'text/plain', bytes: 3, expires_at: null },
        { url: 'https://a.example/x.mp4', state: 'elsewhere', ...none },
      ],
      next: null,
    })
    const [stored] = json.data
    expect((await (await fetch(stored!.url)).bytes()).length).toBe(30_000)
    const { json: first } = await owner.get<Page<JobFileAnswer>>(`/jobs/${id}/files?limit=2`)
    const { json: rest } = await owner.get<Page<JobFileAnswer>>(`/jobs/${id}/files?limit=2&cursor=${first.next}`)
    expect([first.data, rest]).toEqual([json.data.slice(0, 2), { ...json, data: json.data.slice(2) }])
    const { json: changes } = await owner.get<Page<ChangeAnswer>>(`/changes?action=bodies.read&target=${id}`)
    expect(changes.data.length).toBe(3)
    const viewer = await signedIn(gateway, 'Vi', [{ scope: 'installation', role: 'viewer' }])
    expect((await viewer.get(`/jobs/${id}/files`)).code).toBe('role_required')
    expect((await member.get(`/jobs/${id}/files`)).status).toBe(404)
  }, 60_000)

  test('a failed prediction says why', async () => {
    const id = await predict()
    Object.assign(await untilMade(), { status: 'failed', error: 'no such colour' })
    const failed = await jobWith(id, ({ status }) => status === 'failed')
    expect(failed.error).toContain('no such colour')
  }, 60_000)

  test('a response in the background is one until and after its end, another response is none', async () => {
    responseStatus = 'queued'
    const id = await send('/v1/responses', { model: 'acme/text', input: 'x', background: true })
    await send('/v1/chat/completions', { model: 'acme/text', messages: [{ role: 'user', content: 'x' }] })
    expect(await jobWith(id, () => true)).toMatchObject({
      ...{ kind: 'response', model: 'acme/text', provider: 'up', status: 'running', can_cancel: true, ended_at: null },
      key: { name: 'first' },
    })
    expect((await jobs(owner, '&open=true')).map(({ public_id }) => public_id)).toEqual([id])
    responseStatus = 'completed'
    // Its end is learnt of at once where somebody asks.
    await (await fetch(`${gateway.url}/v1/responses/${id}`, { headers: { 'x-api-key': gateway.key } })).text()
    expect(await jobWith(id, ({ ended_at }) => ended_at !== null)).toMatchObject({ status: 'succeeded' })
    expect(await jobs(owner, '&open=true')).toEqual([])
    expect((await jobs(owner, '&open=false')).length).toBe((await jobs()).length)
  }, 60_000)

  test('each is listed once, the newest first', async () => {
    const all = await jobs()
    const ids = all.map(({ id }) => id)
    expect([ids.length > 2, ids]).toEqual([true, [...new Set(ids)].toSorted().toReversed()])
  })

  test('each kind is listed alone on request, and another one is refused', async () => {
    const all = await jobs()
    const isPrediction = ({ kind }: JobAnswer): boolean => kind === 'prediction'
    expect(new Set(all.map(({ kind }) => kind)).size).toBe(2)
    expect(await jobs(owner, '&kind=prediction')).toEqual(all.filter(isPrediction))
    expect(await jobs(owner, '&kind=response')).toEqual(all.filter((job) => !isPrediction(job)))
    const { json } = await owner.get<Page<JobAnswer>>('/predictions?limit=100')
    expect(json.data).toEqual(all.filter(isPrediction))
    expect((await owner.get('/jobs?kind=batch')).text).toContain("must be 'prediction' or 'response'")
  })

  test('the quota of an account says how many run and wait, and how many may', async () => {
    const quota = async (browser: Browser): Promise<JobQuotaAnswer> =>
      (await browser.get<JobQuotaAnswer>('/jobs/quota')).json
    const most = { running_max: 2, waiting_max: 10 }
    expect(await quota(owner)).toEqual({ ...most, accounts: [] })
    const ids = [await predict(), await predict(), await predict()]
    await untilMade()
    await untilMade()
    const account = expect.objectContaining({ name: 'default' })
    const numbers = { ...most, accounts: [{ account, running: 2, waiting: 1 }] }
    expect(await quota(owner)).toEqual(numbers)
    expect(await quota(member)).toEqual(numbers)
    // The one that waits first, which would begin otherwise.
    for (const id of ids.toReversed()) expect((await owner.post(`/jobs/${id}/cancel`, {})).status).toBe(204)
    expect(await quota(owner)).toEqual({ ...most, accounts: [] })
  }, 60_000)

  test('a member sees and cancels those of own keys alone, also while they run', async () => {
    const [theirs, own] = [await predict(), await predict(memberKey)]
    await untilMade()
    await untilMade()
    const seen = await jobs(member)
    expect(seen).toMatchObject([{ public_id: own, key: { name: 'own' }, can_cancel: true }])
    expect((await member.post(`/jobs/${theirs}/cancel`, {})).status).toBe(404)
    expect((await member.post(`/jobs/${own}/cancel`, {})).status).toBe(204)
    expect(await jobWith(own, ({ status }) => status === 'canceled')).toMatchObject({ can_cancel: false })
    expect((await jobs(member)).map(({ public_id }) => public_id)).toEqual([own])
    expect((await owner.post(`/jobs/${theirs}/cancel`, {})).status).toBe(204)
  }, 60_000)

  test('an account sees nothing of another one, and cannot cancel there', async () => {
    const other = (await owner.post<{ id: string }>('/accounts', { name: 'other' })).json.id
    const admin = await signedIn(gateway, 'Ada', [{ scope: other, role: 'admin' }])
    const id = await predict()
    await untilMade()
    expect(await jobs(admin)).toEqual([])
    expect((await admin.post(`/jobs/${id}/cancel`, {})).status).toBe(404)
    expect((await owner.get(`/jobs?account=${other}`)).json).toMatchObject({ data: [] })
    const viewer = await signedIn(gateway, 'Vi', [{ scope: 'installation', role: 'viewer' }])
    expect((await jobs(viewer))[0]).toMatchObject({ public_id: id, can_cancel: false })
    expect((await viewer.post(`/jobs/${id}/cancel`, {})).code).toBe('role_required')
    expect((await owner.post(`/jobs/${id}/cancel`, {})).status).toBe(204)
  }, 60_000)

  test('a cancellation reaches the provider, is in the change log, and has no effect on what has ended', async () => {
    responseStatus = 'in_progress'
    const response = await send('/v1/responses', { model: 'acme/text', input: 'x', background: true })
    const id = await predict()
    const made = await untilMade()
    for (const job of [id, response]) expect((await owner.post(`/jobs/${job}/cancel`, {})).status).toBe(204)
    expect(made.canceled).toBe(1)
    expect(responseStatus).toBe('cancelled')
    for (const job of [id, response]) {
      await jobWith(job, ({ status }) => status === 'canceled')
      expect((await owner.post(`/jobs/${job}/cancel`, {})).status).toBe(204)
      const { json } = await owner.get<Page<ChangeAnswer>>(`/changes?action=job.cancel&target=${job}`)
      expect(json.data).toMatchObject([{ actor: { name: 'Owner' }, account: { name: 'default' } }])
    }
    expect((await owner.post(`/jobs/pred_${'0'.repeat(32)}/cancel`, {})).status).toBe(404)
    expect((await owner.post('/jobs/none/cancel', {})).status).toBe(404)
  }, 60_000)
})

let seen = 0

/** The next prediction that the provider gets. */
async function untilMade(): Promise<PredictionProvider['made'][number]> {
  while (provider.made.length <= seen) await Bun.sleep(10)
  return provider.made[seen++]!
}
