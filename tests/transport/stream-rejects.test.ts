import { expect, test } from 'bun:test'
import { listen } from '../../src/http/serve.ts'
import { streamBody } from '../../src/http/stream.ts'
import { rawClient, until } from './raw-server.ts'

test('a source that has rejected is not cancelled when its client leaves', async () => {
  const cancelled: string[] = []
  const leaving = new AbortController()
  const pull = (): Promise<never> => Promise.reject(new Error('a defect'))
  const server = listen({
    host: '127.0.0.1',
    port: 0,
    fetch: () =>
      new Response(streamBody({ pull, cancel: (reason) => void cancelled.push(reason) }, undefined, leaving.signal)),
  })
  try {
    const client = await rawClient(server.port)
    client.write('GET / HTTP/1.1\r\nhost: x\r\n\r\n')
    await until(client.closed)
    leaving.abort()
    expect(cancelled).toEqual([])
  } finally {
    await server.stop(0)
  }
})
