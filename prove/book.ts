/** The book of a running server, as its owner sees it. The configuration must have `billing: { delay: 0s }`. */
import type { Server } from './servers.ts'

export type Charged = { ending: string; outputTokens: number; usd: number; estimated: boolean }

const get = (server: Server, path: string): Promise<Response> =>
  fetch(server.url + path, { headers: { authorization: `Bearer ${server.key}` } })

/** The record of a generation; undefined where there is none. */
export async function recordOf(server: Server, id: string): Promise<Charged | undefined> {
  const response = await get(server, `/v1/management/generation?id=${encodeURIComponent(id)}`)
  if (response.status === 404) return undefined
  const record = (await response.json()) as {
    ending: string
    estimated: boolean
    usage: number
    nativeTokens: { completion_tokens: number }
  }
  return {
    ending: record.ending,
    outputTokens: record.nativeTokens.completion_tokens,
    usd: record.usage,
    estimated: record.estimated,
  }
}

/** The balance of the default account in USD. */
export async function balanceOf(server: Server): Promise<number> {
  const { data } = (await (await get(server, '/v1/management/payg/balance')).json()) as {
    data: { total_credits: number }
  }
  return data.total_credits
}

/** Undefined where the book is right, else the first line that is wrong. */
export const auditFault = (server: Server): Promise<string | undefined> =>
  server.sluice('ledger', 'audit').then(
    () => undefined,
    (error: Error) => error.message.slice(0, 300),
  )
