import { threadModule } from '../worker/modules.ts'
import type { Audit } from './audit.ts'
import { counted } from './counted.ts'
import type { AuditReport, AuditRequest } from './audit-worker.ts'

/** One audit, under way or ended. `read`, `total`: generations; `sentence`: the result in words. */
export type AuditJob = {
  id: string
  state: 'running' | 'done' | 'failed'
  read: number
  total: number
  wrong: number
  first: Audit['first']
  sentence: string
  startedAt: number
  endedAt: number | null
}

/** Jobs whose result is kept. */
const KEPT = 20

/** Requested audits: one at a time, each in a thread of its own. */
export class AuditJobs {
  readonly #jobs = new Map<string, AuditJob>()
  #running: AuditJob | undefined

  find(id: string): AuditJob | undefined {
    return this.#jobs.get(id)
  }

  /** The audit that is under way, or a new one. `total`: the number of generations. */
  begin(request: AuditRequest & { total: number; now: () => number }): AuditJob {
    if (this.#running !== undefined) return this.#running
    const { config, terms, total, now } = request
    const id = Bun.randomUUIDv7('buffer').toString('hex')
    const job: AuditJob = {
      id,
      state: 'running',
      read: 0,
      total,
      wrong: 0,
      first: undefined,
      sentence: 'The book is being read.',
      startedAt: now(),
      endedAt: null,
    }
    this.#running = job
    this.#jobs.set(id, job)
    for (const oldest of this.#jobs.keys()) if (this.#jobs.size > KEPT) this.#jobs.delete(oldest)
    this.#run(job, { config: { data: config.data, store: config.store }, terms }, now)
    return job
  }

  #run(job: AuditJob, request: AuditRequest, now: () => number): void {
    const worker = new Worker(threadModule('ledger/audit-worker.ts'))
    worker.unref()
    const end = (state: AuditJob['state'], sentence: string): void => {
      Object.assign(job, { state, sentence, endedAt: now() })
      this.#running = undefined
      worker.terminate()
    }
    worker.onmessage = ({ data }: MessageEvent<AuditReport>) => {
      if (data.type === 'failed') return end('failed', data.message)
      const { generations, wrong, first } = data.audit
      Object.assign(job, { read: generations, wrong, first })
      if (data.type === 'progress') return
      const others = data.totals.length + data.rollUps.length
      Object.assign(job, { wrong: wrong + others, total: generations })
      end('done', sentenceOf(data.audit, others))
    }
    worker.onerror = ({ message }) => end('failed', message)
    worker.postMessage(request)
  }
}

function sentenceOf({ generations, transfers, first }: Audit, others: number): string {
  if (first !== undefined)
    return `The ledger is inconsistent: ${first.table} ${first.id} must have ${first.expected}, but has ${first.found}.`
  if (others > 0) return `${others} totals or roll-ups differ from their rows; sluice ledger audit names the first.`
  const read = `${counted(generations, 'generation')} and ${counted(transfers, 'transfer')}`
  return `The ledger is consistent: ${read} were read.`
}
