/**
 * A stand-in for clients that send back nothing of an answer but its texts and calls: a proxy that takes all else out
 * of the requests of an SDK.
 */

type Json = Record<string, any>

const FORGET: Record<string, (body: Json) => void> = {
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

/** Its URL; `sent`: the bodies as they went on. */
export function forgetful(target: string): { url: string; sent: string[]; stop(): void } {
  const sent: string[] = []
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    idleTimeout: 30,
    async fetch(request) {
      const { pathname, search } = new URL(request.url)
      const body = (await request.json()) as Json
      for (const forget of Object.values(FORGET)) forget(body)
      sent.push(JSON.stringify(body))
      const headers = new Headers(request.headers)
      for (const name of ['host', 'content-length', 'accept-encoding']) headers.delete(name)
      const answer = await fetch(target + pathname + search, { method: request.method, headers, body: sent.at(-1)! })
      const own = new Headers(answer.headers)
      for (const name of ['content-length', 'content-encoding', 'transfer-encoding']) own.delete(name)
      return new Response(answer.body, { status: answer.status, headers: own })
    },
  })
  return { url: `http://127.0.0.1:${server.port}`, sent, stop: () => void server.stop(true) }
}
