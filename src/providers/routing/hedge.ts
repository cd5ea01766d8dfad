import { Deadline, deadlines } from '../../deadlines.ts'
import type { CallSignal } from '../../http/connection.ts'
import type { RequestContext } from '../../protocols/protocol.ts'
import type { Upstream } from '../attempt.ts'
import type { AttemptRecord } from '../attempt-record.ts'
import type { Sending } from './router.ts'

/** One call whose response has begun. */
export type HedgedCall = { upstream: Upstream<RequestContext>; sending: Sending; record: AttemptRecord }

/** The signal of one of several calls of a request, which end independently. */
class OwnSignal implements CallSignal {
  readonly #parent: CallSignal
  readonly #listeners = new Set<() => void>()
  #aborted = false

  constructor(parent: CallSignal) {
    this.#parent = parent
    parent.addEventListener('abort', this.abort, { once: true })
  }

  get aborted(): boolean {
    return this.#aborted || this.#parent.aborted
  }

  get left(): boolean {
    return this.#parent.left === true
  }

  addEventListener(_type: 'abort', listener: () => void): void {
    this.#listeners.add(listener)
  }

  removeEventListener(_type: 'abort', listener: () => void): void {
    this.#listeners.delete(listener)
  }

  readonly abort = (): void => {
    if (this.#aborted) return
    this.#aborted = true
    this.detach()
    for (const listener of [...this.#listeners]) listener()
    this.#listeners.clear()
  }

  detach(): void {
    this.#parent.removeEventListener('abort', this.abort)
  }
}

/**
 * The first of two calls that begins to respond; the second one is made where the first has not after `afterMs`. The
 * other one is cancelled, and its record says so. Rejects as the last one where both fail. The winner's record comes
 * last.
 */
export async function hedged(
  first: (signal: CallSignal) => Promise<HedgedCall>,
  second: (signal: CallSignal) => Promise<HedgedCall> | undefined,
  afterMs: number,
  signal: CallSignal,
): Promise<HedgedCall> {
  const signals = [new OwnSignal(signal), new OwnSignal(signal)] as const
  const calls = [first(signals[0])]
  if (await isSlow(calls[0]!, afterMs)) {
    const other = second(signals[1])
    if (other !== undefined) calls.push(other)
  }
  let won = false
  try {
    return await Promise.any(
      calls.map(async (call, index) => {
        const begun = await call
        if (won) {
          // Both began in the same turn.
          begun.upstream.incoming.body.cancel()
          begun.sending.end('none')
          begun.record.reason = 'hedge lost'
          throw new Error('hedge lost')
        }
        won = true
        const loser = signals[1 - index]!
        if (calls.length > 1) loser.abort()
        return begun
      }),
    )
  } catch (error) {
    throw error instanceof AggregateError ? error.errors.at(-1) : error
  } finally {
    if (!won) for (const one of signals) one.detach()
  }
}

/** True where a call is neither begun nor failed after this time. */
function isSlow(call: Promise<unknown>, ms: number): Promise<boolean> {
  return new Promise((resolve) => {
    const deadline = new Deadline({ onDeadline: () => resolve(true) })
    deadlines.set(deadline, ms)
    const settle = (): void => {
      deadlines.clear(deadline)
      resolve(false)
    }
    call.then(settle, settle)
  })
}
