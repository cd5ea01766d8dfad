import type { AppContext } from '../../context.ts'
import { type ErrorCode, GatewayError } from '../../error.ts'
import type { GenerationEvent } from '../../generation/event.ts'
import type { Meter } from '../../ledger/meter.ts'
import { outcomeOf, type Outcome } from '../../ledger/outcomes.ts'
import { log } from '../../log/log.ts'
import { scrub } from '../../log/secrets.ts'
import type { UpstreamPrediction } from '../../protocols/predictions/call.ts'
import { type AttemptRecord, recordFailure } from '../../providers/attempt-record.ts'
import { errorOfAttempt, UpstreamRefusal } from '../../providers/upstream-refusal.ts'
import type { PredictionEndpoint } from '../../providers/catalogue.ts'
import { heldBy } from '../../providers/names.ts'
import type { Job } from './job.ts'
import { countImages, withUrls } from './media.ts'
import type { Prediction } from './prediction.ts'
import { cancelPrediction, createPrediction, getPrediction } from './provider.ts'
import { runRequest } from './run-request.ts'
import { sleep } from './sleep.ts'
import { workOf, type ForwardedWork, type GenerationWork } from './work.ts'

type Modules = Pick<
  AppContext,
  'catalogue' | 'clock' | 'config' | 'files' | 'router' | 'keys' | 'inFlight' | 'media' | 'schemaCache'
>

/** The end of a prediction. `charged`: for the usage that was metered; a failed one is charged nothing. */
export type End = { ending: Outcome; charged: boolean } & Pick<Prediction, 'status'> &
  Partial<Pick<Prediction, 'output' | 'error' | 'logs' | 'startedAt' | 'predictSeconds'>>

/** `code`: of the error, unless the provider reported it as that of the prediction. */
type Ended = End & { code?: ErrorCode }

function failed(thrown: unknown, ending?: Outcome): Ended {
  const error = errorOfAttempt(thrown)
  if (error.code === 'internal_error') log.error('A prediction failed', error.cause ?? error)
  const { code, message } = error
  return { status: 'failed', error: message, code, ending: ending ?? outcomeOf(error), charged: false }
}

/** Charged where it had been sent to a provider before its client cancelled it. */
export function canceled({ prediction, open: { meter } }: Job): End {
  return {
    status: 'canceled',
    ending: 'client-left',
    charged: prediction?.sentAt !== undefined && meter.attempts.some(({ sent }) => sent === true),
  }
}

/**
 * Runs a prediction to its end, or follows one that runs at a provider. Undefined: the server stops while it goes on
 * there, and the next start follows it.
 */
export async function run(app: Modules, job: Job, stopping: AbortSignal): Promise<End | undefined> {
  const ended = await runToEnd(app, job, stopping)
  if (ended === undefined) return undefined
  const { code = 'upstream_error', ...end } = ended
  if (end.status === 'failed')
    recordReason(job.open.meter, new GatewayError(code, scrub(end.error ?? 'It has no message.')))
  return end
}

/** The record of a prediction that failed says why, as the prediction does. */
function recordReason(meter: Meter, error: GatewayError): void {
  const attempt: Pick<AttemptRecord, 'error' | 'message'> = meter.attempts.at(-1) ?? (meter.unasked = {})
  if (attempt.error === undefined) recordFailure(attempt, error)
}

async function runToEnd(app: Modules, job: Job, stopping: AbortSignal): Promise<Ended | undefined> {
  try {
    if (job.running.upstream !== undefined) return await follow(app, job, endpointOf(app, job.running), stopping)
    if (job.running.sentAt !== undefined) return failed(LOST, 'crashed')
    return await offer(app, job, stopping)
  } catch (error) {
    // A prediction that has not been sent can wait for the next start.
    if (stopping.aborted && job.running.sentAt === undefined) return undefined
    return job.unwanted ? canceled(job) : failed(error)
  }
}

export const LOST = new GatewayError(
  'upstream_error',
  'Sluice stopped while it sent this prediction, and the response is lost. It may have run, so it is not run again, ' +
    'and it is not charged. Create it again if you still need it.',
)

const BARRED = new GatewayError(
  'account_suspended',
  'This account is suspended or banned: predictions in its queue are not run.',
)

/** A prediction is offered for this long to providers that are out of capacity. */
const OFFERED_MS = 5 * 60_000
const FIRST_OFFER_MS = 1_000
const LONGEST_OFFER_MS = 60_000

/** Runs a prediction, again and again while its providers are out of capacity. */
async function offer(app: Modules, job: Job, stopping: AbortSignal): Promise<Ended | undefined> {
  const deadline = performance.now() + Math.min(OFFERED_MS, app.config.timeouts.totalMs)
  for (let tries = 1; ; tries++) {
    if (app.keys.isBlocked(job.accountId)) throw BARRED
    const work = await workOf(app, job.running, job.cut.signal)
    try {
      return work.kind === 'generation' ? await generate(app, job, work) : await forward(app, job, work, stopping)
    } catch (error) {
      const wait = retryWait(error, tries)
      if (job.unwanted || wait === undefined || performance.now() + wait > deadline) throw error
      // No provider has taken it: a start that finds it so offers it again.
      await job.write({ sentAt: undefined })
      await sleep(wait, AbortSignal.any([job.cut.signal, stopping]))
      if (stopping.aborted && !job.unwanted) return undefined
    }
  }
}

/** With these codes a provider is out of capacity: nothing has begun there. */
const OUT_OF_CAPACITY = new Set(['upstream_rate_limited', 'overloaded'])

/**
 * Milliseconds until it is offered again, at least as long as the provider asks for. Undefined where that would not
 * help, or where the provider may have taken it.
 */
function retryWait(error: unknown, tries: number): number | undefined {
  if (!(error instanceof UpstreamRefusal) || !OUT_OF_CAPACITY.has(error.error.code)) return undefined
  const wait = Math.max(
    (error.error.retryAfterSeconds ?? 0) * 1000,
    Math.min(FIRST_OFFER_MS * 2 ** (tries - 1), LONGEST_OFFER_MS),
  )
  return wait * (1 + Math.random() / 4)
}

async function generate(app: Modules, job: Job, work: GenerationWork): Promise<End> {
  const inFlight = app.inFlight.enter(job.cut.signal)
  try {
    if (job.unwanted) return canceled(job)
    const hasStarted = job.running.status === 'processing'
    const sentAt = app.clock.now()
    await job.write({ status: 'processing', startedAt: job.running.startedAt ?? sentAt, sentAt })
    if (!hasStarted) job.notify('start')
    const output = await runRequest(app, job, work, inFlight)
    return { status: 'succeeded', output, ending: 'completed', charged: true }
  } catch (error) {
    if (inFlight.reason !== undefined && !job.unwanted) return failed(inFlight.reason, 'shutdown')
    throw error
  } finally {
    work.release()
    inFlight.leave()
  }
}

async function forward(app: Modules, job: Job, work: ForwardedWork, stopping: AbortSignal): Promise<Ended | undefined> {
  // A cancellation does not abort a creation: the provider might run a prediction whose id is not known here.
  const inFlight = app.inFlight.enter(NEVER)
  try {
    if (job.unwanted) return canceled(job)
    await job.write({ sentAt: app.clock.now() })
    const { endpoint, reported } = await createPrediction(app, work, job.open.meter, inFlight)
    // If this cannot be written, a crash would lose the prediction; that is no reason to lose it now.
    await job
      .write({ upstream: { provider: endpoint.name, id: reported.id }, unwanted: job.unwanted })
      .catch((error: unknown) => log.error('A prediction could not be written', error))
    inFlight.leave()
    return (await apply(app, job, reported).catch(logDefect)) ?? (await follow(app, job, endpoint, stopping))
  } catch (error) {
    if (inFlight.reason !== undefined) return failed(inFlight.reason, 'shutdown')
    // A prediction that was never created is not charged.
    if (job.unwanted) return { ...canceled(job), charged: false }
    throw error
  } finally {
    inFlight.leave()
  }
}

const NEVER = new AbortController().signal

/** Undefined where the operator has disabled provider or model: it may be enabled again after the next start. */
function endpointOf({ catalogue }: Modules, { model, upstream }: Prediction): PredictionEndpoint | undefined {
  try {
    return heldBy(catalogue.predictionEndpoints(model), upstream!.provider)
  } catch {
    return undefined
  }
}

const SHORTEST_WAIT_MS = 250
const LONGEST_WAIT_MS = 5_000
/** Part of its age after which a prediction is polled again, so its end is noticed late by at most this part. */
const WAIT_SHARE = 1 / 8

const waitAt = (ageMs: number): number => Math.min(Math.max(ageMs * WAIT_SHARE, SHORTEST_WAIT_MS), LONGEST_WAIT_MS)

/** A provider that does not know a prediction it created is believed after this many polls in a row. */
const UNKNOWN_TIMES = 5

type FollowState = { stopping: boolean; unwanted: boolean; late: boolean }

/** A stop goes first: what happens to a prediction then is decided by the next start. */
function nextStep({ stopping, unwanted, late }: FollowState): 'poll' | 'cancel' | 'give-up' | 'leave' {
  if (stopping) return 'leave'
  if (unwanted) return 'cancel'
  return late ? 'give-up' : 'poll'
}

/** Polls a prediction, at intervals that grow with its age, until it has ended. Undefined where the server stops. */
async function follow(
  app: Modules,
  job: Job,
  endpoint: PredictionEndpoint | undefined,
  stopping: AbortSignal,
): Promise<Ended | undefined> {
  const sentAt = job.running.sentAt!
  const deadline = sentAt + app.config.timeouts.totalMs
  const poll = pollerOf(app, job, endpoint)
  for (let wait = SHORTEST_WAIT_MS; ; wait = waitAt(app.clock.now() - sentAt)) {
    // Spread, so that a restart does not poll all of them at once.
    await sleep(wait * (0.75 + Math.random() / 2), job.cut.signal)
    const step = nextStep({ stopping: stopping.aborted, unwanted: job.unwanted, late: app.clock.now() > deadline })
    if (step === 'leave') return undefined
    const end = await (step === 'poll' ? poll() : cancelAndEnd(app, job, endpoint, stopping))
    if (end !== undefined || step !== 'poll') return end
  }
}

/** Polls once: the end of the prediction, where it has ended or its provider has lost it. */
function pollerOf(app: Modules, job: Job, endpoint: PredictionEndpoint | undefined): () => Promise<Ended | undefined> {
  let unknownTimes = 0
  return async () => {
    if (endpoint === undefined) return undefined
    try {
      const reported = await getPrediction(app, endpoint, job.running.upstream!.id, job.cut.signal)
      unknownTimes = reported === undefined ? unknownTimes + 1 : 0
      if (unknownTimes === UNKNOWN_TIMES) return failed(UNKNOWN)
      return reported === undefined ? undefined : await apply(app, job, reported)
    } catch (error) {
      return logDefect(error)
    }
  }
}

/** Ends a prediction that is not wanted any more, or late. Undefined where the server stops meanwhile. */
async function cancelAndEnd(
  app: Modules,
  job: Job,
  endpoint: PredictionEndpoint | undefined,
  stopping: AbortSignal,
): Promise<Ended | undefined> {
  const end = await cancel(app, job, endpoint, stopping)
  if (end === undefined && stopping.aborted) return undefined
  if (job.unwanted) return end ?? canceled(job)
  // A late one was not cancelled by its client, so it has failed.
  return end === undefined || end.status === 'canceled' ? failed(TOO_LONG, 'timed-out') : end
}

/** The prediction goes on at its provider, so a failed poll, or a full disk, is only a reason to poll again. */
function logDefect(error: unknown): undefined {
  if (!(error instanceof GatewayError)) log.error('A prediction could not be polled', error)
}

const TOO_LONG = new GatewayError('upstream_timeout', 'The prediction did not end in time (total timeout).')
const UNKNOWN = new GatewayError('upstream_error', 'The provider does not know the prediction any more.')

/** After this many failed cancellations the provider is left to finish the prediction. */
const CANCEL_TRIES = 3
const CANCEL_MS = 10_000

/** Cancels a prediction at its provider; gives its end where it had ended before. */
async function cancel(
  app: Modules,
  job: Job,
  endpoint: PredictionEndpoint | undefined,
  stopping: AbortSignal,
): Promise<Ended | undefined> {
  for (let tries = 0; endpoint !== undefined && tries < CANCEL_TRIES && !stopping.aborted; tries++) {
    const signal = AbortSignal.any([stopping, AbortSignal.timeout(CANCEL_MS)])
    try {
      const reported = await cancelPrediction(app, endpoint, job.running.upstream!.id, signal)
      return reported === undefined ? undefined : await apply(app, job, reported)
    } catch {
      await sleep(SHORTEST_WAIT_MS, stopping)
    }
  }
  return undefined
}

/** Puts what the provider reports into the prediction; gives its end, where it has ended. */
async function apply(app: Modules, job: Job, reported: UpstreamPrediction): Promise<Ended | undefined> {
  const { status, logs, output, predictSeconds } = reported
  const before = job.running
  const startedAt = before.startedAt ?? reported.startedAt ?? (status === 'starting' ? null : app.clock.now())
  const metrics = { logs, startedAt, ...(predictSeconds === undefined ? {} : { predictSeconds }) }
  switch (status) {
    case 'starting':
      return undefined
    case 'succeeded':
      return { ...metrics, ...(await succeeded(app, job, reported)) }
    case 'failed':
      return {
        ...metrics,
        status,
        output,
        error: reported.error ?? 'The provider failed without a reason.',
        ending: 'failed',
        charged: false,
      }
    case 'canceled':
      return {
        ...metrics,
        output,
        ...(job.unwanted ? canceled(job) : { status, ending: 'failed' as const, charged: false }),
      }
  }
  if (before.status === 'starting') {
    await job.write({ status, startedAt })
    job.notify('start')
  }
  if (!Bun.deepEquals(output, before.output)) job.change({ output }, 'output')
  if (logs !== before.logs) job.change({ logs }, 'logs')
  return undefined
}

/** The end of a successful prediction, metered by its images. */
async function succeeded(app: Modules, job: Job, { id, status, output }: UpstreamPrediction): Promise<End> {
  const published = await withUrls(app, job.running, output)
  const images = Array.from(
    { length: countImages(output) },
    (_, part): GenerationEvent => ({ type: 'part-start', part, head: { type: 'image', mediaType: '' } }),
  )
  job.open.meter.record([
    { type: 'start', id, model: job.running.model },
    ...images,
    { type: 'finish', reason: 'stop', raw: status },
  ])
  return { status: 'succeeded', output: published, ending: 'completed', charged: true }
}
