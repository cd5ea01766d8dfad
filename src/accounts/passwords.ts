import { GatewayError } from '../error.ts'

/** Each hash takes 64 MiB and a processor. */
const AT_ONCE = 2
const WAITING_MAX = 32

const PASSWORD_MIN = 12
const PASSWORD_MAX = 200

/** The cost of a hash: `memoryCost` in KiB, and `timeCost` passes over it. */
export const HASHING = { algorithm: 'argon2id' as const, memoryCost: 65_536, timeCost: 2 }

let ofNone: Promise<string> | undefined

/** A hash to compare with where there is no password. */
const hashOfNone = (): Promise<string> => (ofNone ??= Bun.password.hash('no user has this', HASHING))

/** Passwords as hashes with argon2id, few at a time. */
export class Passwords {
  #running = 0
  readonly #waiting: (() => void)[] = []

  /** Throws overloaded (503) where too many wait. */
  hash(password: string): Promise<string> {
    return this.#inTurn(() => Bun.password.hash(password.normalize(), HASHING))
  }

  /** Takes as long without a hash as with one, so that names cannot be probed. */
  matches(password: string, hash: string | null | undefined): Promise<boolean> {
    return this.#inTurn(async () => {
      const matches = await Bun.password.verify(password.normalize(), hash ?? (await hashOfNone()))
      return matches && hash != null
    })
  }

  async #inTurn<T>(work: () => Promise<T>): Promise<T> {
    if (this.#running >= AT_ONCE) {
      if (this.#waiting.length >= WAITING_MAX)
        throw new GatewayError('overloaded', 'Too many people sign in at once; try again in a moment.', {
          retryAfterSeconds: 2,
        })
      await new Promise<void>((resolve) => this.#waiting.push(resolve))
    } else this.#running++
    try {
      return await work()
    } finally {
      const next = this.#waiting.shift()
      if (next === undefined) this.#running--
      else next()
    }
  }
}

/** Returns what is wrong with a password, or undefined. */
export const passwordProblem = (text: string): string | undefined =>
  text.length < PASSWORD_MIN || text.length > PASSWORD_MAX
    ? `must have ${PASSWORD_MIN} to ${PASSWORD_MAX} characters`
    : undefined
