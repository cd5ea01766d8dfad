import { GatewayError } from '../error.ts'
import type { AttemptLimit, PasswordAttemptStore } from '../store/store.ts'
import { hashOfSecret } from './secret-text.ts'

/** Wrong passwords for a name, or from an address. */
const LIMIT: AttemptLimit = { most: 10, withinMs: 15 * 60_000 }

/** Wrong passwords in the last 15 minutes, by address and by name. */
export class PasswordAttempts {
  readonly #store: PasswordAttemptStore
  readonly #now: () => number

  constructor(store: PasswordAttemptStore, now: () => number) {
    this.#store = store
    this.#now = now
  }

  /**
   * Counts an attempt for a name from a network before it is made, so that many at once count as many. Gives the
   * function that removes it, with `true` for a password that was right. Throws rate_limit_exceeded (422).
   */
  async begin(name: string, network: string): Promise<(isRight: boolean) => Promise<void>> {
    const origin = hashOfSecret(`name ${name} at ${network}`)
    // Wrong passwords from many addresses do not lock out the user, whose own address is counted apart.
    const counted = (await this.#store.isKnownOrigin(origin)) ? origin : hashOfSecret(`name ${name}`)
    const one = { name: counted, address: hashOfSecret(`address ${network}`) }
    // Refused attempts are not kept: those that one client makes up would push out the others.
    const begun = await this.#store.begin(one, LIMIT, this.#now())
    if ('waitMs' in begun) throw tooMany(begun.waitMs)
    return (isRight) => this.#store.withdraw(begun.position, isRight ? origin : undefined)
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
