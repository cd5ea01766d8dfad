import { afterAll, beforeAll, expect, test } from 'bun:test'
import type { ExplainAnswer } from '../../src/endpoints/management/answers.ts'
import { startGateway, type Gateway } from '../server.ts'
import { type Browser, ownerOf, signedIn } from './browser.ts'

let gateway: Gateway
let owner: Browser
beforeAll(async () => {
  gateway = await startGateway({
    config: `
providers:
  acme: { protocol: messages, baseUrl: 'http://127.0.0.1:9/v1', apiKey: canary-provider-key }
  openai: { apiKey: k }
models:
  large:
    endpoints: [{ provider: acme, model: big }]
    capabilities: { maxOutputTokens: 1000 }
    price: { prompt: 3, completion: 15 }
`,
  })
  owner = await ownerOf(gateway)
})
afterAll(() => gateway.stop())

const body = { model: 'large', messages: [{ role: 'user', content: 'Hi' }], seed: 0, max_tokens: 100 }
/** A body whose seed a double cannot hold. */
const text = JSON.stringify(body).replace('"seed":0', '"seed":12345678901234567890')
const ask = (browser: Browser, given: string) =>
  fetch(`${gateway.url}/v1/management/explain`, {
    method: 'POST',
    headers: {
      cookie: browser.cookie,
      'sec-fetch-site': 'same-origin',
      'x-sluice-console': '1',
      'content-type': 'application/json',
    },
    body: given,
  })

test('a request is shown as its provider would get it, with losses and hold, and without keys', async () => {
  const response = await ask(owner, `{"protocol": "chat", "body": ${text}}`)
  const answered = await response.text()
  const { endpoints, hold_usd: hold, protocol, off } = JSON.parse(answered) as ExplainAnswer
  expect([response.status, protocol, off]).toEqual([200, 'chat.completions', []])
  expect(endpoints).toMatchObject([
    {
      provider: 'acme',
      protocol: 'messages',
      url: 'http://127.0.0.1:9/v1/messages',
      headers: { 'x-api-key': '(hidden)' },
      body: { model: 'big', max_tokens: 100, messages: [{ role: 'user' }] },
      translation: [{ path: 'seed', effect: 'dropped' }],
    },
  ])
  expect(answered).not.toContain('canary-provider-key')
  // 100 output tokens at 15 USD per million, and what the text may be at 3.
  expect(Number(hold)).toBeGreaterThan(0.0015)
  expect(Number(hold)).toBeLessThan(0.005)
})

test('the hold includes what the image tool may draw, at the price of its model', async () => {
  const drawing = {
    model: 'openai/gpt-5',
    input: 'Draw',
    max_output_tokens: 100,
    tools: [{ type: 'image_generation' }],
  }
  const response = await ask(owner, JSON.stringify({ protocol: 'responses', body: drawing }))
  const { hold_usd: hold } = (await response.json()) as ExplainAnswer
  // Four images of 7,865 tokens at 40 USD per million, and as many seen at 10.
  const images = (4 * 7_865 * 50) / 1e6
  expect(Number(hold)).toBeGreaterThan(images)
  expect(Number(hold)).toBeLessThan(images + 0.2)
})

test('an unchanged request keeps the spelling of its numbers', async () => {
  const answered = await (await ask(owner, `{"model": "sandbox/chat", "body": ${text}}`)).text()
  expect(answered).toContain('"seed":12345678901234567890')
})

test('wrong requests are refused with their path, and viewers without the role', async () => {
  const param = async (given: string) => {
    const response = await ask(owner, given)
    return [response.status, ((await response.json()) as { error: { param: string } }).error.param]
  }
  expect(await param('{}')).toEqual([400, 'body'])
  expect(await param('{"body": {}, "modell": "x"}')).toEqual([400, 'modell'])
  expect(await param('{"body": {"messages": []}, "protocol": "xml"}')).toEqual([400, 'protocol'])
  expect(await param('{"body": {"messages": []}}')).toEqual([400, 'model'])
  expect(await param('{"body": {"model": "none/at-all", "messages": []}, "protocol": "chat"}')).toEqual([404, 'model'])
  const unwritable = await ask(owner, '{"body": {"model": "large", "messages": 5}, "protocol": "chat"}')
  expect(await unwritable.json()).toMatchObject({ endpoints: [{ refused: expect.stringContaining('messages') }] })
  const viewer = await signedIn(gateway, 'viewer', [{ scope: 'installation', role: 'viewer' }])
  expect((await ask(viewer, `{"body": ${text}}`)).status).toBe(403)
})
