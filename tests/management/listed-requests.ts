import { afterAll, beforeAll } from 'bun:test'
import type { Page, RequestAnswer } from '../../src/endpoints/management/answers.ts'
import { startGateway, type Gateway } from '../server.ts'
import { ownerOf, type Browser } from './browser.ts'

/** A gateway with requests, one completed, one failed and one refused, and the list of them. */

const CONFIG = `
billing: { delay: 0s, startingCredit: 100 }
models:
  acme/large: { endpoints: [{ provider: sandbox, model: chat }], price: { prompt: 2, completion: 8 } }
  sandbox/own: { endpoints: [{ provider: sandbox, model: chat }] }
  two/endpoints: { endpoints: [{ provider: sandbox, model: chat }, { provider: sandbox, model: messages }] }
`

export let gateway: Gateway
export let owner: Browser
export let account: { id: string; name: string }

/** Starts the gateway for the tests of a file. */
export function useRequests(): void {
  beforeAll(async () => {
    gateway = await startGateway({ config: CONFIG })
    owner = await ownerOf(gateway)
    await generate('Hello')
    await generate('[[error: 400]]')
    await generate('again', { model: 'no/such' })
    const { data } = await list()
    account = data[0]!.account as typeof account
  })
  afterAll(() => gateway.stop())
}

export const generate = async (text: string, over: object = {}, key = gateway.key): Promise<Response> => {
  const response = await fetch(`${gateway.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', 'user-agent': 'a-client/1.0' },
    body: JSON.stringify({ model: 'acme/large', messages: [{ role: 'user', content: text }], ...over }),
  })
  await response.text()
  return response
}

export const list = async (query = '', browser = owner): Promise<Page<RequestAnswer>> =>
  (await browser.get(`/requests${query}`)).json as unknown as Page<RequestAnswer>
