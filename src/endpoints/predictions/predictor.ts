import type { InboundRequest, AppContext } from '../../context.ts'
import { asGatewayError } from '../../error.ts'
import { reserve } from '../../ledger/admission.ts'
import type { Outcome } from '../../ledger/outcomes.ts'
import type { OpenGeneration } from '../../ledger/ledger.ts'
import { Job } from './job.ts'
import {
  hasEnded,
  readState,
  readStored,
  toChange,
  toStored,
  type Listener,
  type PredictionOutcome,
  type Prediction,
} from './prediction.ts'
import { Queue } from './queue.ts'
import { canceled, LOST, run, type End, type Rooms } from './run.ts'
import type { Webhooks } from './webhooks.ts'
import { countInput, workOf, worstOf, type ResolveMedia } from './work.ts'

const API = 'predictions'

/** After this a store that does not answer is asked again. */
const AGAIN_MS = 2_000

/** A cancellation waits so long for what its provider says to it. */
const CANCEL_MS = 5_000

/** What a client asks for, read. */
export type Wanted = Pick<Prediction, 'model' | 'version' | 'input' | 'origin'> & Partial<Pick<Prediction, 'webhook'>>

/**
 * All predictions under way: admits, queues, runs and ends them, over restarts too. docs/decisions/0011 says in which
 * order things are written, and why.
 */
export class Predictor {
  readonly #app: Omit<AppContext, 'predictor'>
  readonly #webhooks: Webhooks
  readonly #rooms: Rooms
  readonly #jobs = new Map<string, Job>()
  readonly #queues = new Map<string, Queue>()
  readonly #stopping = new AbortController()

  constructor(app: Omit<AppContext, 'predictor'>, webhooks: Webhooks, resolveMedia: ResolveMedia) {
    this.#app = app
    this.#webhooks = webhooks
    this.#rooms = {
      catalogue: app.catalogue,
      config: app.config,
      files: app.files,
      keys: app.keys,
      inFlight: app.inFlight,
      resolveMedia,
    }
  }

  /**
   * Goes on with what the last process left: what had ended is settled, what runs at a provider is followed, what had
   * not begun waits again.
   */
  async start(): Promise<void> {
    const { store, ledger } = this.#app
    const opens = new Map(
      ledger.deferred.filter(({ request }) => request.api === API).map((open) => [open.request.id, open]),
    )
    for (
      let page = await store.predictions.unfinished();
      page.length > 0;
      page = await store.predictions.unfinished(page.at(-1)!.id)
    ) {
      for (const { id, accountId, state } of page) {
        const open = opens.get(id)
        opens.delete(id)
        if (open === undefined) void this.#abandon(accountId, id)
        else this.#resume({ id, accountId, ...readState(state) }, open)
      }
    }
    for (const open of opens.values()) await this.#settle(open)
  }

  #resume(
    prediction: Pick<Prediction, 'id' | 'accountId' | 'unwanted' | 'upstream' | 'sentAt'>,
    open: OpenGeneration,
  ): void {
    const { upstream, sentAt } = prediction
    if (upstream !== undefined) open.meter.tries.push({ provider: upstream.provider, sent: true, milliseconds: 0 })
    const job = this.#job(prediction, open)
    this.#queue(job.accountId).add(job, sentAt !== undefined)
  }

  /** Ends one without a generation, for which nobody pays: both are written together. */
  async #abandon(accountId: string, id: string): Promise<void> {
    const stored = await this.#insist(() => this.#app.store.predictions.find(accountId, id))
    if (stored === undefined) return
    const ended: Prediction = { ...readStored(stored), status: 'failed', error: LOST.message, completedAt: Date.now() }
    if ((await this.#insist(() => this.#writeEnd(ended))) !== undefined) this.#webhooks.notify(ended, 'completed')
  }

  #job(prediction: Pick<Prediction, 'id' | 'accountId' | 'unwanted'>, open: OpenGeneration): Job {
    const job = new Job(this.#app.store, prediction, open)
    job.listeners.add((now, event) => this.#webhooks.notify(now, event))
    this.#jobs.set(job.id, job)
    return job
  }

  /** A generation whose prediction has ended, or was never written. */
  async #settle(open: OpenGeneration): Promise<void> {
    const { id, accountId } = open.request
    const stored = await this.#app.store.predictions.find(accountId, id)
    const { ending, usage, estimated, served }: PredictionOutcome =
      stored === undefined ? { ending: 'crashed' } : (readStored(stored).outcome ?? { ending: 'crashed' })
    if (served !== undefined) open.meter.served = served
    if (usage === undefined) open.meter.release()
    else {
      Object.assign(open.meter.usage, usage)
      open.meter.estimated = estimated === true
      open.meter.record([{ type: 'finish', reason: 'stop', raw: ending }])
    }
    await this.#app.ledger.close(open, ending).catch((error: unknown) => console.error(error))
  }

  #queue(accountId: string): Queue {
    let queue = this.#queues.get(accountId)
    if (queue === undefined) {
      const { concurrency, waiting } = this.#app.config.predictions
      queue = new Queue({
        concurrency,
        waiting,
        run: (job) => this.#run(job),
        empty: () => this.#queues.delete(accountId),
      })
      this.#queues.set(accountId, queue)
    }
    return queue
  }

  /**
   * Holds the most that it may cost and queues it; resolves when it is committed. Throws what reading it, admitting it
   * and writing it throw, and then nothing of it remains.
   */
  async create(call: InboundRequest, wanted: Wanted): Promise<Prediction> {
    const { store, ledger, abuseDetection } = this.#app
    const {
      id,
      identity: { accountId },
      receivedAt,
    } = call
    const queue = this.#queue(accountId)
    const giveUp = queue.reserve()
    try {
      const open = await this.#admit(call, wanted)
      // It is no request under way: how many of an account run at a time is limited here.
      abuseDetection.end(accountId)
      const prediction: Prediction = {
        id,
        accountId,
        model: wanted.model,
        status: 'starting',
        createdAt: receivedAt,
        startedAt: null,
        completedAt: null,
        version: wanted.version,
        input: wanted.input,
        output: null,
        error: null,
        logs: '',
        origin: wanted.origin,
        ...(wanted.webhook === undefined ? {} : { webhook: wanted.webhook }),
      }
      try {
        // Handed over in one turn they are committed together; a generation without a prediction is closed by the next
        // start.
        await Promise.all([ledger.defer(open), store.predictions.add(toStored(prediction))])
      } catch (error) {
        open.meter.release()
        await Promise.all([
          ledger.close(open, 'failed').catch(() => {}),
          store.predictions
            .update(
              toChange({
                ...prediction,
                status: 'failed',
                error: asGatewayError(error).message,
                completedAt: Date.now(),
              }),
            )
            .catch(() => {}),
        ])
        throw error
      }
      const job = this.#job(prediction, open)
      queue.add(job)
      return prediction
    } finally {
      giveUp()
    }
  }

  /**
   * By what is to be done, files included, of which nothing is held until it runs: what waits must not fill the memory.
   */
  async #admit(call: InboundRequest, { model, version, input, origin }: Wanted): Promise<OpenGeneration> {
    const {
      id,
      identity: { accountId },
      request,
    } = call
    const work = await workOf(this.#rooms, { accountId, model, version, input, origin }, request.signal)
    try {
      return await reserve(this.#app, call, {
        api: API,
        model,
        endpoints: work.endpoints,
        streamed: false,
        worst: (modelLimit) => worstOf(work, modelLimit),
        countInput: this.#counterOf(accountId, id),
      })
    } finally {
      if (work.kind === 'request') work.release()
    }
  }

  /**
   * Made here, where nothing else is in reach: it lives as long as the prediction, and what it were made beside would
   * too.
   */
  #counterOf(accountId: string, id: string): () => Promise<number> {
    return async () => {
      const stored = await this.#app.store.predictions.find(accountId, id)
      return stored === undefined ? 1 : countInput(this.#app, readStored(stored))
    }
  }

  async #run(job: Job): Promise<void> {
    try {
      if (this.#stopping.signal.aborted) return
      const stored = await this.#insist(() => this.#app.store.predictions.find(job.accountId, job.id))
      if (stored === undefined) return
      job.prediction = readStored(stored)
      const end = await run(this.#rooms, job, this.#stopping.signal)
      if (end !== undefined) await this.#end(job, end)
    } catch (error) {
      console.error(error)
    } finally {
      job.over.resolve()
    }
  }

  /** Ends a prediction, once: its last state with what its generation costs, then that generation. */
  async #end(job: Job, { ending, charged, ...change }: End): Promise<void> {
    if (job.ending) return job.over.promise
    job.ending = true
    const {
      open,
      open: { meter },
    } = job
    if (charged) await meter.count().catch((error: unknown) => console.error(error))
    else meter.release()
    const { usage, estimated, served } = meter
    const outcome: PredictionOutcome = {
      ending,
      ...(charged ? { usage, estimated } : {}),
      ...(served === undefined ? {} : { served: { provider: served.provider, model: served.model } }),
    }
    const ended: Prediction = { ...job.running, ...change, completedAt: Date.now(), outcome }
    // Left as it is where the server stops before it could be written: the next start ends it.
    if ((await this.#insist(() => this.#writeEnd(ended))) === undefined) return
    if ((await this.#recorded(open, ending)) === undefined) return
    job.prediction = ended
    this.#jobs.delete(job.id)
    job.over.resolve()
    job.tell('completed')
  }

  /**
   * Resolves when its record can be looked up; undefined where the server stops before that. What the store does not
   * take at once the ledger writes as soon as it can be.
   */
  async #recorded(open: OpenGeneration, ending: Outcome): Promise<true | undefined> {
    const { store, ledger } = this.#app
    const { accountId, id } = open.request
    const failure = await ledger.close(open, ending).then(() => undefined, asGatewayError)
    if (failure === undefined) return true
    if (failure.code === 'store_unavailable')
      return this.#insist(async (): Promise<true> => {
        if ((await store.ledger.findGeneration(accountId, id)) === undefined) throw failure
        return true
      })
    console.error(failure.cause ?? failure)
    return true
  }

  #writeEnd(ended: Prediction): Promise<boolean> {
    const owed = this.#webhooks.owed(ended)
    return this.#app.store.predictions.update(toChange(ended), owed === undefined ? [] : [owed])
  }

  /** Asks the store again until it answers; undefined where the server stops before that. */
  async #insist<T>(ask: () => Promise<T>): Promise<T | undefined> {
    for (;;) {
      try {
        return await ask()
      } catch (error) {
        console.error(error)
        if (this.#stopping.signal.aborted) return undefined
        await Bun.sleep(AGAIN_MS)
      }
    }
  }

  /** As it is now. */
  async find(accountId: string, id: string): Promise<Prediction | undefined> {
    const job = this.#jobs.get(id)
    if (job?.prediction !== undefined && job.accountId === accountId) return job.prediction
    const stored = await this.#app.store.predictions.find(accountId, id)
    return stored === undefined ? undefined : this.#current(readStored(stored))
  }

  /** The newest first: those before this id. */
  async list(accountId: string, limit: number, before: string | undefined): Promise<Prediction[]> {
    return (await this.#app.store.predictions.list(accountId, limit, before)).map((stored) =>
      this.#current(readStored(stored)),
    )
  }

  /**
   * What is under way is further than what is written of it, but for its end: that counts when what it costs is written
   * too.
   */
  #current(stored: Prediction): Prediction {
    return this.#jobs.get(stored.id)?.prediction ?? stored
  }

  /** Resolves when it has ended or the server stops, and after this time at the latest. */
  async ended(id: string, atMostMs: number): Promise<void> {
    const job = this.#jobs.get(id)
    if (job === undefined) return
    const late = Promise.withResolvers<void>()
    const timer = setTimeout(late.resolve, atMostMs)
    await Promise.race([job.over.promise, late.promise])
    clearTimeout(timer)
  }

  /** Hears of every change of a prediction, as long as it is under way; gives what calls that off. */
  follow(id: string, listener: Listener): () => void {
    const job = this.#jobs.get(id)
    job?.listeners.add(listener)
    return () => void job?.listeners.delete(listener)
  }

  /**
   * Ends what waits, and tells what runs that nobody wants it: it may end otherwise, if that comes first. Gives it as
   * it is then.
   */
  async cancel(accountId: string, id: string): Promise<Prediction | undefined> {
    const found = await this.find(accountId, id)
    const job = this.#jobs.get(id)
    if (found === undefined || hasEnded(found) || job === undefined) return found
    job.unwanted = true
    if (this.#queues.get(accountId)?.remove(job) === true) {
      job.prediction = found
      await this.#end(job, canceled(job))
    } else {
      // Kept for the next start, which would else follow it.
      if (job.prediction?.upstream !== undefined && !job.ending)
        await job.write({ unwanted: true }).catch((error: unknown) => console.error(error))
      job.cut.abort()
      await this.ended(id, CANCEL_MS)
    }
    return this.find(accountId, id)
  }

  /**
   * Begins nothing more. What runs at a provider is left there; what else runs is waited for: it ends with its answer,
   * or with the drain.
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
