import { expect } from 'bun:test'
import { GatewayError } from '../../src/error.ts'
import { closeIdle } from '../../src/http/connection.ts'
import type { GuardOptions } from '../../src/http/ssrf-guard.ts'
import { rawServer, type RawServer, type RawSocket } from './raw-server.ts'

export const NOT_PUBLIC = 'must be a public http:// or https:// URL'

/** A resolver that returns these lists of addresses one after the other, the last one again and again. */
export function resolving(...results: string[][]): { names: string[]; resolve: (host: string) => Promise<string[]> } {
  const names: string[] = []
  return {
    names,
    resolve: async (host) => {
      names.push(host)
      return results[names.length - 1] ?? results.at(-1)!
    },
  }
}

/** Options with which every host name resolves to 127.0.0.1. */
export const guard = (more: Partial<GuardOptions> = {}): GuardOptions => ({
  private: [],
  maxBytes: 1000,
  totalMs: 5_000,
  resolve: async () => ['127.0.0.1'],
  ...more,
})

/** The message of a refused call. Fails if it was not refused, or if the message contains an address. */
export async function refusal(call: Promise<unknown>): Promise<string> {
  const error = await call.then(
    () => undefined,
    (thrown: unknown) => thrown,
  )
  if (!(error instanceof GatewayError)) throw new Error(`not refused: ${String(error)}`)
  expect(error.code).toBe('invalid_request')
  expect(error.param).toBeUndefined()
  expect(error.message).not.toMatch(/\d+\.\d+\.\d+\.\d+|:[\da-f]*:|localhost/i)
  return error.message
}

export const ok = (body: string, head = 'content-type: image/png'): string =>
  `HTTP/1.1 200 OK\r\n${head}\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`
export const redirect = (to: string, status = 302): string =>
  `HTTP/1.1 ${status} Elsewhere\r\nlocation: ${to}\r\nset-cookie: session=1\r\ncontent-length: 0\r\n\r\n`

const servers: RawServer[] = []

/** A server in place of one on the internet; `host` is to be exempt. */
export function server(
  respond: (path: string, socket: RawSocket, count: number) => string | undefined,
): RawServer & { host: string } {
  const raw = rawServer((socket, request, count) => {
    const text = respond(request.split(' ')[1]!, socket, count)
    if (text !== undefined) socket.write(text)
  })
  servers.push(raw)
  return Object.assign(raw, { host: `127.0.0.1:${raw.port}` })
}

export function stopServers(): void {
  for (const one of servers.splice(0)) one.stop()
  closeIdle()
}
