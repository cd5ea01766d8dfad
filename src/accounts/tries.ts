import { GatewayError } from '../error.ts'
import { BoundedMap } from '../http/bounded-map.ts'

const WINDOW_MS = 15 * 60_000
const TRIES_MAX = 10
const COUNTERS_MAX = 50_000

/** Wrong passwords in the last 15 minutes, by address and by name. */
export class Tries {
  readonly #now: () => number
  readonly #tries = new BoundedMap<string, number[]>(COUNTERS_MAX)

  constructor(now: () => number) {
    this.#now = now
  }

  /**
   * Counts a try under each of these names before it is made, so that many at once count as many. Gives the function
   * that takes it back. Throws rate_limit_exceeded (422).
   */
  begin(names: readonly string[]): () => void {
    const now = this.#now()
    const lists = names.map((name) => (this.#tries.get(name) ?? []).filter((at) => at > now - WINDOW_MS))
    const full = lists.find((list) => list.length >= TRIES_MAX)
    // Names of refused tries are not kept: those that one client makes up would push out the others.
    if (full !== undefined) throw tooMany(full[0]! + WINDOW_MS - now)
    for (const [index, list] of lists.entries()) {
      list.push(now)
      this.#tries.set(names[index]!, list)
    }
    return () => {
      for (const name of names) {
        const list = this.#tries.get(name) ?? []
        if (list.includes(now)) list.splice(list.indexOf(now), 1)
      }
    }
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
