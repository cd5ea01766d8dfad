import type { GatewayError } from '../error.ts'
import type { CallSignal } from '../http/connection.ts'
import { Waiter } from '../http/waiter.ts'

/** A request that waits. `refusal`: the error for one that waited too long. */
export type Waiting = { owner: string; waitMs: number; signal: CallSignal; refusal: () => GatewayError }

/** Requests that wait, whose owners take turns. */
export class FairQueue {
  size = 0
  /** In the order of the turns. None is empty. */
  readonly #queues = new Map<string, Waiter[]>()

  /** Resolves when it is let in. Rejects with its refusal, also when its client leaves. */
  wait({ owner, signal, waitMs, refusal }: Waiting): Promise<void> {
    const waiter = new Waiter(owner, signal, waitMs, () => {
      this.#remove(waiter)
      return refusal()
    })
    const queue = this.#queues.get(owner)
    if (queue === undefined) this.#queues.set(owner, [waiter])
    else queue.push(waiter)
    this.size++
    return waiter.promise
  }

  /** The number of requests of one owner. */
  sizeOf(owner: string): number {
    return this.#queues.get(owner)?.length ?? 0
  }

  /** Lets in the first request of the next owner that `mayEnter`; false where there is none. */
  admit(mayEnter: (owner: string) => boolean): boolean {
    for (const [owner, queue] of this.#queues) {
      if (!mayEnter(owner)) continue
      const waiter = queue[0]!
      this.#remove(waiter)
      if (queue.length > 0) {
        this.#queues.delete(owner)
        this.#queues.set(owner, queue)
      }
      waiter.admit()
      return true
    }
    return false
  }

  #remove(waiter: Waiter): void {
    const queue = this.#queues.get(waiter.owner)!
    queue.splice(queue.indexOf(waiter), 1)
    if (queue.length === 0) this.#queues.delete(waiter.owner)
    this.size--
  }
}
