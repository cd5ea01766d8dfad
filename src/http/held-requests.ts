import type { Listening, ListenOptions } from './serve.ts'

/** The function that has each request next. */
export type Handler = { handle: ListenOptions['fetch'] }

/** A socket whose requests wait until modules are open. */
export type Held = { server: Listening | undefined; handler: Handler; open(): void }

/** `handler`: has the requests of an open socket. */
export function holdRequests(server?: Listening, handler = {} as Handler): Held {
  const opened = Promise.withResolvers<void>()
  handler.handle = async (request, from) => {
    await opened.promise
    return request.signal.aborted ? new Response(null, { status: 499 }) : handler.handle(request, from)
  }
  return { server, handler, open: opened.resolve }
}
