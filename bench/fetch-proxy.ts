/**
 * The smallest possible Bun proxy: Bun.serve and fetch, the body passed through unread. `fetch-proxy.ts UPSTREAM_PORT`
 */
const upstream = `http://127.0.0.1:${process.argv[2]}`

const server = Bun.serve({
  hostname: '127.0.0.1',
  port: 0,
  idleTimeout: 0,
  async fetch(request) {
    const response = await fetch(upstream + new URL(request.url).pathname, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: await request.text(),
    })
    return new Response(response.body, {
      status: response.status,
      headers: { 'content-type': response.headers.get('content-type') ?? '' },
    })
  },
})
console.log(`listening on ${server.port}`)
