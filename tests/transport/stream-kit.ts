import { listen, type Listening } from '../../src/http/serve.ts'
import { type KeepAlive, type SlowMemory, streamBody, type TextSource } from '../../src/http/stream.ts'
import { rawClient, type RawClient } from './raw-server.ts'

/** Servers that stream a response, and their clients. */

const servers: Listening[] = []

export async function stopServers(): Promise<void> {
  for (const server of servers.splice(0)) await server.stop(0)
}

/** Looks at clients are a second apart, and memory that is short is waited for: such tests run at the same time. */
export const LIMIT_MS = 60_000

/** A client that has sent a request to a server whose response streams from `source`. */
export const request = async (
  source: TextSource,
  keepAlive?: KeepAlive,
  withSignal = true,
  stalledMs?: number,
  memory?: SlowMemory,
): Promise<RawClient> => {
  const server = listen({
    host: '127.0.0.1',
    port: 0,
    fetch: ({ signal }) =>
      new Response(streamBody(source, keepAlive, withSignal ? signal : undefined, stalledMs, memory)),
  })
  servers.push(server)
  const client = await rawClient(server.port)
  client.write('GET / HTTP/1.1\r\nhost: x\r\n\r\n')
  return client
}

export const texts = (list: string[], cancelled: string[] = []): TextSource => ({
  pull: async () => {
    await Bun.sleep(5)
    return list.shift()
  },
  cancel: (reason) => void cancelled.push(reason),
})
export const bodyOf = (client: RawClient): string => client.text().slice(client.text().indexOf('\r\n\r\n') + 4)
export const never = <T>(): Promise<T> => new Promise(() => {})
/** A source with one text and no end. */
export const stalledAfter = (text: string): (() => Promise<string>) => {
  let isFirst = true
  return () => {
    if (!isFirst) return never<string>()
    isFirst = false
    return Promise.resolve(text)
  }
}
