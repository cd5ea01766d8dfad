import type { AppContext } from '../../context.ts'
import { asGatewayError, GatewayError } from '../../error.ts'
import type { GenerationEvent } from '../../generation/event.ts'
import { outcomeOf, type Outcome } from '../../ledger/outcomes.ts'
import type { UpstreamPrediction } from '../../protocols/predictions/call.ts'
import { UpstreamRefusal } from '../../providers/attempt.ts'
import type { PredictionEndpoint } from '../../providers/catalogue.ts'
import type { Job } from './job.ts'
import { picturesIn, withUrls } from './media.ts'
import type { Prediction } from './prediction.ts'
import { ask, cancel, create } from './provider.ts'
import { runRequest } from './run-request.ts'
import { workOf, type Asked, type Forwarded, type ResolveMedia } from './work.ts'

export type Rooms = Pick<AppContext, 'catalogue' | 'config' | 'files' | 'keys' | 'inFlight'> & {
  resolveMedia: ResolveMedia
}

/** How a prediction ended. `charged`: for what was heard; one that failed is charged nothing. */
export type End = { ending: Outcome; charged: boolean } & Pick<Prediction, 'status'> &
  Partial<Pick<Prediction, 'output' | 'error' | 'logs' | 'startedAt' | 'predictSeconds'>>

export function failed(thrown: unknown, ending?: Outcome): End {
  const error = thrown instanceof UpstreamRefusal ? thrown.error : thrown
  if (!(error instanceof GatewayError)) console.error(error)
  return { status: 'failed', error: asGatewayError(error).message, ending: ending ?? outcomeOf(error), charged: false }
}

/** For what had gone out to a provider before its client did not want it any more. */
export function canceled({ prediction, open: { meter } }: Job): End {
  return {
    status: 'canceled',
    ending: 'client-left',
    charged: prediction?.sentAt !== undefined && meter.tries.some(({ sent }) => sent === true),
  }
}

/**
 * Runs a prediction to its end, or follows one that runs. Undefined: the server stops while it goes on at its provider,
 * so that the next start follows it.
 */
export async function run(rooms: Rooms, job: Job, stopping: AbortSignal): Promise<End | undefined> {
  const offeredUntil = performance.now() + Math.min(OFFERED_MS, rooms.config.timeouts.totalMs)
  try {
    if (job.running.upstream !== undefined) return await follow(rooms, job, endpointOf(rooms, job.running), stopping)
    if (job.running.sentAt !== undefined) return failed(LOST, 'crashed')
    for (let tries = 1; ; tries++) {
      if (rooms.keys.isBlocked(job.accountId)) throw BARRED
      const work = await workOf(rooms, job.running, job.cut.signal)
      try {
        return work.kind === 'request' ? await answer(rooms, job, work) : await forward(rooms, job, work, stopping)
      } catch (error) {
        const wait = waitAfter(error, tries)
        if (job.unwanted || wait === undefined || performance.now() + wait > offeredUntil) throw error
        // Nobody has taken it: a start that finds it so offers it again.
        await job.write({ sentAt: undefined })
        await sleep(wait, AbortSignal.any([job.cut.signal, stopping]))
        if (stopping.aborted && !job.unwanted) return undefined
      }
    }
  } catch (error) {
    // What has not been sent can wait for the next start.
    if (stopping.aborted && job.running.sentAt === undefined) return undefined
    return job.unwanted ? canceled(job) : failed(error)
  }
}

export const LOST = new GatewayError(
  'upstream_error',
  'Sluice was stopped while its provider was asked, and the answer is lost: it is not run again, as it may have run there, and not charged. Create it again if you still want it.',
)

const BARRED = new GatewayError('account_suspended', 'This account is suspended or banned: what waited was not run.')

/** So long a prediction is offered to providers that say that they have no room for it now. */
const OFFERED_MS = 5 * 60_000
const FIRST_OFFER_MS = 1_000
const LONGEST_OFFER_MS = 60_000

/** With these codes a provider has no room now: nothing has begun there. */
const LATER = new Set(['upstream_rate_limited', 'overloaded'])

/**
 * How long to wait before it is offered again, at least as long as its provider says. Undefined where that would not
 * help, or it may have been taken.
 */
function waitAfter(error: unknown, tries: number): number | undefined {
  if (!(error instanceof UpstreamRefusal) || !LATER.has(error.error.code)) return undefined
  const wait = Math.max(
    (error.error.retryAfterSeconds ?? 0) * 1000,
    Math.min(FIRST_OFFER_MS * 2 ** (tries - 1), LONGEST_OFFER_MS),
  )
  return wait * (1 + Math.random() / 4)
}

async function answer(rooms: Rooms, job: Job, work: Asked): Promise<End> {
  const inFlight = rooms.inFlight.enter(job.cut.signal)
  try {
    if (job.unwanted) return canceled(job)
    const begun = job.running.status === 'processing'
    const sentAt = Date.now()
    await job.write({ status: 'processing', startedAt: job.running.startedAt ?? sentAt, sentAt })
    if (!begun) job.tell('start')
    const output = await runRequest(rooms, job.running, work, job.open, inFlight, (output) =>
      job.change({ output }, 'output'),
    )
    return { status: 'succeeded', output, ending: 'completed', charged: true }
  } catch (error) {
    if (inFlight.reason !== undefined && !job.unwanted) return failed(inFlight.reason, 'shutdown')
    throw error
  } finally {
    work.release()
    inFlight.leave()
  }
}

async function forward(rooms: Rooms, job: Job, work: Forwarded, stopping: AbortSignal): Promise<End | undefined> {
  // A creation is not broken off by its client: the provider might go on with what nobody knows.
  const inFlight = rooms.inFlight.enter(NEVER)
  try {
    if (job.unwanted) return canceled(job)
    await job.write({ sentAt: Date.now() })
    const { endpoint, said } = await create(rooms, work, job.open.meter, inFlight)
    // Where this cannot be written, a crash would lose sight of it; that is no reason to lose it now.
    await job
      .write({ upstream: { provider: endpoint.provider.id, id: said.id }, unwanted: job.unwanted })
      .catch((error: unknown) => console.error(error))
    inFlight.leave()
    return (await heard(rooms, job, said).catch(again)) ?? (await follow(rooms, job, endpoint, stopping))
  } catch (error) {
    if (inFlight.reason !== undefined) return failed(inFlight.reason, 'shutdown')
    // What was never created is not paid for.
    if (job.unwanted) return { ...canceled(job), charged: false }
    throw error
  } finally {
    inFlight.leave()
  }
}

const NEVER = new AbortController().signal

/** Undefined where the operator has switched it off, or the model: it may be on again after the next start. */
function endpointOf({ catalogue }: Rooms, { model, upstream }: Prediction): PredictionEndpoint | undefined {
  try {
    return catalogue.predictionEndpoints(model).find(({ provider }) => provider.id === upstream!.provider)
  } catch {
    return undefined
  }
}

const SHORTEST_WAIT_MS = 250
const LONGEST_WAIT_MS = 5_000
/**
 * Of its age a prediction is asked after again: its end is heard of later by no larger part of the time that it took.
 */
const WAIT_SHARE = 1 / 8

const waitAt = (ageMs: number): number => Math.min(Math.max(ageMs * WAIT_SHARE, SHORTEST_WAIT_MS), LONGEST_WAIT_MS)

/** So often in a row a provider must not know a prediction that it made before that is believed. */
const UNKNOWN_TIMES = 5

/**
 * Asks after a prediction, at intervals that grow with its age, until it has ended. A provider that does not say is
 * asked again.
 */
async function follow(
  rooms: Rooms,
  job: Job,
  endpoint: PredictionEndpoint | undefined,
  stopping: AbortSignal,
): Promise<End | undefined> {
  const { id } = job.running.upstream!
  const sentAt = job.running.sentAt!
  const deadline = sentAt + rooms.config.timeouts.totalMs
  let unknown = 0
  for (let wait = SHORTEST_WAIT_MS; ; wait = waitAt(Date.now() - sentAt)) {
    // Not all at once after a restart.
    await sleep(wait * (0.75 + Math.random() / 2), job.cut.signal)
    if (stopping.aborted) return undefined
    const isLate = Date.now() > deadline
    if (job.unwanted || isLate) {
      const end = await stopped(rooms, job, endpoint, stopping)
      if (end === undefined && stopping.aborted) return undefined
      if (job.unwanted) return end ?? canceled(job)
      // Its client did not cancel it, and is told why it ended.
      return end === undefined || end.status === 'canceled' ? failed(TOO_LONG, 'timed-out') : end
    }
    if (endpoint === undefined) continue
    try {
      const said = await ask(rooms, endpoint, id, job.cut.signal)
      unknown = said === undefined ? unknown + 1 : 0
      if (unknown === UNKNOWN_TIMES) return failed(FORGOTTEN)
      const end = said === undefined ? undefined : await heard(rooms, job, said)
      if (end !== undefined) return end
    } catch (error) {
      again(error)
    }
  }
}

/**
 * A prediction goes on at its provider, whatever is wrong with the way to it, or with the disk that its output has to
 * be written to.
 */
function again(error: unknown): undefined {
  if (!(error instanceof GatewayError)) console.error(error)
}

const TOO_LONG = new GatewayError('upstream_timeout', 'The prediction did not end in time (total timeout).')
const FORGOTTEN = new GatewayError('upstream_error', 'The provider does not know the prediction any more.')

/** Returns at once when the signal fires, or has. */
const sleep = (ms: number, signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    const over = (): void => {
      clearTimeout(timer)
      signal.removeEventListener('abort', over)
      resolve()
    }
    const timer = setTimeout(over, signal.aborted ? 0 : ms)
    signal.addEventListener('abort', over, { once: true })
  })

/** A provider that does not take a cancellation so often is left to itself. */
const CANCEL_TRIES = 3
const CANCEL_MS = 10_000

/** Tells its provider to stop; gives its end where it had ended before. */
async function stopped(
  rooms: Rooms,
  job: Job,
  endpoint: PredictionEndpoint | undefined,
  stopping: AbortSignal,
): Promise<End | undefined> {
  for (let tries = 0; endpoint !== undefined && tries < CANCEL_TRIES && !stopping.aborted; tries++) {
    try {
      const said = await cancel(
        rooms,
        endpoint,
        job.running.upstream!.id,
        AbortSignal.any([stopping, AbortSignal.timeout(CANCEL_MS)]),
      )
      return said === undefined ? undefined : await heard(rooms, job, said)
    } catch {
      await sleep(SHORTEST_WAIT_MS, stopping)
    }
  }
  return undefined
}

/** What a provider says, put into the prediction; its end, where that is it. */
async function heard(rooms: Rooms, job: Job, said: UpstreamPrediction): Promise<End | undefined> {
  const { id, status, logs, predictSeconds } = said
  const before = job.running
  const startedAt = before.startedAt ?? said.startedAt ?? (status === 'starting' ? null : Date.now())
  const told = { logs, startedAt, ...(predictSeconds === undefined ? {} : { predictSeconds }) }
  switch (status) {
    case 'starting':
      return undefined
    case 'succeeded': {
      const output = await withUrls(rooms, before, said.output)
      const pictures = Array.from(
        { length: picturesIn(said.output) },
        (_, part): GenerationEvent => ({ type: 'part-start', part, head: { type: 'image', mediaType: '' } }),
      )
      job.open.meter.record([
        { type: 'start', id, model: before.model },
        ...pictures,
        { type: 'finish', reason: 'stop', raw: status },
      ])
      return { ...told, status, output, ending: 'completed', charged: true }
    }
    case 'failed':
      return {
        ...told,
        status,
        output: said.output,
        error: said.error ?? 'The provider failed without saying why.',
        ending: 'failed',
        charged: false,
      }
    case 'canceled':
      return {
        ...told,
        output: said.output,
        ...(job.unwanted ? canceled(job) : { status, ending: 'failed' as const, charged: false }),
      }
  }
  if (before.status === 'starting') {
    await job.write({ status, startedAt })
    job.tell('start')
  }
  if (!Bun.deepEquals(said.output, before.output)) job.change({ output: said.output }, 'output')
  if (logs !== before.logs) job.change({ logs }, 'logs')
  return undefined
}
