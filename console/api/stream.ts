/** Server-sent events of the management API, with the header that an `EventSource` cannot send. */
import { urlOf, type Query } from './ask.ts'

export type StreamEvent = { event: string; data: unknown }
export type StreamState = 'connecting' | 'open' | 'waiting'

const RETRY_MS = 1_000
const RETRY_MOST_MS = 15_000

/**
 * Calls `onEvent` until `signal` fires. `onState` gets `open` at each connection: what happened before it is not
 * repeated, so the caller reads its first page again.
 */
export async function follow(
  path: string,
  query: Query,
  handlers: { onEvent(event: StreamEvent): void; onState(state: StreamState): void },
  signal: AbortSignal,
): Promise<void> {
  let failures = 0
  while (!signal.aborted) {
    handlers.onState('connecting')
    try {
      const response = await fetch(urlOf(path, query), {
        headers: { 'x-sluice-console': '1', accept: 'text/event-stream' },
        credentials: 'same-origin',
        cache: 'no-store',
        signal,
      })
      if (!response.ok || response.body === null) throw new Error(String(response.status))
      handlers.onState('open')
      failures = 0
      await readEvents(response.body, handlers.onEvent)
    } catch {
      failures++
    }
    if (signal.aborted) return
    handlers.onState('waiting')
    await pause(Math.min(RETRY_MS * 2 ** failures, RETRY_MOST_MS), signal)
  }
}

const pause = (ms: number, signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    const timer = setTimeout(resolve, ms)
    signal.addEventListener('abort', () => (clearTimeout(timer), resolve()), { once: true })
  })

async function readEvents(body: ReadableStream<Uint8Array>, take: (event: StreamEvent) => void): Promise<void> {
  const decoder = new TextDecoder()
  const reader = body.getReader()
  let rest = ''
  for (;;) {
    const { value, done } = await reader.read()
    if (done) return
    rest += decoder.decode(value, { stream: true })
    for (let end = rest.indexOf('\n\n'); end >= 0; end = rest.indexOf('\n\n')) {
      const event = parseEvent(rest.slice(0, end))
      rest = rest.slice(end + 2)
      if (event !== undefined) take(event)
    }
  }
}

/** One block of lines; undefined for a comment. */
function parseEvent(block: string): StreamEvent | undefined {
  let event = 'message'
  let data = ''
  for (const line of block.split('\n')) {
    if (line.startsWith('event:')) event = line.slice(6).trim()
    else if (line.startsWith('data:')) data += line.slice(5).trimStart()
  }
  return data === '' ? undefined : { event, data: JSON.parse(data) as unknown }
}
