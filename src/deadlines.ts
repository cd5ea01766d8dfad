/** One timer for all deadlines of the process. */

/** The owner of a deadline, called once when it has passed. */
export type Expiring = { onDeadline(): void }

/** Members of doubly linked rings, so that one is taken out without a search. */
class Link {
  next: Link = this
  previous: Link = this
}

/** A deadline of its owner, which sets it again and again: for a short request nothing else is allocated. */
export class Deadline extends Link {
  /** In milliseconds of the wheel's clock. */
  at = 0
  readonly owner: Expiring

  constructor(owner: Expiring) {
    super()
    this.owner = owner
  }

  get isSet(): boolean {
    return this.next !== this
  }
}

/** Slot 0 has what is due; slot n what differs from the wheel's time in bit n - 1 and in no higher one. */
const SLOTS = 33
/** Twelve days: a deadline after that never passes. Slots refer to twice as much, because their time may be old. */
const LONGEST_MS = 2 ** 30
const COARSEST_TICK_MS = 128

/** Deadlines are rounded up to multiples of this, at most a 64th of the delay, so that one turn serves many of them. */
export const tickOf = (ms: number): number => (ms < 128 ? 1 : Math.min(COARSEST_TICK_MS, 2 ** (25 - Math.clz32(ms))))

/** Bound once: a test that replaces the global clock must not turn back that of the process. */
const monotonic = performance.now.bind(performance)

const instantOf = (now: number, ms: number): number => {
  const tick = tickOf(ms)
  return (Math.floor((now + Math.max(0, ms)) / tick) + 1) * tick
}

/**
 * A hierarchical timing wheel: setting and clearing a deadline take constant time and no memory, however many there
 * are. Its timer is armed for the nearest deadline, and only while there is one. It does not keep the process alive.
 */
export class Deadlines {
  readonly #now: () => number
  readonly #slots = Array.from({ length: SLOTS }, () => new Link())
  /** The earliest that each slot has had: a deadline that was cleared is only a reason to look too early. */
  readonly #earliest = new Float64Array(SLOTS)
  #size = 0
  /** The time to which the slots refer. */
  #time = 0
  #timer: Timer | undefined
  #timerAt = Infinity

  /** `now`: a monotonic clock in milliseconds. */
  constructor(now: () => number = monotonic) {
    this.#now = now
  }

  /** The number of deadlines that are set. */
  get size(): number {
    return this.#size
  }

  /** Sets a deadline in `ms` milliseconds, in place of the one before. */
  set(deadline: Deadline, ms: number): void {
    this.clear(deadline)
    if (ms > LONGEST_MS) return
    const now = this.#now()
    if (this.#size === 0) this.#time = Math.floor(now)
    deadline.at = instantOf(now, ms)
    this.#size += 1
    this.#insert(deadline)
    if (deadline.at < this.#timerAt) this.#arm(deadline.at)
  }

  /** The same, unless it passes earlier already. */
  setWithin(deadline: Deadline, ms: number): void {
    if (!deadline.isSet || deadline.at > instantOf(this.#now(), ms)) this.set(deadline, ms)
  }

  clear(deadline: Deadline): void {
    if (!deadline.isSet) return
    unlink(deadline)
    this.#size -= 1
    if (this.#size > 0) return
    clearTimeout(this.#timer)
    this.#timerAt = Infinity
  }

  #insert(deadline: Deadline): void {
    const slot = deadline.at <= this.#time ? 0 : SLOTS - 1 - Math.clz32(deadline.at ^ this.#time)
    const head = this.#slots[slot]!
    if (head.next === head || deadline.at < this.#earliest[slot]!) this.#earliest[slot] = deadline.at
    deadline.previous = head.previous
    deadline.next = head
    head.previous.next = deadline
    head.previous = deadline
  }

  #arm(at: number): void {
    clearTimeout(this.#timer)
    this.#timerAt = at
    const ms = Math.max(0, Math.ceil(at - this.#now()))
    this.#timer = setTimeout(this.#turn, Math.min(ms, LONGEST_MS)).unref()
  }

  /** Calls the owners of all deadlines that have passed, in one turn of the event loop. */
  readonly #turn = (): void => {
    this.#advance(Math.floor(this.#now()))
    // Deadlines that their owners set again are for a later turn, even if the clock has gone back.
    const due = new Link()
    move(this.#slots[0]!, due)
    try {
      while (due.next !== due) {
        const deadline = due.next as Deadline
        this.clear(deadline)
        deadline.owner.onDeadline()
      }
    } finally {
      move(due, this.#slots[0]!)
      const slot = this.#slots.findIndex((head) => head.next !== head)
      if (slot >= 0) this.#arm(this.#earliest[slot]!)
      else this.#timerAt = Infinity
    }
  }

  /** Moves what slots have up to this time to their slots from then on. */
  #advance(time: number): void {
    const before = this.#time
    this.#time = time
    for (let slot = 1, span = 1; slot < SLOTS; slot++, span *= 2) {
      if ((Math.floor(before / span) + 1) * span > time) return
      const head = this.#slots[slot]!
      while (head.next !== head) {
        const deadline = head.next as Deadline
        unlink(deadline)
        this.#insert(deadline)
      }
    }
  }
}

/** Moves all members of a ring to the front of another one. */
function move(from: Link, to: Link): void {
  if (from.next === from) return
  from.next.previous = to
  from.previous.next = to.next
  to.next.previous = from.previous
  to.next = from.next
  from.next = from.previous = from
}

function unlink(link: Link): void {
  link.previous.next = link.next
  link.next.previous = link.previous
  link.next = link.previous = link
}

/** The deadlines of the process. */
export const deadlines = new Deadlines()

/** Settles as `work` does, but after `ms` as `late` returns or throws. */
export const within = <T>(work: Promise<T>, ms: number, late: () => T | Promise<T>): Promise<T> =>
  new Promise((resolve, reject) => {
    const deadline = new Deadline({ onDeadline: () => resolve(Promise.try(late)) })
    deadlines.set(deadline, ms)
    work.then(
      (value) => {
        deadlines.clear(deadline)
        resolve(value)
      },
      (error: unknown) => {
        deadlines.clear(deadline)
        reject(error)
      },
    )
  })
