import { GatewayError } from '../../src/error.ts'
import { readAll, send, type IncomingResponse, type OutgoingRequest } from '../../src/http/call.ts'
import { closeIdle } from '../../src/http/connection.ts'
import { rawServer, type RawServer, type RawSocket } from './raw-server.ts'

const servers: RawServer[] = []
export const serve = (respond: (socket: RawSocket, request: string, count: number) => void): RawServer => {
  const server = rawServer(respond)
  servers.push(server)
  return server
}
export function stopServers(): void {
  closeIdle()
  for (const server of servers.splice(0)) server.stop()
}

export const longTimeouts = { connectMs: 5_000, firstByteMs: 20_000, idleMs: 20_000, totalMs: 30_000 }
export const post = (server: { url: string }, more: Partial<OutgoingRequest> = {}): Promise<IncomingResponse> =>
  send({
    url: server.url + '/v1/x?y=1',
    method: 'POST',
    headers: { 'x-a': 'b' },
    body: '{"é":1}',
    timeouts: longTimeouts,
    signal: new AbortController().signal,
    ...more,
  })
export const postText = async (server: { url: string }, more: Partial<OutgoingRequest> = {}): Promise<string> =>
  readAll((await post(server, more)).body, 1e9)
export const failure = async (promise: Promise<unknown>): Promise<GatewayError> => {
  const error = await promise.then(
    () => undefined,
    (thrown: unknown) => thrown,
  )
  if (!(error instanceof GatewayError)) throw new Error(`expected a GatewayError, got ${error}`)
  return error
}
export const plain = (body: string, more = ''): string =>
  `HTTP/1.1 200 OK\r\n${more}content-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`
