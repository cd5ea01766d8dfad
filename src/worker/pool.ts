import { Deadline, deadlines } from '../deadlines.ts'
import { GatewayError } from '../error.ts'
import { errorOf } from './errors.ts'
import type { Message } from './messages.ts'
import { WorkerProcess } from './process.ts'
import type { JobRequest, JobResult } from './serve.ts'

/** A job, and for whom it is done. `signal`: it is not begun after that. */
export type Job = JobRequest & { bytes: readonly Uint8Array[]; accountId: string; signal: AbortSignal }

type Done = { output: unknown; bytes: Buffer }
type PendingJob = Job & PromiseWithResolvers<Done> & { onAbort(): void }

/** Processes at the same time; jobs that wait for one, all together; time after which idle processes are ended. */
type Limits = { mostProcesses: number; mostWaiting: number; idleMs: number }

const LIMITS: Limits = { mostProcesses: 2, mostWaiting: 100, idleMs: 30_000 }

/** A job that takes longer does not end. */
const JOB_MS = 120_000

/**
 * Does jobs in processes of their own, for everything that would hold up the event loop. A process is started for the
 * first job, does one at a time, and is ended when it has been idle for a while. One that dies takes only its job
 * along.
 */
export class WorkerPool {
  readonly #entry: URL
  readonly #limits: Limits
  /** By account, the account whose turn it is first. */
  readonly #waiting = new Map<string, PendingJob[]>()
  #waitingJobs = 0
  readonly #idle: WorkerSlot[] = []
  #processes = 0
  readonly #idleEnd = new Deadline(this)

  /** `entry`: the module that a process runs. */
  constructor(entry: URL, limits: Partial<Limits> = {}) {
    this.#entry = entry
    this.#limits = { ...LIMITS, ...limits }
  }

  /**
   * Output and bytes of a job. Rejects with its error; with overloaded where too many wait, or where its process died,
   * for example because it was out of memory.
   */
  run(job: Job): Promise<Done> {
    if (job.signal.aborted) return Promise.reject(clientLeft())
    if (this.#waitingJobs >= this.#limits.mostWaiting) return Promise.reject(tooMany())
    const pending: PendingJob = { ...job, ...Promise.withResolvers<Done>(), onAbort: () => this.#drop(pending) }
    const others = this.#waiting.get(job.accountId)
    if (others === undefined) this.#waiting.set(job.accountId, [pending])
    else others.push(pending)
    this.#waitingJobs++
    job.signal.addEventListener('abort', pending.onAbort, { once: true })
    this.#startNext()
    return pending.promise
  }

  /** Gives processes the next jobs, each account in its turn. */
  #startNext(): void {
    while (this.#waitingJobs > 0) {
      const slot = this.#idle.pop() ?? this.#newSlot()
      if (slot === undefined) return
      slot.begin(this.#takeNext())
    }
    if (this.#idle.length > 0) deadlines.set(this.#idleEnd, this.#limits.idleMs)
  }

  #takeNext(): PendingJob {
    const [accountId, jobs] = this.#waiting.entries().next().value!
    const job = jobs.shift()!
    job.signal.removeEventListener('abort', job.onAbort)
    this.#waitingJobs--
    this.#waiting.delete(accountId)
    if (jobs.length > 0) this.#waiting.set(accountId, jobs)
    return job
  }

  /** The client left before its job began. */
  #drop(job: PendingJob): void {
    const jobs = this.#waiting.get(job.accountId)
    const at = jobs?.indexOf(job) ?? -1
    if (at < 0) return
    jobs!.splice(at, 1)
    if (jobs!.length === 0) this.#waiting.delete(job.accountId)
    this.#waitingJobs--
    job.reject(clientLeft())
  }

  #newSlot(): WorkerSlot | undefined {
    if (this.#processes >= this.#limits.mostProcesses) return undefined
    this.#processes++
    return new WorkerSlot(this.#entry, {
      onIdle: (slot) => {
        this.#idle.push(slot)
        this.#startNext()
      },
      onExit: (slot) => {
        this.#processes--
        const at = this.#idle.indexOf(slot)
        if (at >= 0) this.#idle.splice(at, 1)
        this.#startNext()
      },
    })
  }

  onDeadline(): void {
    for (const slot of this.#idle.splice(0)) slot.end()
  }
}

/** The processes of this one. */
export const workers = new WorkerPool(new URL('../cli/worker.ts', import.meta.url))

type SlotEvents = { onIdle(slot: WorkerSlot): void; onExit(slot: WorkerSlot): void }

/** A process, and the job that it does. */
class WorkerSlot {
  readonly #process: WorkerProcess
  readonly #events: SlotEvents
  #job: PendingJob | undefined
  readonly #deadline = new Deadline(this)

  constructor(entry: URL, events: SlotEvents) {
    this.#events = events
    this.#process = new WorkerProcess(entry, {
      onMessage: (message) => this.#finish(message),
      onExit: () => this.#onExit(),
    })
  }

  begin(job: PendingJob): void {
    this.#job = job
    deadlines.set(this.#deadline, JOB_MS)
    void this.#process.send({ kind: job.kind, input: job.input } satisfies JobRequest, job.bytes)
  }

  end(): void {
    this.#process.kill()
  }

  onDeadline(): void {
    this.end()
  }

  #finish({ value, bytes }: Message): void {
    const result = value as JobResult
    const job = this.#job!
    this.#job = undefined
    deadlines.clear(this.#deadline)
    if ('output' in result) job.resolve({ output: result.output, bytes })
    else job.reject('error' in result ? errorOf(result.error) : defect(result.defect))
    if (result.isSpent) this.end()
    else this.#events.onIdle(this)
  }

  #onExit(): void {
    deadlines.clear(this.#deadline)
    this.#job?.reject(died())
    this.#job = undefined
    this.#events.onExit(this)
  }
}

const clientLeft = (): GatewayError =>
  new GatewayError('upstream_error', 'The client left before its request was prepared.')

const tooMany = (): GatewayError =>
  new GatewayError('overloaded', 'Too many large requests are waiting: send the request again in a moment.', {
    retryAfterSeconds: 1,
    shouldRetry: true,
  })

const died = (): GatewayError =>
  new GatewayError(
    'overloaded',
    'The process that works on large requests ended, probably because its memory was full: send less in one request.',
    { retryAfterSeconds: 5 },
  )

const defect = (stack: string): GatewayError =>
  new GatewayError('internal_error', 'Internal error.', { cause: new Error(stack) })
