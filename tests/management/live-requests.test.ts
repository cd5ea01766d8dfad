import { describe, expect, test } from 'bun:test'
import type { RequestAnswer } from '../../src/endpoints/management/answers.ts'
import { startGateway } from '../server.ts'
import { ownerOf, type Browser } from './browser.ts'
import { gateway, generate, list, owner, useRequests } from './listed-requests.ts'

useRequests()

/** The frames of a live view, one after the other. */
async function* frames(
  browser: Browser,
  query = '',
): AsyncGenerator<{ event: string; data: RequestAnswer & { count: number } }> {
  const response = await fetch(`${browser.url}/v1/management/requests/stream${query}`, {
    headers: { 'sec-fetch-site': 'same-origin', 'x-sluice-console': '1', cookie: browser.cookie },
  })
  expect(response.headers.get('content-type')).toBe('text/event-stream')
  let text = ''
  const decoder = new TextDecoder()
  for await (const chunk of response.body!) {
    text += decoder.decode(chunk, { stream: true })
    for (let end = text.indexOf('\n\n'); end >= 0; end = text.indexOf('\n\n')) {
      const [, event, data] = /^event: (\w+)\ndata: (.*)$/.exec(text.slice(0, end)) ?? []
      text = text.slice(end + 2)
      if (event === undefined) yield { event: 'comment', data: {} as never }
      else yield { event, data: JSON.parse(data!) as RequestAnswer & { count: number } }
    }
  }
}

async function nextFrames(live: ReturnType<typeof frames>, count: number) {
  const all = []
  while (all.length < count) all.push((await live.next()).value!)
  return all
}

describe('the live view', () => {
  test('a request is reported when it begins, when it ends, and when it is refused', async () => {
    const live = frames(owner, '?not_model=acme/other')
    await nextFrames(live, 1)
    await generate('Hello')
    await generate('Hello', { model: 'acme/other' })
    await generate('Hello', { model: 'no/such' })
    const [opened, closed, refused] = await nextFrames(live, 3)
    expect([opened!.event, closed!.event, refused!.event]).toEqual(['opened', 'closed', 'refused'])
    expect(opened!.data).toMatchObject({ outcome: 'open', cost_usd: null, total_ms: null, model: 'acme/large' })
    expect(closed!.data).toEqual((await list(`?q=${closed!.data.id}`)).data[0]! as never)
    expect(refused!.data).toEqual((await list(`?q=${refused!.data.id}`)).data[0]! as never)
    await live.return(undefined)
  }, 30_000)

  test('the live view with a filter has exactly what the list with it has afterwards', async () => {
    const from = new Date().toISOString()
    const filters = [
      '',
      'model=acme/large',
      'not_model=acme/large',
      'outcome=completed',
      'not_outcome=completed',
      'outcome=refused&code=model_not_found',
      'streamed=true',
      'streamed=false&min_tokens=1',
      'client=none',
      'q=not available',
    ].map((filter) => `?${filter}&from=${from}`)
    const views = filters.map((filter) => ({ filter, live: frames(owner, filter), ids: new Set<string>() }))
    for (const { live } of views) await nextFrames(live, 1)
    for (const [text, over] of [
      ['Hello', {}],
      ['Hello', { stream: true }],
      ['[[error: 400]]', {}],
      ['Hello', { model: 'no/such' }],
      ['Hello', { model: 'no/other', stream: true }],
      ['[[error: 400]]', { stream: true }],
    ] as const)
      await generate(text, over)
    const listed = await Promise.all(filters.map((filter) => list(filter)))
    for (const [index, { filter, live, ids }] of views.entries()) {
      const expected = listed[index]!.data.map(({ id }) => id)
      while (ids.size < expected.length) {
        const { event, data } = (await live.next()).value!
        if (event !== 'opened') ids.add(data.id)
      }
      expect([filter, [...ids].toSorted().toReversed()]).toEqual([filter, expected])
      await live.return(undefined)
    }
    expect(new Set(listed.map(({ data }) => data.length)).size).toBeGreaterThan(3)
  }, 60_000)

  test('more than 50 rows in a second are counted as dropped', async () => {
    const live = frames(owner, '?outcome=refused')
    await nextFrames(live, 1)
    await Promise.all(Array.from({ length: 120 }, () => generate('x', { model: 'no/such' })))
    let [rows, dropped] = [0, 0]
    while (rows + dropped < 120) {
      const { event, data } = (await live.next()).value!
      if (event === 'refused') rows++
      if (event === 'dropped') dropped += data.count
    }
    expect(rows + dropped).toBe(120)
    await live.return(undefined)
  }, 60_000)

  test('one caller leaves room for the live views of others', async () => {
    const open = (headers: Record<string, string>): Promise<Response> =>
      fetch(`${gateway.url}/v1/management/requests/stream`, { headers })
    const own = { 'sec-fetch-site': 'same-origin', 'x-sluice-console': '1', cookie: owner.cookie }
    const views: Response[] = []
    let refused: Response | undefined
    while (refused === undefined) {
      const view = await open(own)
      if (view.status === 200 && views.length < 20) views.push(view)
      else refused = view
    }
    expect([refused.status, refused.headers.get('retry-after'), views.length <= 10]).toEqual([503, '10', true])
    const other = await open({ authorization: `Bearer ${gateway.createdKeys.management}` })
    expect(other.status).toBe(200)
    for (const view of [...views, other]) await view.body!.cancel()
  }, 30_000)
})

test('a live view ends where the server stops', async () => {
  const other = await startGateway()
  const live = frames(await ownerOf(other))
  await nextFrames(live, 1)
  const stopping = other.stop()
  expect((await live.next()).done).toBe(true)
  await stopping
}, 30_000)
