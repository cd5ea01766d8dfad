import type { OpenGeneration } from '../ledger/ledger.ts'
import type { Endpoint } from '../providers/catalogue.ts'

/** Responses that are read without their client: each keeps a connection. */
const MOST = 1_024
const MOST_OF_ACCOUNT = 64

/**
 * The responses whose clients left and whose providers are read on, because they charge what they generate in any case:
 * the usage that they report at the end is exact. Nothing is written, and each is given up after a time.
 */
export class ReadOn {
  /** Milliseconds for which a response is read on; 0: none is. */
  mostMs: number
  readonly #ofAccount = new Map<string, number>()
  #all = 0

  constructor(mostMs: number) {
    this.mostMs = mostMs
  }

  /** True where a generation is read on, until `end`: it was sent, its provider goes on, and there are not too many. */
  begin({ request, meter, background }: OpenGeneration, endpoints: readonly Endpoint[]): boolean {
    const { provider, sent } = meter.attempts.at(-1) ?? {}
    // A response in the background is followed in another way.
    if (this.mostMs === 0 || sent !== true || background !== undefined) return false
    const endpoint = endpoints.find((one) => one.provider.id === provider)
    return endpoint !== undefined && !stops(endpoint, request.streamed) && this.take({ request })
  }

  /** True where one more may go on without its client, until `end`. */
  take({ request }: Pick<OpenGeneration, 'request'>): boolean {
    const count = this.#ofAccount.get(request.accountId) ?? 0
    if (this.#all >= MOST || count >= MOST_OF_ACCOUNT) return false
    this.#all++
    this.#ofAccount.set(request.accountId, count + 1)
    return true
  }

  /** From now on none is read on: the server stops. */
  stop(): void {
    this.mostMs = 0
  }

  end({ request: { accountId } }: OpenGeneration): void {
    this.#all--
    const count = this.#ofAccount.get(accountId)! - 1
    if (count === 0) this.#ofAccount.delete(accountId)
    else this.#ofAccount.set(accountId, count)
  }
}

/** True where a provider stops generating, and charging, when its connection closes. */
function stops({ target: { quirks } }: Endpoint, isStreamed: boolean): boolean {
  const { stopsOnCancel = 'never' } = quirks
  return stopsOnCancel === 'always' || (stopsOnCancel === 'streams' && isStreamed)
}
