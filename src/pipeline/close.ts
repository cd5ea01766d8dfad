import { asGatewayError, type GatewayError } from '../error.ts'
import type { Frame } from '../http/frames.ts'
import type { Outcome } from '../ledger/outcomes.ts'
import { protocols } from '../protocols/index.ts'
import type { ResponseContext } from '../protocols/protocol.ts'
import { recordFailure } from '../providers/attempt-record.ts'
import type { ClosableGeneration } from './hooks.ts'
import { endSending } from './routing.ts'

/**
 * The one place where every generation ends. Record, settlement and what has to be kept are committed together, before
 * the last byte leaves. Rejects with store_unavailable where they could not be.
 */
export async function close(generation: ClosableGeneration, outcome: Outcome): Promise<void> {
  const { app, open, route } = generation
  leave(generation)
  const cause = firstCause(generation, outcome)
  if (generation.sending !== undefined) endSending(generation.sending, cause, open.meter, open.request.streamed)
  generation.slot?.end()
  generation.capture?.ended(cause, open.meter.losses.length)
  const deferred = cause === 'completed' ? undefined : route.hooks.onInterrupt?.(generation, cause)
  if (deferred !== undefined) return deferred
  // Handed to the store in one turn of the event loop, they are one transaction.
  const closed = app.ledger.close(open, cause)
  const others = [route.hooks.saved?.(), keepReasoning(generation), keepIds(generation)].filter(
    (other) => other !== undefined,
  )
  await (others.length === 0 ? closed : Promise.all([closed, ...others]))
}

/** The same for a stream. One that could not be recorded must not look complete: its last frames are an error then. */
export async function closeStream(
  generation: ClosableGeneration,
  context: ResponseContext,
  outcome: Outcome,
  last: Frame[],
): Promise<Frame[]> {
  try {
    await close(generation, outcome)
    return last
  } catch (thrown) {
    const error = asGatewayError(thrown)
    return (
      generation.route.hooks.onUnrecorded?.(last, error) ??
      protocols[context.request.protocol].serve.writer(context).write({ type: 'error', error })
    )
  }
}

/** The attempt that was answered failed after the head of its response: at once, or in the midst of a stream. */
export function failAttempt({ sending, inFlight, open }: ClosableGeneration, error: GatewayError): void {
  if (sending === undefined || inFlight.aborted || inFlight.left || inFlight.reason !== undefined) return
  if (open.isCancelled === true) return
  const record = open.meter.attempts.at(-1)!
  record.milliseconds = Math.round(sending.ageMs)
  recordFailure(record, error)
}

/** The generation failed before an endpoint was asked. */
export function failUnasked({ inFlight, open }: ClosableGeneration, error: GatewayError): void {
  if (inFlight.aborted || inFlight.left || inFlight.reason !== undefined) return
  open.meter.unasked = {}
  recordFailure(open.meter.unasked, error)
}

/** The client is not waited for any more, and the memory of its media is free. */
export function leave({ app, open, inFlight, media, clientSignal }: ClosableGeneration): void {
  media?.release()
  app.memory.release(clientSignal)
  if (inFlight.leave()) app.abuseDetection.end(open.request.accountId)
}

/**
 * Keeps signed reasoning for clients that do not send it back, while there is space for it. Failing to store it must
 * not fail the response.
 */
const keepReasoning = ({ app, open: { request }, replayRecorder }: ClosableGeneration): Promise<void> | undefined =>
  replayRecorder === undefined || app.space.isShort
    ? undefined
    : app.reasoningReplay.keep(request.accountId, replayRecorder).catch(() => {})

/** Keeps the ids that the response named, which may fail as little. */
const keepIds = ({ app, open: { request }, issuedIds }: ClosableGeneration): Promise<void> | undefined =>
  issuedIds === undefined ? undefined : app.issuedIds.keep(request.accountId, issuedIds).catch(() => {})

/**
 * A client that leaves, or has the response cancelled, and a server that stops end the call, which then looks like a
 * failure of the provider.
 */
function firstCause({ inFlight, open }: ClosableGeneration, outcome: Outcome): Outcome {
  if (outcome === 'completed' || outcome === 'exhausted') return outcome
  if (inFlight.reason !== undefined) return 'shutdown'
  return inFlight.aborted || open.isCancelled === true ? 'client-left' : outcome
}
