import type { AppContext, AuthenticatedRequest } from '../../context.ts'
import { within } from '../../deadlines.ts'
import { asGatewayError } from '../../error.ts'
import { reserve } from '../../ledger/admission.ts'
import { whenLeased } from '../../ledger/leases.ts'
import type { Outcome } from '../../ledger/outcomes.ts'
import type { OpenGeneration } from '../../ledger/ledger.ts'
import type { Price } from '../../ledger/prices.ts'
import { log } from '../../log/log.ts'
import { Job } from './job.ts'
import {
  created,
  hasEnded,
  failedAt,
  readState,
  readStored,
  toChange,
  toStored,
  type Listener,
  type NewPrediction,
  type PredictionOutcome,
  type Prediction,
} from './prediction.ts'
import { Queue } from './queue.ts'
import { RemotePredictions } from './remote.ts'
import { canceled, LOST, run, type End } from './run.ts'
import type { Webhooks } from './webhooks.ts'
import { countInput, type Work, workOf, worstUsage, requestedClasses } from './work.ts'

const API = 'predictions'

/** The delay before a failed store operation is tried again. */
const RETRY_MS = 2_000

/** The longest wait of a cancellation for its provider, and of a question for an end that is being written. */
const CANCEL_MS = 5_000
const END_MS = 1_000

/** The part of the context that only the routes of predictions need. */
export type PredictionContext = { predictor: Predictor }

/**
 * All unfinished predictions: admits, queues, runs and ends them, over restarts too. docs/decisions/0011 describes the
 * order in which they are written.
 */
export class Predictor {
  readonly #app: AppContext
  readonly #webhooks: Webhooks
  readonly #jobs = new Map<string, Job>()
  readonly #queues = new Map<string, Queue>()
  readonly #stopping = new AbortController()
  /** Set where several processes share the store. */
  readonly #remote: RemotePredictions | undefined

  constructor(app: AppContext, webhooks: Webhooks) {
    this.#app = app
    this.#webhooks = webhooks
    const { shared } = app.store.predictions
    this.#remote = shared && new RemotePredictions(shared, app.config.predictions, this.#stopping.signal)
    void this.#remote?.watchCancellations(
      () => this.#jobs.size > 0,
      (accountId, id) => {
        if (this.#jobs.get(id)?.unwanted === false) void this.cancel(accountId, id).catch(() => {})
      },
    )
  }

  /**
   * Continues with what the last process left: predictions that had ended are settled, those that run at a provider are
   * followed, those that had not begun are queued again.
   */
  async start(): Promise<void> {
    const { store, ledger } = this.#app
    const opens = new Map(
      ledger.deferred.filter(({ request }) => request.api === API).map((open) => [open.request.id, open]),
    )
    let page = await store.predictions.unfinished()
    while (page.length > 0) {
      for (const { id, accountId, state } of page) {
        const open = opens.get(id)
        opens.delete(id)
        if (open === undefined) void this.#abandon(accountId, id)
        else this.#resume({ id, accountId, ...readState(state) }, open)
      }
      page = await store.predictions.unfinished(page.at(-1)!.id)
    }
    for (const open of opens.values()) await this.#settle(open)
  }

  /** Continues with what another process left that has ended. `deferred`: its generations that go on here. */
  async adopt(deferred: readonly OpenGeneration[]): Promise<void> {
    for (const open of deferred.filter(({ request }) => request.api === API))
      await this.#persist(async () => {
        const { accountId, id } = open.request
        const stored = await this.#app.store.predictions.shared?.findState(accountId, id)
        if (stored === undefined || stored.completedAt !== null) await this.#settle(open)
        else this.#resume({ id, accountId, ...readState(stored.state) }, open)
      })
  }

  #resume(
    prediction: Pick<Prediction, 'id' | 'accountId' | 'unwanted' | 'upstream' | 'sentAt'>,
    open: OpenGeneration,
  ): void {
    const { upstream, sentAt } = prediction
    if (upstream !== undefined) open.meter.attempts.push({ provider: upstream.provider, sent: true, milliseconds: 0 })
    const job = this.#job(prediction, open)
    this.#queue(job.accountId).add(job, sentAt !== undefined)
  }

  /** Ends a prediction without a generation, which is charged nothing. */
  async #abandon(accountId: string, id: string): Promise<void> {
    const stored = await this.#persist(() => this.#app.store.predictions.find(accountId, id))
    if (stored === undefined) return
    const ended: Prediction = { ...readStored(stored), ...failedAt(this.#app.clock.now(), LOST.message) }
    if ((await this.#persist(() => this.#writeEnd(ended))) !== undefined) this.#webhooks.notify(ended, 'completed')
  }

  #job(prediction: Pick<Prediction, 'id' | 'accountId' | 'unwanted'>, open: OpenGeneration): Job {
    const job = new Job(this.#app.store, prediction, open)
    job.listeners.add((now, event) => this.#webhooks.notify(now, event))
    this.#jobs.set(job.id, job)
    return job
  }

  /** Closes a generation whose prediction has ended, or was never written. */
  async #settle(open: OpenGeneration): Promise<void> {
    const { id, accountId } = open.request
    const stored = await this.#app.store.predictions.find(accountId, id)
    const { ending, usage, estimated, served }: PredictionOutcome =
      stored === undefined ? { ending: 'crashed' } : (readStored(stored).outcome ?? { ending: 'crashed' })
    if (served !== undefined) open.meter.served = served
    if (usage === undefined) open.meter.waiveCharge()
    else {
      Object.assign(open.meter.usage, usage)
      open.meter.estimation = estimated === true ? 'counted' : undefined
      open.meter.record([{ type: 'finish', reason: 'stop', raw: ending }])
    }
    await this.#app.ledger
      .close(open, ending)
      .catch((error: unknown) => log.error('A prediction could not be closed', error))
  }

  #queue(accountId: string): Queue {
    let queue = this.#queues.get(accountId)
    if (queue === undefined) {
      const { concurrency, waiting } = this.#app.config.predictions
      queue = new Queue({
        concurrency,
        waiting,
        run: (job) => this.#run(job),
        onEmpty: () => this.#queues.delete(accountId),
      })
      this.#queues.set(accountId, queue)
    }
    return queue
  }

  /**
   * Holds the most that it may cost and queues it; resolves when it is committed. Throws what reading, admitting and
   * writing it throw, and then nothing of it remains. Throws quota_exceeded where the account's queue is full.
   */
  async create(inbound: AuthenticatedRequest, requested: NewPrediction): Promise<Prediction> {
    const { accountId } = inbound.identity
    const queue = this.#queue(accountId)
    const releaseSlot = queue.reserve()
    let releaseQuota: (() => void) | undefined
    let leaveQueue: (() => Promise<void>) | undefined
    try {
      leaveQueue = await this.#remote?.enterQueue(accountId, inbound.id)
      const work = await this.#workOf(inbound, requested)
      const open = await this.#admit(inbound, requested.model, work, async (price) => {
        const { bodyBytes } = requested
        const keeping = { kind: 'predictions', accountId, bytes: bodyBytes, price } as const
        releaseQuota = await this.#app.keptQuota.hold(keeping)
      })
      // A queued prediction is not a request in flight; the queue limits how many of an account run at a time.
      this.#app.abuseDetection.end(accountId)
      const prediction = created(inbound, requested)
      await this.#write(prediction, open)
      queue.add(this.#job(prediction, open))
      return prediction
    } catch (error) {
      await leaveQueue?.()
      throw error
    } finally {
      releaseQuota?.()
      releaseSlot()
    }
  }

  async #write(prediction: Prediction, open: OpenGeneration): Promise<void> {
    const { store, ledger } = this.#app
    try {
      // Handed to the store in one turn of the event loop, they are one transaction. If it is torn, the next start
      // closes the generation without a prediction.
      await Promise.all([ledger.defer(open), store.predictions.add(toStored(prediction))])
    } catch (error) {
      open.meter.waiveCharge()
      const failed = toChange({ ...prediction, ...failedAt(this.#app.clock.now(), asGatewayError(error).message) })
      await Promise.all([
        ledger.close(open, 'failed').catch(() => {}),
        store.predictions.update(failed).catch(() => {}),
      ])
      throw error
    }
  }

  #workOf({ identity, request }: AuthenticatedRequest, requested: NewPrediction): Promise<Work> {
    const { model, version, input, origin } = requested
    return workOf(this.#app, { accountId: identity.accountId, model, version, input, origin }, request.signal)
  }

  /** Reserves for the work with its files. They are loaded again when it runs, so queued predictions hold no memory. */
  async #admit(
    inbound: AuthenticatedRequest,
    model: string,
    work: Work,
    holdQuota: (price: Price | undefined) => Promise<void>,
  ): Promise<OpenGeneration> {
    const { id, identity } = inbound
    const { accountId } = identity
    try {
      await this.#app.ledger.funds.loadAccount(accountId)
      await holdQuota(this.#app.prices.of(model, work.endpoints))
      const terms = {
        api: API,
        model,
        endpoints: work.endpoints,
        streamed: false,
        worst: (modelLimit: number | undefined) => worstUsage(work, modelLimit),
        classes: requestedClasses(this.#app, work),
        countInput: this.#counterOf(accountId, id),
      }
      return await whenLeased(() => reserve(this.#app, inbound, terms))
    } finally {
      if (work.kind === 'generation') work.release()
    }
  }

  /** A method of its own, so that the closure, which lives as long as the prediction, keeps no input in memory. */
  #counterOf(accountId: string, id: string): () => Promise<number> {
    return async () => {
      const stored = await this.#app.store.predictions.find(accountId, id)
      return stored === undefined ? 1 : countInput(this.#app, readStored(stored))
    }
  }

  async #run(job: Job): Promise<void> {
    try {
      await this.#remote?.takeTurn(job)
      if (this.#stopping.signal.aborted) return
      const stored = await this.#persist(() => this.#app.store.predictions.find(job.accountId, job.id))
      if (stored === undefined) return
      job.prediction = readStored(stored)
      const end = await run(this.#app, job, this.#stopping.signal)
      if (end !== undefined) await this.#end(job, end)
    } catch (error) {
      log.error('A prediction failed', error)
    } finally {
      job.over.resolve()
    }
  }

  /** Ends a prediction: writes its last state with the outcome of its generation, then closes that. Called once. */
  async #end(job: Job, { ending, charged, ...change }: End): Promise<void> {
    job.isEnding = true
    const {
      open,
      open: { meter },
    } = job
    if (charged) await meter.count()?.catch((error: unknown) => log.error('Tokens could not be counted', error))
    else meter.waiveCharge()
    const { usage, estimation, served } = meter
    const outcome: PredictionOutcome = {
      ending,
      ...(charged ? { usage, estimated: estimation !== undefined } : {}),
      ...(served === undefined ? {} : { served: { provider: served.provider, model: served.model } }),
    }
    const ended: Prediction = { ...job.running, ...change, completedAt: this.#app.clock.now(), outcome }
    // If the server stops before it could be written, the next start ends it.
    if ((await this.#persist(() => this.#writeEnd(ended))) === undefined) return
    if ((await this.#recorded(open, ending)) === undefined) return
    job.prediction = ended
    this.#jobs.delete(job.id)
    job.over.resolve()
    job.notify('completed')
  }

  /**
   * Resolves when its record can be looked up; undefined where the server stops before that. A record that the store
   * does not take at once is written by the ledger later.
   */
  async #recorded(open: OpenGeneration, ending: Outcome): Promise<true | undefined> {
    const { store, ledger } = this.#app
    const { accountId, id } = open.request
    const failure = await ledger.close(open, ending).then(() => undefined, asGatewayError)
    if (failure === undefined) return true
    if (failure.code === 'store_unavailable')
      return this.#persist(async (): Promise<true> => {
        if ((await store.ledger.findGeneration(accountId, id)) === undefined) throw failure
        return true
      })
    log.error('A prediction could not be recorded', failure.cause ?? failure)
    return true
  }

  #writeEnd(ended: Prediction): Promise<boolean> {
    const delivery = this.#webhooks.delivery(ended)
    return this.#app.store.predictions.update(toChange(ended), delivery === undefined ? [] : [delivery])
  }

  /** Repeats a store operation until it succeeds; undefined where the server stops before that. */
  async #persist<T>(operation: () => Promise<T>): Promise<T | undefined> {
    for (;;) {
      try {
        return await operation()
      } catch (error) {
        log.error('A prediction could not be stored yet', error)
        if (this.#stopping.signal.aborted) return undefined
        await Bun.sleep(RETRY_MS)
      }
    }
  }

  /** Its current state. */
  async find(accountId: string, id: string): Promise<Prediction | undefined> {
    // Other processes show an end as soon as it is written.
    if (this.#remote !== undefined && this.#jobs.get(id)?.isEnding === true) await this.ended(id, END_MS)
    const job = this.#jobs.get(id)
    if (job?.prediction !== undefined && job.accountId === accountId) return job.prediction
    const stored = await this.#app.store.predictions.find(accountId, id)
    return stored === undefined ? undefined : (this.running(id) ?? readStored(stored))
  }

  /** Newest first: those created before this id. */
  async list(accountId: string, limit: number, before: string | undefined): Promise<Prediction[]> {
    const stored = await this.#app.store.predictions.list(accountId, limit, before)
    return stored.map((one) => this.running(one.id) ?? readStored(one))
  }

  /** One that runs here: newer than the stored one, except its end, which counts once it is settled. */
  running(id: string): Prediction | undefined {
    return this.#jobs.get(id)?.prediction
  }

  /** Resolves when it has ended or the server stops, at the latest after this time. */
  async ended(id: string, atMostMs: number): Promise<void> {
    const job = this.#jobs.get(id)
    if (job !== undefined) await within(job.over.promise, atMostMs, () => undefined)
  }

  /** Calls the listener with each change of an unfinished prediction; gives the function that removes it. */
  follow({ accountId, id }: Pick<Prediction, 'accountId' | 'id'>, listener: Listener): () => void {
    const job = this.#jobs.get(id)
    if (job === undefined) return this.#remote?.follow(accountId, id, listener) ?? (() => {})
    job.listeners.add(listener)
    return () => void job.listeners.delete(listener)
  }

  /** Cancels a queued prediction at once; one that runs may still end otherwise. Gives its state then. */
  async cancel(accountId: string, id: string): Promise<Prediction | undefined> {
    const found = await this.find(accountId, id)
    const job = this.#jobs.get(id)
    if (found === undefined || hasEnded(found)) return found
    if (job === undefined) {
      await this.#remote?.cancel(accountId, id, CANCEL_MS)
      return this.find(accountId, id)
    }
    job.unwanted = true
    if (this.#queues.get(accountId)?.remove(job) === true) {
      job.prediction = found
      await this.#end(job, canceled(job))
    } else {
      // Stored for the next start, which would otherwise follow it.
      if (job.prediction?.upstream !== undefined && !job.isEnding)
        await job
          .write({ unwanted: true })
          .catch((error: unknown) => log.error('A prediction could not be written', error))
      job.cut.abort()
      await this.ended(id, CANCEL_MS)
    }
    return this.find(accountId, id)
  }

  /**
   * Starts nothing more. Predictions that run at a provider are left there; others are waited for, until they end or
   * the drain cuts them.
   */
  async stop(): Promise<void> {
    this.#stopping.abort()
    for (const job of this.#jobs.values()) {
      if (job.prediction === undefined) job.over.resolve()
      if (job.prediction?.upstream !== undefined) job.cut.abort()
    }
    await Promise.all([...this.#queues.values()].map((queue) => queue.settled()))
  }
}
