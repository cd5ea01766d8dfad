import { fullGC } from 'bun:jsc'
import { Deadline, deadlines, type Expiring } from '../deadlines.ts'
import { machineMemory } from './machine-memory.ts'
import { MemoryPool } from './memory-pool.ts'

/** Bodies and responses up to this size are not counted: there is always room for them. */
export const UNCOUNTED_BYTES = 64 * 1024

/** Memory for each byte of a body or response besides the byte itself, measured with 30 MB of one kind or another. */
const WORK = {
  /** A body that is passed on unread: it is encoded once more. */
  unread: 2,
  /** A body that is read: its text, its values, what is made of them, and what is sent. */
  read: 7,
  /** The same, when it was sent and its response has not begun. */
  sent: 2,
  /** A response in one piece: its chunks, its text and what the client gets. */
  response: 4,
  /** The same, when it was written: its text and its bytes. */
  taken: 2,
}

/** Memory of a client that does not take its stream, measured with providers that are as fast as the machine. */
const SLOW_CLIENT_BYTES = 384 * 1024

/** Interval of looks at clients that are taking a response. */
const TAKEN_EVERY_MS = 200

/** Memory given back after which its garbage is collected, at least: a collection takes some 20 ms. */
const GARBAGE_BYTES = 32 * 2 ** 20

/** After a client became slow or left, what it had is in use for some seconds: its tokens are counted, for one. */
const COLLECT_SLOW_AFTER_MS = 5_000
/** The same for what was in use even then. */
const COLLECT_SLOW_AGAIN_MS = 25_000

/** Bytes of one request in each pool. */
type Hold = { owner: string; body: number; kept: number; work: number; response: number }

/**
 * The memory that large requests in flight occupy together. Their bodies have one half of it, from the first byte to
 * the end of the response. Reading, translating and sending them, and responses in one piece, have the other half, so
 * that a body never keeps another from being finished. What does not fit waits, in turns of the accounts and for a
 * limited time. A request is known by its signal; `owner` is its account.
 */
export class MemoryBudget implements Expiring {
  readonly #bodies: MemoryPool
  readonly #work: MemoryPool
  readonly #garbageBytes: number
  readonly #holds = new WeakMap<AbortSignal, Hold>()
  #garbage = 0
  readonly #untaken: { owner: string; bytes: number; isConnected: () => boolean }[] = []
  readonly #deadline = new Deadline(this)
  #slowGarbage = 0
  readonly #slowCollection = new Deadline({ onDeadline: () => this.#collectOfSlow() })

  /** By default a quarter of the memory that there is. */
  constructor(limitBytes = machineMemory() / 4) {
    this.#bodies = new MemoryPool(limitBytes / 2)
    this.#work = new MemoryPool(limitBytes / 2)
    this.#garbageBytes = Math.max(GARBAGE_BYTES, limitBytes / 4)
  }

  get limit(): number {
    return this.#bodies.limit + this.#work.limit
  }

  /** Bytes that are taken. */
  get used(): number {
    return this.#bodies.used + this.#work.used
  }

  /** Takes memory for bytes of a body that is received. See MemoryPool.take, also for the other methods. */
  receive(signal: AbortSignal, owner: string, bytes: number): Promise<void> | undefined {
    const hold = this.#hold(signal, owner)
    return after(this.#bodies.take(owner, bytes, signal), () => (hold.body += bytes))
  }

  /** Takes memory for work on the body that was received. */
  work(signal: AbortSignal, kind: 'unread' | 'read'): Promise<void> | undefined {
    const hold = this.#holds.get(signal)
    if (hold === undefined) return undefined
    const bytes = hold.body * WORK[kind]
    return after(this.#work.take(hold.owner, bytes, signal), () => (hold.work += bytes))
  }

  /** The request has left: its provider may take minutes to respond. */
  sent(signal: AbortSignal): void {
    const hold = this.#holds.get(signal)
    if (hold === undefined || hold.work === 0) return
    if (hold.work === hold.body * WORK.read) {
      hold.kept = hold.body * WORK.sent
      this.#bodies.force(hold.owner, hold.kept)
    }
    this.#give(hold, ['work'])
  }

  /** The response streams, and of the request only the body is kept. */
  streams(signal: AbortSignal): void {
    const hold = this.#holds.get(signal)
    if (hold !== undefined) this.#give(hold, ['work', 'kept'])
  }

  /** Takes memory for bytes of a response in one piece, before any other work: it has been paid for. */
  respond(signal: AbortSignal, owner: string, bytes: number): Promise<void> | undefined {
    const hold = this.#hold(signal, owner)
    const taken = bytes * WORK.response
    return after(this.#work.take(owner, taken, signal, true), () => (hold.response += taken))
  }

  /** Keeps the memory of a response in one piece until its client has taken it, or left. */
  untilTaken(owner: string, length: number, isConnected: () => boolean): void {
    if (length <= UNCOUNTED_BYTES) return
    const bytes = length * WORK.taken
    this.#bodies.force(owner, bytes)
    this.#untaken.push({ owner, bytes, isConnected })
    if (!this.#deadline.isSet) deadlines.set(this.#deadline, TAKEN_EVERY_MS)
  }

  /** Counts a client that does not take its stream, until `giveOfSlow`. */
  keepForSlow(owner: string): void {
    this.#bodies.force(owner, SLOW_CLIENT_BYTES)
    this.#addGarbageOfSlow()
  }

  giveOfSlow(owner: string): void {
    this.#return(this.#bodies, owner, SLOW_CLIENT_BYTES)
    this.#admitSoon()
    this.#addGarbageOfSlow()
  }

  /** More is taken than there is. */
  get isFull(): boolean {
    return this.#bodies.used > this.#bodies.limit
  }

  onDeadline(): void {
    for (const one of this.#untaken.splice(0))
      if (one.isConnected()) this.#untaken.push(one)
      else this.#return(this.#bodies, one.owner, one.bytes)
    if (this.#untaken.length > 0) deadlines.set(this.#deadline, TAKEN_EVERY_MS)
    this.#admitSoon()
  }

  /** The request is over. */
  release(signal: AbortSignal): void {
    const hold = this.#holds.get(signal)
    if (hold === undefined) return
    this.#holds.delete(signal)
    this.#give(hold, ['body', 'kept', 'work', 'response'])
  }

  #hold(signal: AbortSignal, owner: string): Hold {
    const known = this.#holds.get(signal)
    if (known !== undefined) return known
    const hold = { owner, body: 0, kept: 0, work: 0, response: 0 }
    this.#holds.set(signal, hold)
    return hold
  }

  #give(hold: Hold, kinds: readonly Exclude<keyof Hold, 'owner'>[]): void {
    for (const kind of kinds) {
      const pool = kind === 'body' || kind === 'kept' ? this.#bodies : this.#work
      this.#return(pool, hold.owner, hold[kind])
      hold[kind] = 0
    }
    this.#admitSoon()
  }

  /** While all clients are slow, nothing is allocated: the collector may let it stay for minutes. */
  #addGarbageOfSlow(): void {
    this.#slowGarbage += SLOW_CLIENT_BYTES
    if (this.#slowGarbage >= GARBAGE_BYTES) deadlines.setWithin(this.#slowCollection, COLLECT_SLOW_AFTER_MS)
  }

  #collectOfSlow(): void {
    const isAgain = this.#slowGarbage === 0
    this.#slowGarbage = 0
    fullGC()
    if (!isAgain) deadlines.set(this.#slowCollection, COLLECT_SLOW_AGAIN_MS)
  }

  #return(pool: MemoryPool, owner: string, bytes: number): void {
    pool.give(owner, bytes)
    this.#garbage += bytes
  }

  #admitSoon(): void {
    if (this.#garbage < this.#garbageBytes) return this.#admit()
    this.#garbage = 0
    // In this turn it is still referred to. The collector alone would let several times as much gather.
    setImmediate(() => {
      fullGC()
      this.#admit()
    })
  }

  #admit(): void {
    this.#work.admit()
    this.#bodies.admit()
  }
}

const after = (waiting: Promise<void> | undefined, taken: () => void): Promise<void> | undefined => {
  if (waiting !== undefined) return waiting.then(taken)
  taken()
  return undefined
}
