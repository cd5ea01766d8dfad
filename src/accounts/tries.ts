import { GatewayError } from '../error.ts'
import type { TryLimit, TryStore } from '../store/store.ts'
import { hashOfSecret } from './secret-text.ts'

/** Wrong passwords for a name, or from an address. */
const LIMIT: TryLimit = { most: 10, withinMs: 15 * 60_000 }

/** Wrong passwords in the last 15 minutes, by address and by name. */
export class Tries {
  readonly #store: TryStore
  readonly #now: () => number

  constructor(store: TryStore, now: () => number) {
    this.#store = store
    this.#now = now
  }

  /**
   * Counts a try of a name from a network before it is made, so that many at once count as many. Gives the function
   * that takes it back, with `true` for a password that was right. Throws rate_limit_exceeded (422).
   */
  async begin(name: string, network: string): Promise<(isRight: boolean) => Promise<void>> {
    const place = hashOfSecret(`name ${name} at ${network}`)
    // Strangers who try a name from many addresses do not lock out its user, whose address has tries of its own.
    const counted = (await this.#store.isKnown(place)) ? place : hashOfSecret(`name ${name}`)
    const one = { name: counted, address: hashOfSecret(`address ${network}`) }
    // Refused tries are not kept: those that one client makes up would push out the others.
    const begun = await this.#store.begin(one, LIMIT, this.#now())
    if ('waitMs' in begun) throw tooMany(begun.waitMs)
    return (isRight) => this.#store.takeBack(begun.position, isRight ? place : undefined)
  }
}

function tooMany(waitMs: number): GatewayError {
  const seconds = Math.max(1, Math.ceil(waitMs / 1000))
  return new GatewayError(
    'rate_limit_exceeded',
    `Too many wrong passwords: try again in ${Math.ceil(seconds / 60)} min, or open a link of "sluice console".`,
    { retryAfterSeconds: seconds, shouldRetry: false },
  )
}
