/**
 * The least that a Bun proxy can be: fetch in, fetch out, body handed through unread. `bare-proxy.ts UPSTREAM_PORT`.
 */
const upstream = `http://127.0.0.1:${process.argv[2]}`

const server = Bun.serve({
  hostname: '127.0.0.1',
  port: 0,
  idleTimeout: 0,
  async fetch(request) {
    const answer = await fetch(upstream + new URL(request.url).pathname, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: await request.text(),
    })
    return new Response(answer.body, {
      status: answer.status,
      headers: { 'content-type': answer.headers.get('content-type') ?? '' },
    })
  },
})
console.log(`listening on ${server.port}`)
