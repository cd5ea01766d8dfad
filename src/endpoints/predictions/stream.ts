import { GatewayError } from '../../error.ts'
import { writeFrame } from '../../http/frames.ts'
import { streamBody, type TextSource } from '../../http/stream.ts'
import type { InboundRequest, AppContext } from '../../context.ts'
import { hasEnded, type Prediction } from './prediction.ts'
import { readStreamToken } from './stream-token.ts'

/** What a prediction puts out, as server-sent events. */

/**
 * `GET /v1/streams/{token}`: `output` and `logs` as they come, `error` where it failed, and `done`. A client that comes
 * back says in `Last-Event-ID` what it has.
 */
export async function streamPrediction(app: AppContext, { params, request }: InboundRequest): Promise<Response> {
  const { keys, predictor, config } = app
  const owned = readStreamToken(keys, params[0]!)
  if (owned === undefined) throw notFound()
  const source = new PredictionSource(positionOf(request.headers.get('last-event-id')))
  // Before it is read, so that no change is missed in between.
  source.onLeave = predictor.follow(owned.id, (prediction) => source.record(prediction))
  const prediction = await predictor.find(owned.accountId, owned.id).catch((error: unknown) => {
    source.cancel()
    throw error
  })
  if (prediction === undefined) {
    source.cancel()
    throw notFound()
  }
  source.record(prediction)
  const body = streamBody(source, { text: ': keep-alive\n\n', afterMs: config.keepAliveMs }, request.signal)
  return new Response(body, {
    headers: {
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-cache',
      'x-accel-buffering': 'no',
    },
  })
}

const notFound = (): GatewayError => new GatewayError('not_found', 'There is no prediction to stream at this address.')

const positionOf = (header: string | null): number => (header !== null && /^\d{1,9}$/.test(header) ? Number(header) : 0)

/**
 * Tells what each state of a prediction has more than the one told before. Only the newest state waits for a slow
 * client.
 */
class PredictionSource implements TextSource {
  onLeave = (): void => {}
  #newest: Prediction | undefined
  #more = Promise.withResolvers<void>()
  #output: Tail
  #logs = new Tail(0)
  #isDone = false

  constructor(position: number) {
    this.#output = new Tail(position)
  }

  record(prediction: Prediction): void {
    // What was read may be older than what was heard meanwhile.
    if (this.#newest !== undefined && hasEnded(this.#newest)) return
    this.#newest = prediction
    this.#more.resolve()
  }

  async pull(): Promise<string | undefined> {
    while (!this.#isDone) {
      await this.#more.promise
      this.#more = Promise.withResolvers()
      const text = this.#tell(this.#newest!)
      if (text !== '') return text
    }
    return undefined
  }

  cancel(): void {
    this.#isDone = true
    this.onLeave()
    this.#more.resolve()
  }

  #tell(prediction: Prediction): string {
    const { output, logs, error, status } = prediction
    const ended = hasEnded(prediction)
    const pieces = this.#output
      .of(outputOf(output, ended))
      .map(({ data, position }) => `id: ${position}\n${writeFrame({ event: 'output', data })}`)
    pieces.push(...this.#logs.of(logs).map(({ data }) => writeFrame({ event: 'logs', data })))
    if (ended) {
      this.#isDone = true
      this.onLeave()
      if (status === 'failed') pieces.push(writeFrame({ event: 'error', data: JSON.stringify({ detail: error }) }))
      pieces.push(
        writeFrame({
          event: 'done',
          data: JSON.stringify(status === 'succeeded' ? {} : { reason: status === 'canceled' ? 'canceled' : 'error' }),
        }),
      )
    }
    return pieces.join('')
  }
}

/** Text grows, a list gets more members; anything else is told when it is whole. */
function outputOf(output: unknown, ended: boolean): string | readonly string[] {
  if (output === null) return ''
  if (typeof output === 'string') return output
  if (Array.isArray(output)) return output.map(asText)
  return ended ? [asText(output)] : ''
}

const asText = (value: unknown): string => (typeof value === 'string' ? value : JSON.stringify(value))

/** What a growing text or list has gained. `position`: how many characters or members were told. */
class Tail {
  #position: number

  constructor(position: number) {
    this.#position = position
  }

  of(whole: string | readonly string[]): { data: string; position: number }[] {
    const from = this.#position
    if (whole.length <= from) return []
    this.#position = whole.length
    if (typeof whole === 'string') return [{ data: whole.slice(from), position: whole.length }]
    return whole.slice(from).map((data, index) => ({ data, position: from + index + 1 }))
  }
}
