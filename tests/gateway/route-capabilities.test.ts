import { afterAll, beforeAll, beforeEach, expect, test } from 'bun:test'
import { startGateway, type Gateway } from '../server.ts'
import { send, startUpstreams } from './route-upstreams.ts'

/** Endpoints that are known not to serve a request are left out where others are left. */

const upstreams = startUpstreams()
const { calls } = upstreams
let gateway: Gateway
beforeAll(async () => {
  const provider = (id: string, protocol: string): string =>
    `  ${id}: { protocol: ${protocol}, baseUrl: "${upstreams.url}/${id}" }\n`
  gateway = await startGateway({
    config:
      `billing: { unpriced: free }\nproviders:\n${provider('one', 'chat.completions')}` +
      `${provider('two', 'chat.completions')}${provider('three', 'messages')}models:\n` +
      '  small:\n    endpoints: [{ provider: one, model: a }]\n    contextLength: 100\n' +
      '    capabilities: { tools: false, structuredOutput: false, input: [text] }\n    fallbacks: [large, far]\n' +
      '  large: { endpoints: [{ provider: two, model: b }], capabilities: { tools: true } }\n' +
      '  far: { endpoints: [{ provider: three, model: c }] }\n' +
      '  alone: { endpoints: [{ provider: one, model: a }], capabilities: { tools: false } }\n',
  })
})
afterAll(async () => {
  await gateway?.stop()
  await upstreams.stop()
})
beforeEach(() => {
  calls.length = 0
})

const TOOLS = { tools: [{ type: 'function', function: { name: 'f', parameters: { type: 'object' } } }] }
const text = (content: unknown): object => ({ messages: [{ role: 'user', content }] })
const SCHEMA = { type: 'json_schema', json_schema: { name: 'a', schema: { type: 'object' } } }
const PIXEL = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='

async function ask(model: string, body: object): Promise<[string[], string | null]> {
  const answer = await send(gateway, '/v1/chat/completions', { model, ...body }, { 'x-sluice-report': 'headers' })
  expect([answer.status, await answer.text()]).toEqual([200, expect.anything()])
  return [calls.map(({ provider }) => provider), answer.headers.get('x-sluice-route')]
}

test('a plain request goes to the model that was asked for', async () => {
  expect(await ask('small', text('Hi'))).toEqual([['one'], expect.stringMatching(/^one;order/)])
})

test.each([
  ['tools', { ...text('Hi'), ...TOOLS }, 'its model has no tools'],
  ['a schema', { ...text('Hi'), response_format: SCHEMA }, 'its model has no structured output'],
  [
    'an image',
    text([{ type: 'image_url', image_url: { url: `data:image/png;base64,${PIXEL}` } }]),
    'its model does not read image',
  ],
  ['a long text', text('word '.repeat(400)), 'the request is longer than its context of 100 tokens'],
])('%s: the endpoint of a model that cannot serve it is left out with the reason', async (_, body, reason) => {
  expect(await ask('small', body)).toEqual([['two'], expect.stringContaining(`one;${reason}`)])
})

test('the only endpoint is asked all the same: its provider says what is wrong', async () => {
  expect((await ask('alone', { ...text('Hi'), ...TOOLS }))[0]).toEqual(['one'])
})
