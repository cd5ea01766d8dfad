import type { GatewayError } from '../../error.ts'
import { fold, type GenerationEvent } from '../../generation/event.ts'
import { writeFrame, type Frame } from '../../http/frames.ts'
import type { TranslationContext, Protocol, Writer } from '../../protocols/protocol.ts'
import type { ScriptedResponse, StreamFault } from './script.ts'

/** The format of a stream: server-sent events, or the elements of one JSON array. */
type StreamFormat = 'sse' | 'json-array'

/** A response before it is written in its protocol. */
export type UnwrittenResponse = {
  protocol: Protocol
  context: TranslationContext
  events: Iterable<GenerationEvent>
  scripted: ScriptedResponse
  paceMs?: number
  /** Aborts when the client leaves. */
  signal: AbortSignal
}

export const JSON_HEADERS = { 'content-type': 'application/json' }
const EVENT_HEADERS = { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' }

/** Waits for the scripted delay, then throws the scripted error or returns the scripted page, if there is one. */
export async function responseInstead(
  { hang, delayMs, error, page }: ScriptedResponse,
  signal: AbortSignal,
): Promise<Response | undefined> {
  if (hang === true) await waitForAbort(signal)
  if (delayMs !== undefined) await sleep(delayMs, signal)
  if (error !== undefined) throw error
  return page === undefined
    ? undefined
    : new Response(page.text, { status: page.status, headers: { 'content-type': 'text/html' } })
}

/** One JSON body. A scripted fault happens in the middle of its text. */
export function jsonResponse({ protocol, context, events, scripted, signal }: UnwrittenResponse): Response {
  if (scripted.fault?.kind === 'error') throw scripted.fault.error
  const text = JSON.stringify(protocol.serve.writeResponse(fold(events), context))
  const body =
    scripted.fault === undefined
      ? text
      : abortableBody(textThenFault(text.slice(0, text.length / 2), scripted.fault, signal), signal)
  return new Response(body, { headers: JSON_HEADERS })
}

async function* textThenFault(text: string, fault: StreamFault, signal: AbortSignal): AsyncGenerator<string> {
  yield text
  await injectFault(fault, signal)
}

/** A stream that sends the frames of each event in one chunk. */
export function streamResponse(response: UnwrittenResponse, format: StreamFormat): Response {
  const frames = framesOf(response, response.protocol.serve.writer(response.context))
  const texts = format === 'sse' ? writeEvents(frames) : writeArray(frames)
  return new Response(abortableBody(texts, response.signal), {
    headers: format === 'sse' ? EVENT_HEADERS : JSON_HEADERS,
  })
}

async function* framesOf(
  { events, scripted: { fault }, paceMs = 0, signal }: UnwrittenResponse,
  writer: Writer,
): AsyncGenerator<Frame[]> {
  let deltas = 0
  for (const event of events) {
    const isDelta = event.type === 'part-delta'
    // A response with fewer deltas than the fault asks for fails at its end, so that a test always gets its failure.
    if (fault !== undefined && (event.type === 'finish' || (isDelta && deltas >= fault.afterDeltas))) {
      const error = await injectFault(fault, signal)
      if (error !== undefined) yield* errorFrames(error, writer, paceMs, signal)
      return
    }
    if (isDelta && deltas > 0 && paceMs > 0) await sleep(paceMs, signal)
    if (isDelta) deltas += 1
    yield writer.write(event)
  }
}

async function* errorFrames(
  error: GatewayError,
  writer: Writer,
  paceMs: number,
  signal: AbortSignal,
): AsyncGenerator<Frame[]> {
  const frames = writer.write({ type: 'error', error })
  // Google's SDK recognizes an error without a `data:` field only if it is a network chunk of its own.
  if (frames.some((frame) => frame.unprefixed === true)) await sleep(Math.max(paceMs, 10), signal)
  yield frames
}

/** Returns the error to send, throws to cut the connection, returns undefined to end it, or waits for the client. */
async function injectFault({ kind, error }: StreamFault, signal: AbortSignal): Promise<GatewayError | undefined> {
  if (kind === 'error') return error
  if (kind === 'cut') throw new Error('The sandbox was asked to break the connection.')
  if (kind === 'hang') await waitForAbort(signal)
  return undefined
}

async function* writeEvents(batches: AsyncIterable<Frame[]>): AsyncGenerator<string> {
  for await (const frames of batches) if (frames.length > 0) yield frames.map(writeFrame).join('')
}

async function* writeArray(batches: AsyncIterable<Frame[]>): AsyncGenerator<string> {
  let separator = '['
  for await (const frames of batches) {
    for (const frame of frames) {
      yield separator + frame.data
      separator = ',\r\n'
    }
  }
  yield separator === '[' ? '[]' : ']'
}

/**
 * A body that behaves as one read from a network, in process or on a socket: it fails as soon as the request is aborted
 * and stops its source when the reader leaves.
 */
function abortableBody(texts: AsyncGenerator<string>, signal: AbortSignal): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder()
  const stop = () => {
    void texts.return(undefined).catch(() => undefined)
  }
  let onAbort: () => void
  return new ReadableStream<Uint8Array>(
    {
      start(controller) {
        onAbort = () => {
          stop()
          controller.error(signal.reason)
        }
        if (signal.aborted) return onAbort()
        signal.addEventListener('abort', onAbort, { once: true })
      },
      async pull(controller) {
        const next = await texts.next()
        if (signal.aborted) return
        if (next.done !== true) return controller.enqueue(encoder.encode(next.value))
        signal.removeEventListener('abort', onAbort)
        controller.close()
      },
      cancel() {
        signal.removeEventListener('abort', onAbort)
        stop()
      },
    },
    { highWaterMark: 0 },
  )
}

/** Rejects with the signal's reason as soon as it aborts. */
function sleep(ms: number, signal: AbortSignal): Promise<void> {
  const elapsed = Promise.withResolvers<void>()
  const timer = setTimeout(elapsed.resolve, ms)
  const onAbort = () => {
    clearTimeout(timer)
    elapsed.reject(signal.reason)
  }
  if (signal.aborted) onAbort()
  else signal.addEventListener('abort', onAbort, { once: true })
  return elapsed.promise.finally(() => signal.removeEventListener('abort', onAbort))
}

/** Never resolves; rejects with the signal's reason when it aborts. */
function waitForAbort(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    if (signal.aborted) reject(signal.reason)
    else signal.addEventListener('abort', () => reject(signal.reason), { once: true })
  })
}
