import { describe, expect, test } from 'bun:test'
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Glob } from 'bun'
import type { BodiesAnswer, ChangeAnswer, KeyAnswer, Page } from '../../src/endpoints/management/answers.ts'
import type { RequestDetailAnswer, SessionAnswer } from '../../src/endpoints/management/answers.ts'
import { startGateway, startGatewayProcess } from '../server.ts'
import { everythingIn, storeOf } from '../stores.ts'
import { ownerOf, signedIn } from './browser.ts'
import {
  ALL,
  bodiesOf,
  CREDENTIAL,
  detailOf,
  FRAMES,
  gateway,
  keyWith,
  LAST_FRAMES,
  MARK,
  owner,
  send,
  useCapture,
  type Sending,
} from './captured-bodies.ts'

/** Bodies of requests: captured where a switch says so, shown to those who may see them, and deleted for good. */

useCapture()

describe('what is captured', () => {
  test('is nothing for a key without a switch', async () => {
    const { id } = await send(MARK)
    // One that is captured is written after it.
    await bodiesOf((await send('later', { key: (await keyWith(ALL)).text })).id)
    expect((await owner.get(`/requests/${id}/bodies`)).status).toBe(404)
    const { bodies } = await detailOf(id)
    expect(bodies).toEqual({ stored: false, parts: [], why_not: expect.stringContaining('capture was off') })
  })

  test('is all four bodies of a request, with headers without credentials', async () => {
    const key = await keyWith(ALL)
    const body = { model: 'sandbox/messages' }
    const { id, text } = await send(`${MARK} [[length: 20]]`, {
      key: key.text,
      body,
      headers: { 'x-other': 'hidden-1' },
    })
    expect(JSON.parse(text)).toMatchObject({ object: 'chat.completion', model: 'sandbox/messages' })
    const parts = await bodiesOf(id)
    expect(Object.keys(parts)).toEqual(['client_request', 'provider_request', 'provider_answer', 'client_answer'])
    expect(parts.client_answer).toMatchObject({ status: 200, text, bytes: Buffer.byteLength(text), cut: 0 })
    expect(parts.client_request!.text).toContain(MARK)
    expect(JSON.parse(parts.provider_request!.text)).toMatchObject({
      model: 'messages',
      max_tokens: expect.any(Number),
    })
    expect(parts.provider_request!.url).toContain('/messages')
    expect(JSON.parse(parts.provider_answer!.text)).toMatchObject({ type: 'message' })
    const all = JSON.stringify(parts)
    for (const secret of [key.text, 'hidden-1', 'authorization']) expect(all).not.toContain(secret)
    expect((await detailOf(id)).bodies).toMatchObject({ stored: true, why_not: null })
    const { json } = await owner.get<Page<{ id: string; bodies: boolean }>>('/requests')
    expect(json.data.find((row) => row.id === id)?.bodies).toBe(true)
  })

  test('has no credential that a provider repeats', async () => {
    const { id, text } = await send('x', { key: (await keyWith(ALL)).text, body: { model: 'up/m' } })
    expect(text).toContain(CREDENTIAL)
    const parts = await bodiesOf(id)
    expect(parts.provider_answer!.text).toContain('[hidden]')
    expect(JSON.stringify(parts)).not.toContain(CREDENTIAL)
  })

  test('is a stream as it came, with the times of its chunks', async () => {
    const { text: key } = await keyWith(ALL)
    const body = { stream: true, stream_options: { include_usage: true } }
    const { id, text } = await send('[[length: 30]] [[pace: 30ms]]', { key, body })
    const { client_answer: answer, provider_answer: provider } = await bodiesOf(id)
    expect(answer!.text).toBe(text)
    expect(provider!.text).toContain('data: [DONE]')
    for (const { times, text: whole } of [answer!, provider!]) {
      expect(times.length).toBeGreaterThan(3)
      expect(times.map(({ from }) => from)).toEqual(times.map(({ from }) => from).toSorted((a, b) => a - b))
      expect(times.at(-1)!.at_ms).toBeGreaterThan(times[0]!.at_ms)
      expect(times.at(-1)!.from).toBeLessThan(whole.length)
    }
  })

  test('has each chunk of a stream over a socket once', async () => {
    const { id } = await send('x', { key: (await keyWith(ALL)).text, body: { model: 'up/m', stream: true } })
    const { provider_answer: answer } = await bodiesOf(id)
    expect(answer!.text).toBe([...FRAMES, LAST_FRAMES].join(''))
    expect(answer!.bytes).toBe(answer!.text.length)
  })

  test.each([
    ['a body that is no JSON', { path: '/v1/messages', body: undefined }, 400],
    ['an unknown model', { body: { model: 'none/such' } }, 404],
  ])('the error that answers %s', async (_, sending, status) => {
    const { text: key } = await keyWith({ mode: 'errors' })
    const sent = await send('x', { key, ...(sending as Sending) })
    expect(sent.status).toBe(status)
    const { client_request: request, client_answer: answer } = await bodiesOf(sent.id)
    expect(request!.text).toContain('"x"')
    expect(answer).toMatchObject({ status, text: sent.text })
  })

  test('is with `errors` only requests that failed or lost something', async () => {
    const { text: key } = await keyWith({ mode: 'errors' })
    const fine = await send('fine', { key })
    const failed = await send('[[error: 500]]', { key })
    const lossy = await send('lossy', { key, body: { model: 'sandbox/messages', logit_bias: { '1': 1 } } })
    expect([fine.status, failed.status >= 500, lossy.status]).toEqual([200, true, 200])
    await bodiesOf(failed.id)
    await bodiesOf(lossy.id)
    expect((await owner.get(`/requests/${fine.id}/bodies`)).status).toBe(404)
  })

  test('is nothing where the client opts out, and a wrong opt-out header is an error', async () => {
    const { text: key } = await keyWith(ALL)
    const quiet = await send('x', { key, headers: { 'x-sluice-capture': 'off' } })
    const wrong = await send('x', { key, headers: { 'x-sluice-capture': 'no' } })
    expect([quiet.status, wrong.status]).toEqual([200, 400])
    expect(wrong.text).toContain('x-sluice-capture')
    await bodiesOf((await send('later', { key })).id)
    expect((await owner.get(`/requests/${quiet.id}/bodies`)).status).toBe(404)
  })

  test('is cut in the middle where it is long, names media instead of their data, and has blanked texts', async () => {
    const { text: key } = await keyWith(ALL)
    const image = Buffer.from(Array.from({ length: 3_000 }, (_, index) => (index * 7_919) % 256)).toString('base64')
    const digest = new Bun.CryptoHasher('sha256').update(Buffer.from(image, 'base64')).digest('hex').slice(0, 16)
    const blanked = 'ann@example.com 4111 1111 1111 1111 +49 171 2345678 sk-live-0123456789abcdef'
    const prompt = `first ${blanked} ${'word '.repeat(9_000)} last`
    const content = [
      { type: 'text', text: prompt },
      { type: 'image_url', image_url: { url: `data:image/png;base64,${image}` } },
    ]
    const { id } = await send('', { key, body: { messages: [{ role: 'user', content }] } })
    const { client_request: request } = await bodiesOf(id)
    const { text, bytes, cut } = request!
    expect(Buffer.byteLength(text)).toBeLessThanOrEqual(4096)
    expect(bytes).toBeGreaterThan(45_000)
    expect(cut).toBeGreaterThan(40_000)
    expect(text).toContain('first [e-mail] [card] [phone] [hidden]')
    expect(text).toMatch(/\n<[\d,]+ bytes left out>\n/)
    expect(text).toContain(`<image/png 3.0 kB sha256 ${digest}>`)
    expect(text).not.toContain(image.slice(600, 700))
  })

  test('includes requests of the playground, for their user', async () => {
    const member = await signedIn(gateway, 'Mia', [{ scope: await accountId(), role: 'member' }])
    const { json: made } = await member.post<{ text: string }>('/playground/keys', {})
    const { id } = await send(MARK, { key: made.text })
    expect((await bodiesOf(id, member)).client_request!.text).toContain(MARK)
    const { json } = await member.get<BodiesAnswer>(`/requests/${id}/bodies`)
    expect(Date.parse(json.expires_at) - Date.now()).toBeLessThanOrEqual(3_600_000)
  })
})

const accountId = async (): Promise<string> =>
  (await owner.get<Page<{ id: string; name: string }>>('/accounts')).json.data.find(({ name }) => name === 'default')!
    .id

describe('a switch', () => {
  test('is off again at its time, and is shown while it is on', async () => {
    const key = await keyWith(null)
    expect((await owner.get<KeyAnswer>(`/keys/${key.id}`)).json.capture).toBeNull()
    const until = new Date(Date.now() + 1_500).toISOString()
    await owner.change('PATCH', `/keys/${key.id}`, { capture: { mode: 'all', until } })
    const on = (await owner.get<SessionAnswer>('/session')).json.capture.on.find(({ id }) => id === key.id)
    expect(on).toEqual({ kind: 'key', id: key.id, name: null, mode: 'all', until })
    while (Date.now() < Date.parse(until)) await Bun.sleep(50)
    expect((await owner.get<KeyAnswer>(`/keys/${key.id}`)).json.capture).toBeNull()
    const { id } = await send('late', { key: key.text })
    await bodiesOf((await send('later', { key: (await keyWith(ALL)).text })).id)
    expect((await owner.get(`/requests/${id}/bodies`)).status).toBe(404)
  })

  test('of an account counts where its key has none, and is in the change log', async () => {
    const { json: made } = await owner.post<{ id: string }>('/accounts', { name: 'team' })
    const keys = await Promise.all(
      [null, { mode: 'off' }].map(async (capture) => {
        const { json } = await owner.post<{ text: string }>('/keys', {
          kind: 'pay-as-you-go',
          account: 'team',
          capture,
        })
        return json.text
      }),
    )
    await owner.post(`/accounts/${made.id}/credits`, { amount_usd: '1' })
    const changed = await owner.change('PATCH', `/accounts/${made.id}`, { capture: ALL })
    expect([changed.status, changed.json.capture]).toEqual([200, { mode: 'all', until: null }])
    const [captured, off] = await Promise.all(keys.map((key) => send('x', { key })))
    await bodiesOf(captured!.id)
    expect((await owner.get(`/requests/${off!.id}/bodies`)).status).toBe(404)
    const { json } = await owner.get<Page<ChangeAnswer>>(`/changes?target=${made.id}`)
    expect(json.data[0]).toMatchObject({ action: 'account.change', after: { capture: { mode: 'all' } } })
  })

  test('of the installation counts where key and account have none, on all servers, and all see it', async () => {
    const keys = await Promise.all([null, { mode: 'off' }].map((capture) => keyWith(capture)))
    const until = new Date(Date.now() + 900_000).toISOString()
    const path = '/settings/capture'
    expect((await owner.get(path)).json).toEqual({ capture: null })
    const changed = await owner.change('PATCH', path, { capture: { mode: 'all', until } })
    expect([changed.status, changed.json]).toEqual([200, { capture: { mode: 'all', until } }])
    const [captured, off] = await Promise.all(keys.map(({ text }) => send('x', { key: text })))
    await bodiesOf(captured!.id)
    expect((await owner.get(`/requests/${off!.id}/bodies`)).status).toBe(404)
    const viewer = await signedIn(gateway, 'Vic', [{ scope: await accountId(), role: 'viewer' }])
    const { on } = (await viewer.get<SessionAnswer>('/session')).json.capture
    expect(on.filter(({ kind }) => kind === 'installation')).toEqual([
      { kind: 'installation', id: 'installation', name: null, mode: 'all', until },
    ])
    expect((await owner.ask('PATCH', path, { capture: null })).code).toBe('precondition_required')
    // Another server switches it off, and this one follows.
    const store = await storeOf(gateway)
    await store.setSettings.remove('capture', 'installation')
    await store.close()
    while (((await owner.get(path)).json as { capture: unknown }).capture !== null) await Bun.sleep(20)
    const { id } = await send('late', { key: keys[0]!.text })
    await bodiesOf((await send('later', { key: (await keyWith(ALL)).text })).id)
    expect((await owner.get(`/requests/${id}/bodies`)).status).toBe(404)
    const { json } = await owner.get<Page<ChangeAnswer>>('/changes?target=installation')
    expect(json.data[0]).toMatchObject({ action: 'settings.capture', after: { capture: { mode: 'all', until } } })
  })

  test('of the installation stays below what the file allows', async () => {
    const other = await startGateway({ config: 'capture: { most: errors }\n' })
    try {
      const refused = await (await ownerOf(other)).change('PATCH', '/settings/capture', { capture: ALL })
      expect([refused.status, refused.text]).toEqual([400, expect.stringContaining("at most 'errors'")])
    } finally {
      await other.stop()
    }
  })

  test.each([
    [{ mode: 'some' }, 'capture.mode'],
    [{ mode: 'all', until: '2020-01-01T00:00:00Z' }, 'capture.until'],
    [{ until: null }, 'capture'],
  ])('that is wrong is refused: %j', async (capture, param) => {
    const { status, text } = await owner.post('/keys', { kind: 'pay-as-you-go', capture })
    expect([status, text]).toEqual([400, expect.stringContaining(param)])
  })
})

describe('the bodies of a request', () => {
  test('are seen by users whose role allows it, and each view is in the change log', async () => {
    const account = await accountId()
    const { id } = await send(MARK, { key: (await keyWith(ALL)).text })
    await bodiesOf(id)
    const see = async (name: string, role: string, scope: string): Promise<number> =>
      (await (await signedIn(gateway, name, [{ scope, role } as never])).get(`/requests/${id}/bodies`)).status
    expect(await see('Adam', 'admin', 'installation')).toBe(200)
    expect(await see('Vera', 'viewer', 'installation')).toBe(403)
    expect(await see('Anna', 'admin', account)).toBe(200)
    expect(await see('Milo', 'member', account)).toBe(404)
    expect(await see('Vito', 'viewer', account)).toBe(403)
    const { json: other } = await owner.post<{ id: string }>('/accounts', { name: 'other' })
    expect(await see('Olga', 'admin', other.id)).toBe(404)
    const { json } = await owner.get<Page<ChangeAnswer>>(`/changes?action=bodies.read&target=${id}`)
    expect(json.data.map(({ actor }) => actor.name)).toEqual(['Anna', 'Adam', 'Owner'])
  })

  test('are seen by a member whose key was used', async () => {
    const member = await signedIn(gateway, 'Mona', [{ scope: await accountId(), role: 'member' }])
    const { id } = await send(MARK, { key: (await keyWith(ALL, member)).text })
    expect((await bodiesOf(id, member)).client_request!.text).toContain(MARK)
  })

  test('can each be read alone, as text', async () => {
    const { id, text } = await send(MARK, { key: (await keyWith(ALL)).text })
    await bodiesOf(id)
    expect(await owner.text(`/requests/${id}/bodies/client_answer`)).toBe(text)
    for (const part of ['none', '__proto__'])
      expect((await owner.get(`/requests/${id}/bodies/${part}`)).status).toBe(404)
  })
})

/** Everything in the data folder, as text. */
const stored = (folder: string): string =>
  [...new Glob('**/*').scanSync({ cwd: folder, dot: true })]
    .map((file) => readFileSync(join(folder, file)).toString('latin1'))
    .join('\n')

describe('what is stored', () => {
  test('is encrypted, and overwritten when it is deleted', async () => {
    const { id } = await send(`unseen-${MARK}`, { key: (await keyWith(ALL)).text })
    await bodiesOf(id)
    expect(stored(gateway.data) + (await everythingIn(gateway.data))).not.toContain(`unseen-${MARK}`)
    const sizes = (): number[] =>
      readdirSync(join(gateway.data, 'bodies')).map((name) => statSync(join(gateway.data, 'bodies', name)).size)
    const before = sizes()
    expect(before.every((size) => size > 0)).toBe(true)
    expect((await owner.ask('DELETE', `/requests/${id}/bodies`)).status).toBe(204)
    expect((await owner.get(`/requests/${id}/bodies`)).status).toBe(404)
    expect(sizes()).toEqual(before)
    expect(stored(join(gateway.data, 'bodies'))).toMatch(/\0{300}/)
    expect((await detailOf(id)).bodies.stored).toBe(false)
  })

  test('of an account is unreadable once its key is deleted, and what comes later is not', async () => {
    const { json: made } = await owner.post<{ id: string }>('/accounts', { name: 'leaving' })
    await owner.post(`/accounts/${made.id}/credits`, { amount_usd: '1' })
    const { json: key } = await owner.post<{ text: string }>('/keys', {
      kind: 'pay-as-you-go',
      account: 'leaving',
      capture: ALL,
    })
    const first = await send('x', { key: key.text })
    await bodiesOf(first.id)
    expect((await owner.ask('DELETE', `/accounts/${made.id}/bodies`)).status).toBe(204)
    expect((await owner.get(`/requests/${first.id}/bodies`)).status).toBe(404)
    expect((await bodiesOf((await send('again', { key: key.text })).id)).client_request!.text).toContain('again')
    const member = await signedIn(gateway, 'Mark', [{ scope: made.id, role: 'member' }])
    expect((await member.ask('DELETE', `/accounts/${made.id}/bodies`)).status).toBe(403)
    const admin = await signedIn(gateway, 'Alma', [{ scope: await accountId(), role: 'admin' }])
    expect((await admin.ask('DELETE', `/accounts/${made.id}/bodies`)).status).toBe(404)
  })
})

test('off leaves nothing: no folder, no switch, no line of a log', async () => {
  const process = await startGatewayProcess()
  try {
    const browser = await ownerOf(process)
    const { status, text } = await browser.post('/keys', { kind: 'pay-as-you-go', capture: ALL })
    expect([status, text]).toEqual([400, expect.stringContaining('capture.most')])
    const { id } = await send(MARK, { of: process, headers: { 'x-sluice-capture': 'anything' } })
    expect(readdirSync(process.data)).not.toContain('bodies')
    expect(stored(process.data)).not.toContain(MARK)
    expect(process.output().stderr).not.toContain(MARK)
    const { json } = await browser.get<RequestDetailAnswer>(`/requests/${id}`)
    expect(json.bodies.why_not).toContain('capture.most is off')
  } finally {
    await process.stop()
  }
}, 60_000)

test('what is captured is in no log, and survives the death of the process', async () => {
  const data = mkdtempSync(join(tmpdir(), 'sluice-test-'))
  try {
    const options = { config: 'capture: { most: all, default: all }\n', data }
    const first = await startGatewayProcess(options)
    const browser = await ownerOf(first)
    const { id } = await send(MARK, { of: first })
    await bodiesOf(id, browser)
    const { stderr, stdout } = first.output()
    expect(stderr + stdout).not.toContain(MARK)
    first.kill('SIGKILL')
    await first.exited
    const second = await startGatewayProcess(options)
    const again = await signedIn(second, 'Ada', [{ scope: 'installation', role: 'admin' }])
    expect((await bodiesOf(id, again)).client_request!.text).toContain(MARK)
    await second.stop()
  } finally {
    rmSync(data, { recursive: true, force: true })
  }
}, 60_000)
