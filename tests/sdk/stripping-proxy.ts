/**
 * A proxy that removes reasoning and signatures from the requests of an SDK, as clients do that keep only the texts and
 * calls of an answer.
 */

type Json = Record<string, any>

const STRIP: Record<string, (body: Json) => void> = {
  messages: (body) => {
    if (body.input !== undefined) return
    for (const message of body.messages ?? []) {
      for (const name of ['reasoning', 'reasoning_content', 'reasoning_details']) delete message[name]
      for (const call of message.tool_calls ?? []) delete call.extra_content
      if (Array.isArray(message.content))
        message.content = message.content.filter(
          ({ type }: Json) => type !== 'thinking' && type !== 'redacted_thinking',
        )
    }
  },
  input: (body) => {
    if (Array.isArray(body.input))
      body.input = body.input.filter(({ type, id }: Json) => type !== 'reasoning' && !String(id).startsWith('rs_'))
  },
  contents: (body) => {
    for (const content of body.contents ?? []) {
      content.parts = content.parts.filter(({ thought }: Json) => thought !== true)
      for (const part of content.parts) delete part.thoughtSignature
    }
    body.contents = body.contents?.filter(({ parts }: Json) => parts.length > 0)
  },
}

/** `sent`: the bodies as they were forwarded. */
export function strippingProxy(target: string): { url: string; sent: string[]; stop(): void } {
  const sent: string[] = []
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    idleTimeout: 30,
    async fetch(request) {
      const { pathname, search } = new URL(request.url)
      const body = (await request.json()) as Json
      for (const strip of Object.values(STRIP)) strip(body)
      sent.push(JSON.stringify(body))
      const headers = new Headers(request.headers)
      for (const name of ['host', 'content-length', 'accept-encoding']) headers.delete(name)
      const response = await fetch(target + pathname + search, { method: request.method, headers, body: sent.at(-1)! })
      const forwarded = new Headers(response.headers)
      for (const name of ['content-length', 'content-encoding', 'transfer-encoding']) forwarded.delete(name)
      return new Response(response.body, { status: response.status, headers: forwarded })
    },
  })
  return { url: `http://127.0.0.1:${server.port}`, sent, stop: () => void server.stop(true) }
}
