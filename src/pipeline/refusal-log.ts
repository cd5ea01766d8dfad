import type { Refusal, ReportStore } from '../store/store.ts'

/** Refusals of a key and code in a minute that are stored; more are only counted. */
const KEPT_OF_KEY = 60
/** The same for all requests without a valid key. */
const KEPT_OF_NONE = 10
/** The same for all together in an hour, so that a purge each hour is enough. */
const KEPT_IN_HOUR = 20_000
const MINUTE_MS = 60_000
const HOUR_MINUTES = 60

/** Requests that never became a generation: all are counted, and so many of each key that they can be read are kept. */
export class RefusalLog {
  readonly #reports: Pick<ReportStore, 'addRefusal'>
  /** Refusals of the current minute, by key and code. */
  readonly #counts = new Map<string, number>()
  #minute = 0
  #keptInHour = 0
  /** Set while there are live views. */
  onRefused: ((refusal: Refusal) => void) | undefined

  constructor(reports: Pick<ReportStore, 'addRefusal'>) {
    this.#reports = reports
  }

  add(refusal: Refusal): void {
    const { at, keyId, code } = refusal
    const minute = Math.floor(at / MINUTE_MS)
    if (minute !== this.#minute) {
      if (Math.floor(minute / HOUR_MINUTES) !== Math.floor(this.#minute / HOUR_MINUTES)) this.#keptInHour = 0
      this.#minute = minute
      this.#counts.clear()
    }
    const of = `${keyId ?? ''} ${code}`
    const count = (this.#counts.get(of) ?? 0) + 1
    this.#counts.set(of, count)
    const isKept = count <= (keyId === null ? KEPT_OF_NONE : KEPT_OF_KEY) && this.#keptInHour < KEPT_IN_HOUR
    if (isKept) this.#keptInHour++
    this.#reports.addRefusal(refusal, isKept)
    this.onRefused?.(refusal)
  }
}
