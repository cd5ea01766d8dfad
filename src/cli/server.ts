import { readAll, send } from '../http/call.ts'
import type { Given } from './command.ts'
import { configOf } from './serve.ts'

const TIMEOUT_MS = 5_000
const TIMEOUTS = { connectMs: TIMEOUT_MS, firstByteMs: TIMEOUT_MS, idleMs: TIMEOUT_MS, totalMs: TIMEOUT_MS }
const ANSWER_BYTES = 1024 * 1024
/** A server that listens on every address has one that can be connected to. */
const LOOPBACK: Record<string, string> = { '0.0.0.0': '127.0.0.1', '::': '[::1]' }

/** Asks the server that listens where `serve` would. Throws where none answers. */
export async function askServer(
  given: Given,
  path: string,
  post?: { key: string; body: string },
): Promise<{ url: string; status: number; text: string }> {
  const { host, port } = configOf(given).listen
  const url = `http://${LOOPBACK[host] ?? (host.includes(':') ? `[${host}]` : host)}:${port}${path}`
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
