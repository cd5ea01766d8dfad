import { closeSync, openSync, readFileSync } from 'node:fs'
import { GatewayError } from '../error.ts'

/** Descriptors that neither connections nor requests may use up: files, pipes and the looks of name servers. */
export const RESERVE = 64
/** From this limit on, connections are too few to use up the descriptors: those of one address are limited. */
const AMPLE = 8_192
/** Connections that are left to probes, whatever all others do. */
const FOR_PROBES = RESERVE / 2
/** A flood of requests asks so often at most which of those before have ended. */
const REMOVE_EVERY_MS = 50

/** The limit of descriptors of this process; undefined where it is not known. */
export const descriptorLimit = softLimit()

/** Requests in flight at most: each has a connection to its client, and mostly another descriptor. */
const mostRequests = (limit: number | undefined): number =>
  limit === undefined ? Infinity : Math.max(1, Math.floor((limit - 1.5 * RESERVE) / 2))

const MOST_REQUESTS = mostRequests(descriptorLimit)

/** True where connections alone could use up the descriptors. */
export const isScarce = descriptorLimit !== undefined && descriptorLimit < AMPLE

/**
 * Throws overloaded where descriptors might run out: requests in flight would fail then, and no other one would be
 * accepted. The connection is closed, as it has a descriptor, too. `usesProviders`: the request may need a second one;
 * others are refused later.
 */
export function refuseSurplus(inFlight: number, usesProviders: boolean): void {
  const most = usesProviders ? MOST_REQUESTS : MOST_REQUESTS + FOR_PROBES
  if (inFlight <= most && (!usesProviders || inFlight + descriptorReserve.used <= 2 * MOST_REQUESTS)) return
  throw surplus(`requests in flight as its limit of open files allows (${most})`)
}

const surplus = (what: string): GatewayError =>
  new GatewayError('overloaded', `Sluice has as many ${what}: send the request again later.`, {
    retryAfterSeconds: 1,
    shouldRetry: true,
    headers: { connection: 'close' },
  })

/** Gives the client's address while the request is in flight. */
type AddressInFlight = () => string | undefined

/** Bounds the requests without a key or session, whose bodies may come slowly, and whose answers may not be read. */
class KeylessRequests {
  readonly #most = Math.ceil(MOST_REQUESTS / 2)
  /** Those that have ended are removed when there are too many. */
  #begun: AddressInFlight[] = []
  #removedAt = -Infinity
  /** Those that the last removal has left. */
  #left = 0

  /** A request begins. Throws overloaded. */
  enter(address: AddressInFlight | undefined): void {
    if (!isScarce || address === undefined) return
    if (this.#begun.length >= this.#most) this.#removeEnded()
    if (this.#begun.length >= this.#most)
      throw surplus(`requests without a key in flight as its limit of open files allows (${this.#most})`)
    this.#begun.push(address)
  }

  #removeEnded(): void {
    const now = performance.now()
    const wasOfUse = this.#left <= this.#most / 2
    if (!wasOfUse && now - this.#removedAt < REMOVE_EVERY_MS) return
    this.#removedAt = now
    this.#begun = this.#begun.filter((one) => one() !== undefined)
    this.#left = this.#begun.length
  }
}

/** Those of the process. */
export const keylessRequests = new KeylessRequests()

/**
 * Keeps descriptors for connections to providers and for files that are written, where clients could use up all. Until
 * they are needed, they are open on /dev/null.
 */
class DescriptorReserve {
  readonly #size: number
  readonly #kept: number[] = []
  /** Those in use; some connections to providers are without a client, or idle. */
  used = 0

  /** `limit`: of the process. */
  constructor(limit: number | undefined) {
    this.#size = isScarce ? mostRequests(limit) : 0
  }

  /** Frees one for a connection or a file that is about to be opened. */
  take(): void {
    this.used++
    this.fill()
  }

  /** It was closed. */
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

/** That of the process. */
export const descriptorReserve = new DescriptorReserve(descriptorLimit)

function softLimit(): number | undefined {
  try {
    const [, limit] = /^Max open files\s+(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8')) ?? []
    return limit === undefined ? undefined : Number(limit)
  } catch {
    return undefined
  }
}
