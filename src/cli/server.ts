import type { Config } from '../config/load.ts'
import { readAll, send } from '../http/call.ts'
import { reachable, serverUrl } from '../store/server-address.ts'
import type { Given } from './command.ts'
import { configOf } from './serve.ts'

const TIMEOUT_MS = 5_000
const TIMEOUTS = { connectMs: TIMEOUT_MS, firstByteMs: TIMEOUT_MS, idleMs: TIMEOUT_MS, totalMs: TIMEOUT_MS }
const ANSWER_BYTES = 1024 * 1024

/** The address that options name, else that of the server that runs on the data folder, else the configured one. */
export function addressOf(given: Given, { listen: { host, port }, data }: Config): string {
  const isNamed = given.text('host') !== undefined || given.text('port') !== undefined
  const configured = `http://${host.includes(':') ? `[${host}]` : host}:${port}`
  return reachable((isNamed ? undefined : serverUrl(data)) ?? configured)
}

/** Asks the server that `addressOf` finds. Throws where none answers. */
export async function askServer(
  given: Given,
  path: string,
  post?: { key: string; body: string },
): Promise<{ url: string; status: number; text: string }> {
  const url = addressOf(given, configOf(given)) + path
  const { signal } = new AbortController()
  const sent = { url, timeouts: TIMEOUTS, signal, once: true }
  const call =
    post === undefined
      ? send({ ...sent, method: 'GET', headers: {} })
      : send({
          ...sent,
          method: 'POST',
          headers: { authorization: `Bearer ${post.key}`, 'content-type': 'application/json' },
          body: post.body,
        })
  const { status, body } = await call.catch(() => {
    throw new Error(`no server answers at ${url}; sluice serve starts one`)
  })
  return { url, status, text: (await readAll(body, ANSWER_BYTES)).trim() }
}
