import type { AppContext } from '../../context.ts'
import { GatewayError } from '../../error.ts'
import { Fold, type GenerationEvent, type PartHead } from '../../generation/event.ts'
import { promptTokens } from '../../generation/usage.ts'
import type { CallSignal } from '../../http/connection.ts'
import type { OpenGeneration } from '../../ledger/ledger.ts'
import { eventStream } from '../../pipeline/framing.ts'
import { readText } from '../../pipeline/images.ts'
import { MeteredStream } from '../../pipeline/metered-stream.ts'
import type { Output } from '../../pipeline/output.ts'
import { Relay } from '../../pipeline/relay.ts'
import { isStream } from '../../pipeline/respond.ts'
import { missingImage } from '../../protocols/images/write-response.ts'
import type { RequestContext } from '../../protocols/protocol.ts'
import { PreparedRequests, readerOf, servedBy, tryReadEvents, type Upstream } from '../../providers/attempt.ts'
import { Attempts } from '../../providers/routing/attempts.ts'
import { joinResponses } from '../../providers/join-responses.ts'
import type { Job } from './job.ts'
import { publish } from './media.ts'
import { PREFIX, type Prediction } from './prediction.ts'
import type { GenerationWork } from './work.ts'

type Modules = Pick<AppContext, 'config' | 'files' | 'router' | 'schemaCache'>

/**
 * Runs a prediction by a generation model: sends one request, meters the response, and reports its text as it comes.
 * Gives the output: the text, or a list with the URLs of its images where it has any. Throws an UpstreamRefusal where
 * no provider began to respond, otherwise the error that ended the response.
 */
export async function runRequest(
  app: Modules,
  job: Job,
  { endpoints, rawRequest, request }: GenerationWork,
  signal: CallSignal,
): Promise<unknown> {
  const { running: prediction, open } = job
  const responseIdentity = {
    id: PREFIX + prediction.id,
    model: prediction.model,
    createdAt: Math.floor(prediction.createdAt / 1000),
  }
  const { router, config } = app
  const { upstream, sending } = await new Attempts(
    {
      router,
      settings: config.routing,
      endpoints,
      promptTokens: Math.ceil(promptTokens(open.request.worst) / 2),
      timeouts: config.timeouts,
      signal,
      records: open.meter.attempts,
    },
    new PreparedRequests({ rawRequest, request, responseIdentity }, app.schemaCache),
  ).next()
  open.meter.served = servedBy(upstream.endpoint)
  open.meter.losses = upstream.losses
  const result = new ResultSink((text) => job.change({ output: text }, 'output'))
  try {
    if (request.stream && isStream(upstream)) await relay(upstream, result, open)
    else {
      const events = await readEvents(app, upstream, signal)
      open.meter.record(events)
      for (const event of events) result.add(event)
      result.frame()
    }
    sending.end('success')
  } finally {
    sending.end(signal.aborted ? 'none' : 'fault')
  }
  return outputOf(app, prediction, upstream, result)
}

/** The events of a response in one piece, with the further responses that the number of images needs. */
async function readEvents(
  app: Modules,
  upstream: Upstream<RequestContext>,
  signal: CallSignal,
): Promise<GenerationEvent[]> {
  const { context, sameProtocol } = upstream
  const read = tryReadEvents(upstream, await readText(app.config, upstream, signal))
  const events = read instanceof GatewayError ? [] : read
  return context.request.protocol === 'images' && !sameProtocol ? joinResponses(app, upstream, signal, events) : events
}

/** Reads a streamed response to its end. Throws the error that ended it. */
async function relay(upstream: Upstream, sink: Output, open: OpenGeneration): Promise<void> {
  const stream = new MeteredStream(readerOf(upstream), sink, open.meter)
  // The predictor closes the generation, after it has written the end of the prediction.
  const source = new Relay(upstream.incoming.body, stream, eventStream, (_outcome, last) => Promise.resolve(last))
  while ((await source.pull()) !== undefined) continue
  if (stream.error !== undefined) throw stream.error
}

/** Adds up the events of a response, of which no frames are written. */
class ResultSink implements Output {
  readonly reportsUsage = false
  readonly #onText: (text: string) => void
  readonly result = new Fold()
  #head: PartHead | undefined
  #reportedLength = 0
  text = ''

  constructor(onText: (text: string) => void) {
    this.#onText = onText
  }

  /** Throws the error of an error event. */
  add(event: GenerationEvent): void {
    this.result.add(event)
    if (event.type === 'part-start') this.#head = event.head
    if (event.type === 'part-delta' && (this.#head?.type === 'text' || this.#head?.type === 'refusal'))
      this.text += event.text
  }

  /** An error ends the relay, and is thrown from there. */
  event(event: GenerationEvent): void {
    if (event.type !== 'error') this.add(event)
  }

  /** Reports the text after each frame, not after each of its events. */
  frame(): void {
    if (this.text.length === this.#reportedLength) return
    this.#reportedLength = this.text.length
    this.#onText(this.text)
  }

  counted(): void {}

  end(): void {
    this.frame()
  }
}

async function outputOf(
  app: Modules,
  prediction: Prediction,
  { context }: Upstream,
  { text, result }: ResultSink,
): Promise<unknown> {
  if (!result.finished)
    throw new GatewayError('upstream_error', 'The provider answered 200 with a body that is not a response.')
  const urls: string[] = []
  for (const part of result.answer.parts)
    if (part.type === 'image' && part.source.type === 'data')
      urls.push(await publish(app, prediction, part.source.mediaType, part.source.data))
  if (context.request.protocol !== 'images') return urls.length === 0 ? text : [...(text === '' ? [] : [text]), ...urls]
  if (urls.length === 0) throw missingImage(result.answer)
  return urls
}
