import { PROTOCOLS } from './asking.ts'
import { COUNTED, framed, protocolOf, RESPONSE_PIECES } from './scripted.ts'

/** A provider with all four protocols that sends the beginning of each answer at once, and its end when allowed. */
export type Gated = {
  url: string
  /** Number of answers that have begun. */
  begun: number
  /** Allows all answers to end, those that have begun and later ones. */
  open(): void
  /** Holds back the ends of answers that begin from now on. */
  shut(): void
  stop(): Promise<void>
}

export function gatedProvider(): Gated {
  let gate = Promise.withResolvers<void>()
  const server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    idleTimeout: 0,
    async fetch(request) {
      // A server of other tests may still ask for a prediction at a port that was its provider's.
      if (request.method !== 'POST') return new Response(null, { status: 404 })
      const { pathname } = new URL(request.url)
      const pieces = RESPONSE_PIECES[protocolOf(pathname)]
      const { stream } = (await request.json()) as { stream?: boolean }
      const { promise } = gate
      gated.begun++
      if (stream !== true && !pathname.includes(':stream')) {
        await promise
        return Response.json(pieces.whole(COUNTED))
      }
      const body = new ReadableStream<string>({
        async start(controller) {
          controller.enqueue(framed(pieces.begin(COUNTED)))
          await promise
          controller.enqueue(framed([...pieces.end(COUNTED), ...pieces.last(COUNTED)]))
          controller.close()
        },
      })
      return new Response(body, { headers: { 'content-type': 'text/event-stream' } })
    },
  })
  const gated: Gated = {
    url: `http://127.0.0.1:${server.port}/v1`,
    begun: 0,
    open: () => gate.resolve(),
    shut: () => {
      gate = Promise.withResolvers()
    },
    stop: () => server.stop(true),
  }
  return gated
}

/** The cost of one answer at the price of these models, in nano-USD. */
export const BILL = BigInt(COUNTED.prompt * 1_000 + COUNTED.completion * 2_000)

/** One model for each of these providers and protocols, called `name/protocol`. */
export function gatedConfig(providers: Record<string, Pick<Gated, 'url'>>): string {
  const each = Object.entries(providers).flatMap(([name, { url }]) =>
    PROTOCOLS.map((protocol) => ({ name, url, protocol, id: `${name}-${protocol.toLowerCase()}` })),
  )
  const rows = each.map(
    ({ id, url, protocol }) => `${id}: { protocol: ${protocol}, baseUrl: "${url}", apiKey: none, unlisted: true }`,
  )
  const models = each.map(
    ({ id, name, protocol }) =>
      `${name}/${protocol}: { endpoints: [{ provider: ${id}, model: m }], price: { prompt: 1, completion: 2 } }`,
  )
  return `
limits: { requestsPerMinute: 1000000 }
billing: { unpriced: refuse, startingCredit: 1, delay: 0s }
providers: { ${rows.join(', ')} }
models: { ${models.join(', ')} }
`
}
