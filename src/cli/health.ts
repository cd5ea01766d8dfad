import { readAll, send } from '../http/call.ts'
import type { Given } from './command.ts'
import { configOf } from './serve.ts'

const TIMEOUT_MS = 5_000
const TIMEOUTS = { connectMs: TIMEOUT_MS, firstByteMs: TIMEOUT_MS, idleMs: TIMEOUT_MS, totalMs: TIMEOUT_MS }
const ANSWER_BYTES = 10_000
/** A server that listens on every address has one that can be connected to. */
const LOOPBACK: Record<string, string> = { '0.0.0.0': '127.0.0.1', '::': '[::1]' }

/** Prints the readiness of the server that listens where `serve` would. Fails where it takes no requests. */
export async function checkHealth(given: Given): Promise<void> {
  const { host, port } = configOf(given).listen
  const url = `http://${LOOPBACK[host] ?? (host.includes(':') ? `[${host}]` : host)}:${port}/readyz`
  const { signal } = new AbortController()
  const call = send({ url, method: 'GET', headers: {}, timeouts: TIMEOUTS, signal, once: true })
  const { status, body } = await call.catch(() => {
    throw new Error(`no server answers at ${url}; sluice serve starts one`)
  })
  const text = (await readAll(body, ANSWER_BYTES)).trim()
  if (status !== 200) throw new Error(`${url} says: ${text}`)
  console.log(text)
  // The connection that is kept for another request would keep the process.
  process.exit(0)
}
