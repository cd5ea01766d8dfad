import { closeSync, openSync, readFileSync } from 'node:fs'
import { GatewayError } from '../error.ts'

/** Descriptors that neither connections nor requests may use up: files, pipes and the looks of name servers. */
export const RESERVE = 64
/** From this limit on, connections are too few to use up the descriptors: those of one address are limited. */
const AMPLE = 8_192

/** The limit of descriptors of this process; undefined where it is not known. */
export const descriptorLimit = softLimit()

/** Requests in flight at most: each has a connection to its client, and mostly another one to a provider. */
const mostRequests = (limit: number | undefined): number =>
  limit === undefined ? Infinity : Math.max(1, Math.floor((limit - 1.5 * RESERVE) / 2))

const MOST_REQUESTS = mostRequests(descriptorLimit)

/**
 * Throws overloaded where descriptors might run out: requests in flight would fail then, and no other one would be
 * accepted. The connection is closed, as it has a descriptor, too.
 */
export function refuseSurplus(inFlight: number): void {
  if (inFlight <= MOST_REQUESTS && inFlight + providerReserve.used <= 2 * MOST_REQUESTS) return
  throw new GatewayError(
    'overloaded',
    `Sluice has as many requests in flight as its limit of open files allows (${MOST_REQUESTS}): ` +
      'send the request again later.',
    { retryAfterSeconds: 1, shouldRetry: true, headers: { connection: 'close' } },
  )
}

/**
 * Keeps descriptors for connections to providers, where clients could use up all. Until they are needed, they are open
 * on /dev/null.
 */
class DescriptorReserve {
  readonly #size: number
  readonly #kept: number[] = []
  /** Connections to providers; some of them are without a client, or idle. */
  used = 0

  /** `limit`: of the process. */
  constructor(limit: number | undefined) {
    this.#size = limit === undefined || limit >= AMPLE ? 0 : mostRequests(limit)
  }

  /** Frees one for a connection that is about to be opened. */
  take(): void {
    this.used++
    this.fill()
  }

  /** A connection was closed. */
  giveBack(): void {
    this.used--
    this.fill()
  }

  /** Keeps as many as are not used, or as there are. */
  fill(): void {
    const size = this.#size - this.used
    while (this.#kept.length > Math.max(0, size)) closeSync(this.#kept.pop()!)
    try {
      while (this.#kept.length < size) this.#kept.push(openSync('/dev/null', 'r'))
    } catch {
      // The next look fills it.
    }
  }
}

/** For the connections of the process to providers. */
export const providerReserve = new DescriptorReserve(descriptorLimit)

function softLimit(): number | undefined {
  try {
    const [, limit] = /^Max open files\s+(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8')) ?? []
    return limit === undefined ? undefined : Number(limit)
  } catch {
    return undefined
  }
}
