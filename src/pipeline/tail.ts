import type { Ledger, OpenGeneration } from '../ledger/ledger.ts'
import type { OpenView } from '../ledger/open-generation.ts'
import type { RequestRow } from '../store/store.ts'
import { rowOfRecord, rowOfRefusal } from '../store/request-row.ts'
import type { RefusalLog } from './refusal-log.ts'

/** A change in the list of requests, as it happens. */
export type RowEvent = { type: 'opened' | 'closed' | 'refused'; row: RequestRow }
/** `dropped`: at least so many events were too many to pass on. */
export type TailEvent = RowEvent | { type: 'dropped'; count: number }
type Listener = (event: TailEvent) => void

/** One who watches. `onEnd`: ends it. */
type Follower = { owner: string; onEnd: () => void }

type Sources = { ledger: Pick<Ledger, 'onOpened'>; refusals: Pick<RefusalLog, 'onRefused'> }

/** Reports requests that begin, end or are refused to those who watch; nothing is done while there is none. */
export class Tail {
  readonly #sources: Sources
  readonly #listeners = new Map<Listener, Follower>()
  #relay: ((event: RowEvent) => void) | undefined
  /** Called when somebody begins to follow. */
  onFollowed: (() => void) | undefined

  constructor(sources: Sources) {
    this.#sources = sources
  }

  get size(): number {
    return this.#listeners.size
  }

  /** The number of those of one owner. */
  sizeOf(owner: string): number {
    return [...this.#listeners.values()].filter((follower) => follower.owner === owner).length
  }

  /** Calls the listener with each event, and `onEnd` where the server stops. Returns a function that ends it. */
  follow(owner: string, listener: Listener, onEnd: () => void): () => void {
    this.#listeners.set(listener, { owner, onEnd })
    this.#watch()
    this.onFollowed?.()
    return () => {
      this.#listeners.delete(listener)
      this.#watch()
    }
  }

  /** The server stops, and does not wait for those who watch. */
  end(): void {
    for (const { onEnd } of [...this.#listeners.values()]) onEnd()
  }

  /** Gets the events of this process for those who follow in others, while it is set. */
  set relay(relay: ((event: RowEvent) => void) | undefined) {
    this.#relay = relay
    this.#watch()
  }

  get #isWatched(): boolean {
    return this.#listeners.size > 0 || this.#relay !== undefined
  }

  #watch(): void {
    const { ledger, refusals } = this.#sources
    const isWatched = this.#isWatched
    ledger.onOpened = isWatched ? (open) => this.#report({ type: 'opened', row: rowOfOpen(open) }) : undefined
    refusals.onRefused = isWatched
      ? (refusal) => this.#report({ type: 'refused', row: rowOfRefusal(refusal) })
      : undefined
  }

  /** A generation has ended. */
  closed({ record }: OpenGeneration): void {
    if (record !== undefined && this.#isWatched) this.#report({ type: 'closed', row: rowOfRecord(record) })
  }

  #report(event: RowEvent): void {
    this.deliver(event)
    this.#relay?.(event)
  }

  /** Calls those who follow in this process. */
  deliver(event: TailEvent): void {
    for (const listener of this.#listeners.keys()) listener(event)
  }
}

/** The line of a generation that has not ended: as far as it is known, without a cost. */
export function rowOfOpen({ request, meter }: OpenView): RequestRow {
  const { id, createdAt, accountId, keyId, kind, api, model, client, streamed } = request
  const attempts = meter.attempts.length
  return {
    id,
    at: createdAt,
    accountId,
    keyId,
    kind,
    api,
    model,
    provider: meter.served?.provider ?? meter.attempts.at(-1)?.provider ?? null,
    client: client ?? null,
    outcome: 'open',
    finish: null,
    error: null,
    streamed,
    firstTokenMs: streamed && meter.begunMs !== undefined ? meter.times.latency : null,
    totalMs: null,
    tries: Math.max(1, attempts),
    losses: meter.losses.length,
    estimated: false,
    usage: { ...meter.usage },
    bill: 0n,
    flows: 0n,
  }
}
