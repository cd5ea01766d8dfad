import type { Store } from '../store/store.ts'
import { Limits, type RateLimits, tooManyRequests } from './limits.ts'
import { Permits } from './permits.ts'

/** The limits of one process, or those that several share. `now`: as for `Permits`. */
export const limitsOf = ({ leases }: Pick<Store, 'leases'>, now?: () => number): RateLimits =>
  leases === undefined ? new Limits() : new SharedLimits(new Permits(leases, now))

/** Rate limits that several processes share, as exact as those of one. */
class SharedLimits implements RateLimits {
  readonly #permits: Permits

  constructor(permits: Permits) {
    this.#permits = permits
  }

  checkRateLimit(keyId: string, route: string, limit: number | undefined, path = route): Promise<void> | void {
    if (limit === undefined) return
    const limited = { keyId, endpoint: route, limit }
    if (this.#permits.take(limited, 1)) return
    return this.#permits.lease(limited, 1).then((waitMs) => {
      if (waitMs > 0) throw tooManyRequests(limit, path, waitMs)
    })
  }
}
