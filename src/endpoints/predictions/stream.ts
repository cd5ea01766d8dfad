import type { AppContext, PublicRequest } from '../../context.ts'
import { GatewayError } from '../../error.ts'
import { writeFrame } from '../../http/frames.ts'
import { streamBody, type TextSource } from '../../http/stream.ts'
import { hasEnded, type Prediction } from './prediction.ts'
import type { PredictionContext } from './predictor.ts'
import { readStreamToken } from './stream-token.ts'

/** The output of a prediction as server-sent events. */

/**
 * `GET /v1/streams/{token}`: `output` and `logs` as they come, `error` where it failed, and `done`. A client that
 * reconnects sends its position in `Last-Event-ID`.
 */
export async function streamPrediction(
  app: AppContext & PredictionContext,
  { params, request }: PublicRequest,
): Promise<Response> {
  const { keys, predictor, config } = app
  const owned = readStreamToken(keys, params[0]!)
  if (owned === undefined) throw notFound()
  const source = new PredictionSource(positionOf(request.headers.get('last-event-id')))
  // Before it is read, so that no change in between is missed.
  source.onLeave = predictor.follow(owned, (prediction) => source.update(prediction))
  const prediction = await predictor.find(owned.accountId, owned.id).catch((error: unknown) => {
    source.cancel()
    throw error
  })
  if (prediction === undefined) {
    source.cancel()
    throw notFound()
  }
  source.update(prediction)
  const body = streamBody(
    source,
    { text: ': keep-alive\n\n', afterMs: config.keepAliveMs },
    request.signal,
    config.timeouts.clientStalledMs,
  )
  return new Response(body, {
    headers: {
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-cache',
      'x-accel-buffering': 'no',
    },
  })
}

const notFound = (): GatewayError => new GatewayError('not_found', 'No prediction has this stream URL.')

const positionOf = (header: string | null): number => (header !== null && /^\d{1,9}$/.test(header) ? Number(header) : 0)

/** Sends what each state of a prediction adds to the one sent before. Only the newest state waits for a slow client. */
class PredictionSource implements TextSource {
  onLeave = (): void => {}
  #newest: Prediction | undefined
  #changed = Promise.withResolvers<void>()
  #output: Tail
  #logs = new Tail(0)
  #isDone = false

  constructor(position: number) {
    this.#output = new Tail(position)
  }

  update(prediction: Prediction): void {
    // The stored state may be older than a change that came while it was read.
    if (this.#newest !== undefined && hasEnded(this.#newest)) return
    this.#newest = prediction
    this.#changed.resolve()
  }

  async pull(): Promise<string | undefined> {
    while (!this.#isDone) {
      await this.#changed.promise
      this.#changed = Promise.withResolvers()
      const text = this.#additions(this.#newest!)
      if (text !== '') return text
    }
    return undefined
  }

  cancel(): void {
    this.#isDone = true
    this.onLeave()
    this.#changed.resolve()
  }

  #additions(prediction: Prediction): string {
    const { output, logs, error, status } = prediction
    const ended = hasEnded(prediction)
    const pieces = this.#output
      .advance(outputOf(output, ended))
      .map(({ data, position }) => `id: ${position}\n${writeFrame({ event: 'output', data })}`)
    pieces.push(...this.#logs.advance(logs).map(({ data }) => writeFrame({ event: 'logs', data })))
    if (ended) {
      this.#isDone = true
      this.onLeave()
      if (status === 'failed') pieces.push(writeFrame({ event: 'error', data: JSON.stringify({ detail: error }) }))
      const done = status === 'succeeded' ? {} : { reason: status === 'canceled' ? 'canceled' : 'error' }
      pieces.push(writeFrame({ event: 'done', data: JSON.stringify(done) }))
    }
    return pieces.join('')
  }
}

/** Text grows, a list gets more elements; any other output is sent when it is complete. */
function outputOf(output: unknown, ended: boolean): string | readonly string[] {
  if (output === null) return ''
  if (typeof output === 'string') return output
  if (Array.isArray(output)) return output.map(asText)
  return ended ? [asText(output)] : ''
}

const asText = (value: unknown): string => (typeof value === 'string' ? value : JSON.stringify(value))

/** A growing text or list. `position`: the number of its characters or elements that were sent. */
class Tail {
  #position: number

  constructor(position: number) {
    this.#position = position
  }

  /** The part of `whole` beyond the position, which moves to its end. */
  advance(whole: string | readonly string[]): { data: string; position: number }[] {
    const from = this.#position
    if (whole.length <= from) return []
    this.#position = whole.length
    if (typeof whole === 'string') return [{ data: whole.slice(from), position: whole.length }]
    return whole.slice(from).map((data, index) => ({ data, position: from + index + 1 }))
  }
}
