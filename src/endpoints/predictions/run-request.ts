import type { AppContext } from '../../context.ts'
import { GatewayError } from '../../error.ts'
import { Fold, type GenerationEvent, type PartHead } from '../../generation/event.ts'
import { FrameSplitter } from '../../http/frames.ts'
import type { CallSignal } from '../../http/connection.ts'
import type { OpenGeneration } from '../../ledger/ledger.ts'
import { missingImage } from '../../protocols/images/write-response.ts'
import { attempt, PreparedRequests, readAnswer, readerOf, readWhole, type Upstream } from '../../providers/attempt.ts'
import { fetchImages } from '../../providers/image-urls.ts'
import { joinAnswers } from '../../providers/join-answers.ts'
import { publish } from './media.ts'
import { PREFIX, type Prediction } from './prediction.ts'
import type { Asked } from './work.ts'

type Rooms = Pick<AppContext, 'config' | 'files' | 'schemaCache'>

/**
 * A prediction by a model of ours that answers requests: sends one, lets the meter hear the answer, and tells its text
 * as it grows. Gives the output, a text, or
 * for what holds images a list with their URLs. Throws a Refusal where no provider began to answer, and what it broke
 * with later.
 */
export async function runRequest(
  rooms: Rooms,
  prediction: Prediction,
  { endpoints, rawRequest, request }: Asked,
  open: OpenGeneration,
  signal: CallSignal,
  growth: (output: string) => void,
): Promise<unknown> {
  const responseIdentity = {
    id: PREFIX + prediction.id,
    model: prediction.model,
    createdAt: Math.floor(prediction.createdAt / 1000),
  }
  const upstream = await attempt(
    endpoints,
    new PreparedRequests({ rawRequest, request, responseIdentity }, rooms.schemaCache),
    rooms.config.timeouts,
    signal,
    open.meter.tries,
  )
  open.meter.served = upstream.endpoint.target
  open.meter.losses = upstream.losses
  const fold = new Fold()
  let text = ''
  let head: PartHead | undefined
  const record = (events: readonly GenerationEvent[]): void => {
    open.meter.record(events)
    const before = text
    for (const event of events) {
      fold.add(event)
      if (event.type === 'part-start') head = event.head
      if (event.type === 'part-delta' && (head?.type === 'text' || head?.type === 'refusal')) text += event.text
    }
    if (text !== before) growth(text)
  }
  await listen(rooms, upstream, signal, record, () => fold.finished)
  if (!fold.finished)
    throw new GatewayError('upstream_error', 'The provider answered 200 with something that is no answer.')
  const urls: string[] = []
  for (const part of fold.answer.parts)
    if (part.type === 'image' && part.source.type === 'data')
      urls.push(await publish(rooms, prediction, part.source.mediaType, part.source.data))
  if (request.protocol !== 'images') return urls.length === 0 ? text : [...(text === '' ? [] : [text]), ...urls]
  if (urls.length === 0) throw missingImage(fold.answer)
  return urls
}

/** Reads an answer, streamed or whole, to its end. Throws the error that it ended with. */
async function listen(
  rooms: Rooms,
  upstream: Upstream,
  signal: CallSignal,
  record: (events: readonly GenerationEvent[]) => void,
  isOver: () => boolean,
): Promise<void> {
  const { incoming, protocol, endpoint, context } = upstream
  if (!context.request.stream || (incoming.headers.get('content-type') ?? '').startsWith('application/json')) {
    const text = await readWhole(upstream)
    const events = readAnswer(
      upstream,
      endpoint.protocol === 'images' ? await fetchImages(text, upstream, rooms.config, signal) : text,
    )
    return record(
      context.request.protocol === 'images' && !upstream.sameProtocol
        ? await joinAnswers(rooms, upstream, signal, events)
        : events,
    )
  }
  const reader = readerOf(upstream)
  const splitter = new FrameSplitter()
  try {
    while (!isOver()) {
      const bytes = await incoming.body.read()
      const frames = bytes === undefined ? splitter.end() : splitter.push(bytes)
      for (const frame of frames) if (!isOver()) record(reader.read(frame))
      if (bytes === undefined) {
        if (!isOver()) record(reader.end())
        return
      }
    }
  } finally {
    incoming.body.cancel()
  }
}
