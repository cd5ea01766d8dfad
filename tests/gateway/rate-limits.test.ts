import { afterAll, beforeAll, expect, test } from 'bun:test'
import { startGateway, type Gateway } from '../server.ts'
import { requestIn, send, startUpstreams } from './route-upstreams.ts'

/** Limits per minute that Sluice keeps towards providers. */

/** An answer with far more tokens than the limit of its endpoint. */
const LONG = {
  id: 'c',
  object: 'chat.completion',
  created: 1,
  model: 'c',
  choices: [{ index: 0, message: { role: 'assistant', content: 'Hi' }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 1, completion_tokens: 100_000, total_tokens: 100_001 },
}

const upstreams = startUpstreams(({ model }) => (model === 'c' ? Response.json(LONG) : undefined))
let gateway: Gateway
beforeAll(async () => {
  const provider = (id: string): string =>
    `  ${id}: { protocol: chat.completions, baseUrl: "${upstreams.url}/${id}" }\n`
  gateway = await startGateway({
    config:
      `billing: { unpriced: free }\nproviders:\n${provider('one')}${provider('two')}models:\n` +
      '  alone: { endpoints: [{ provider: one, model: a, limits: { requestsPerMinute: 2 } }] }\n' +
      '  both: { endpoints: [{ provider: one, model: b, limits: { requestsPerMinute: 2 } }, ' +
      '{ provider: two, model: b }] }\n' +
      '  counted: { endpoints: [{ provider: one, model: c, limits: { tokensPerMinute: 1000 } }] }\n' +
      '  large: { endpoints: [{ provider: one, model: d, priority: 0, limits: { tokensPerMinute: 1000 } }, ' +
      '{ provider: two, model: d, priority: 1 }] }\n',
  })
})
afterAll(async () => {
  await gateway?.stop()
  await upstreams.stop()
})

const ask = async (model: string, text = 'Hi'): Promise<[number, string | null]> => {
  const { path, body } = requestIn('chat.completions', model, { text })
  const answer = await send(gateway, path, body)
  await answer.text()
  return [answer.status, answer.headers.get('x-sluice-provider')]
}

test('the only endpoint of a model gets no more requests per minute than its limit', async () => {
  const statuses: number[] = []
  for (let at = 0; at < 5; at++) statuses.push((await ask('alone'))[0])
  // A minute may end meanwhile, so that twice as many are sent.
  expect(statuses.slice(0, 2)).toEqual([200, 200])
  expect(statuses.filter((status) => status === 429).length).toBeGreaterThanOrEqual(1)
  expect(upstreams.calls.length).toBe(statuses.filter((status) => status === 200).length)
})

test('where there is another endpoint, that gets them', async () => {
  upstreams.calls.length = 0
  const answers = [await ask('both'), await ask('both'), await ask('both'), await ask('both')]
  expect(answers.map(([status]) => status)).toEqual([200, 200, 200, 200])
  expect(upstreams.calls.filter(({ provider }) => provider === 'two').length).toBeGreaterThanOrEqual(1)
})

test('an answer counts its tokens, so that the next request is refused', async () => {
  expect(await ask('counted')).toEqual([200, 'one'])
  expect((await ask('counted'))[0]).toBe(429)
})

test('a request for which too few tokens are left goes to another endpoint, and a smaller one does not', async () => {
  const text = 'word '.repeat(560)
  expect(await ask('large', text)).toEqual([200, 'one'])
  expect(await ask('large', text)).toEqual([200, 'two'])
  expect(await ask('large')).toEqual([200, 'one'])
})
