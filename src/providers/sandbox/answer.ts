import type { GatewayError } from '../../error.ts'
import { fold, type GenerationEvent } from '../../generation/event.ts'
import { writeFrame, type Frame } from '../../http/frames.ts'
import type { TranslationContext, Protocol, Writer } from '../../protocols/protocol.ts'
import type { Act, Break } from './script.ts'

/** How a stream is put on the wire: as server-sent events, or as one JSON array sent piece by piece. */
export type Form = 'events' | 'array'

export type Telling = {
  protocol: Protocol
  context: TranslationContext
  events: Iterable<GenerationEvent>
  act: Act
  paceMs?: number
  signal: AbortSignal
}

/** What comes before any answer: the delay, then the error, which is thrown, or the page that comes instead of one. */
export async function insteadOf(
  { hang, delayMs, error, page }: Act,
  signal: AbortSignal,
): Promise<Response | undefined> {
  if (hang === true || delayMs !== undefined) await rest(hang === true ? Infinity : delayMs!, signal)
  if (error !== undefined) throw error
  return page === undefined
    ? undefined
    : new Response(page.text, { status: page.status, headers: { 'content-type': 'text/html' } })
}

/** A whole answer. What was asked to break breaks in the middle of the text. */
export function wholeAnswer({ protocol, context, events, act, signal }: Telling): Response {
  if (act.break?.how === 'error') throw act.break.error
  const text = JSON.stringify(protocol.serve.writeAnswer(fold(events), context))
  if (act.break === undefined) return new Response(text, { headers: JSON_HEADERS })
  return new Response(bodyOf(pieces([text.slice(0, text.length / 2)], act.break, signal), signal), {
    headers: JSON_HEADERS,
  })
}

async function* pieces(texts: string[], how: Break, signal: AbortSignal): AsyncGenerator<string> {
  yield* texts
  await broken(how, signal)
}

/** A streamed answer, one piece of text an event. */
export function streamedAnswer(telling: Telling, form: Form): Response {
  const texts = told(telling, telling.protocol.serve.writer(telling.context))
  return new Response(bodyOf(form === 'events' ? joined(texts) : inArray(texts), telling.signal), {
    headers: form === 'events' ? EVENT_HEADERS : JSON_HEADERS,
  })
}

async function* told({ events, act, paceMs = 0, signal }: Telling, writer: Writer): AsyncGenerator<Frame[]> {
  let deltas = 0
  for (const event of events) {
    // An answer shorter than asked for breaks at its end: a test that wants a failure gets one.
    if (
      act.break !== undefined &&
      (event.type === 'finish' || (event.type === 'part-delta' && deltas >= act.break.deltas))
    ) {
      const error = await broken(act.break, signal)
      if (error === undefined) return
      const frames = writer.write({ type: 'error', error })
      // Google's SDK sees a bare error only when it is a network chunk of its own.
      if (frames.some((frame) => frame.bare === true)) await rest(Math.max(paceMs, 10), signal)
      yield frames
      return
    }
    if (event.type === 'part-delta' && deltas++ > 0 && paceMs > 0) await rest(paceMs, signal)
    yield writer.write(event)
  }
}

/**
 * Does what was asked for: gives the error to send, throws to cut the connection, returns to end it, or waits for the
 * client to go.
 */
async function broken({ how, error }: Break, signal: AbortSignal): Promise<GatewayError | undefined> {
  if (how === 'error') return error
  if (how === 'cut') throw new Error('The sandbox was asked to break the connection.')
  if (how === 'hang') await rest(Infinity, signal)
  return undefined
}

async function* joined(frames: AsyncIterable<Frame[]>): AsyncGenerator<string> {
  for await (const some of frames) if (some.length > 0) yield some.map(writeFrame).join('')
}

async function* inArray(frames: AsyncIterable<Frame[]>): AsyncGenerator<string> {
  let before = '['
  for await (const some of frames) {
    for (const frame of some) {
      yield before + frame.data
      before = ',\r\n'
    }
  }
  yield before === '[' ? '[]' : ']'
}

/**
 * A body that is read as a network's is, in process or on a socket: it fails at once when the request is aborted, and
 * stops its
 * source when the reader goes.
 */
function bodyOf(texts: AsyncGenerator<string>, signal: AbortSignal): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder()
  const stop = () => {
    void texts.return(undefined).catch(() => undefined)
  }
  let fail: () => void
  return new ReadableStream<Uint8Array>(
    {
      start(controller) {
        fail = () => {
          stop()
          controller.error(signal.reason)
        }
        if (signal.aborted) return fail()
        signal.addEventListener('abort', fail, { once: true })
      },
      async pull(controller) {
        const next = await texts.next()
        if (signal.aborted) return
        if (next.done !== true) return controller.enqueue(encoder.encode(next.value))
        signal.removeEventListener('abort', fail)
        controller.close()
      },
      cancel() {
        signal.removeEventListener('abort', fail)
        stop()
      },
    },
    { highWaterMark: 0 },
  )
}

/** Waits, for ever if asked; rejects with the signal's reason as soon as the client has gone. */
function rest(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const leave = () => {
      clearTimeout(timer)
      reject(signal.reason)
    }
    const timer =
      ms === Infinity
        ? undefined
        : setTimeout(() => {
            signal.removeEventListener('abort', leave)
            resolve()
          }, ms)
    if (signal.aborted) return leave()
    signal.addEventListener('abort', leave, { once: true })
  })
}

export const JSON_HEADERS = { 'content-type': 'application/json' }
const EVENT_HEADERS = { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' }
