/**
 * A proxy built only from src/http: the cost of the HTTP module without a gateway. `http-module-proxy.ts UPSTREAM_PORT`
 */
import { readAll, send } from '../src/http/call.ts'
import { FrameSplitter, writeFrame } from '../src/http/frames.ts'
import { listen, readText } from '../src/http/serve.ts'
import { streamBody } from '../src/http/stream.ts'

const upstream = `http://127.0.0.1:${process.argv[2]}`
const timeouts = { connectMs: 5_000, firstByteMs: 60_000, idleMs: 60_000, totalMs: 600_000 }

const server = listen({
  host: '127.0.0.1',
  port: 0,
  async fetch(request) {
    const body = await readText(request, 32 * 1024 * 1024)
    const path = request.url.slice(request.url.indexOf('/', 8))
    const response = await send({
      url: upstream + path,
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body,
      timeouts,
      signal: request.signal,
    })
    const headers = { 'content-type': response.headers.get('content-type') ?? '' }
    if (!headers['content-type'].startsWith('text/event-stream'))
      return new Response(await readAll(response.body, 1e8), { status: response.status, headers })
    const splitter = new FrameSplitter()
    const pull = async () => {
      for (;;) {
        const bytes = await response.body.read()
        if (bytes === undefined) return undefined
        let text = ''
        for (const frame of splitter.push(bytes)) text += writeFrame(frame)
        if (text !== '') return text
      }
    }
    return new Response(
      streamBody(
        { pull, cancel: () => response.body.cancel() },
        { text: ': keep-alive\n\n', afterMs: 15_000 },
        request.signal,
      ),
      { headers },
    )
  },
})
console.log(`listening on ${server.port}`)
