import type { Config } from '../config/load.ts'
import { GatewayError, invalid } from '../error.ts'
import { guardedFetch } from '../http/ssrf-guard.ts'
import { sniff } from '../http/sniff.ts'
import {
  withoutParameters,
  encodedBytes,
  type LoadableReference,
  type LoadedMedia,
  type MediaLease,
} from './media-memory.ts'

const FETCHES_AT_ONCE = 8
/** The limit of one account: the URLs it names may be slow, and others must not wait for them. */
const FETCHES_PER_ACCOUNT = 4
const FETCH_MS = 10_000

/** The request that media are fetched for. `mostBytes`: of base64, in the largest request that any endpoint takes. */
type FetchingRequest = { accountId: string; client: AbortSignal; lease: MediaLease; mostBytes: number }

type UrlReference = LoadableReference & { url: string }

/** Fetches media from the web, a few at a time. */
export class MediaFetcher {
  readonly #config: Config['fetch']
  /** The account of each fetch in progress. */
  readonly #fetching: string[] = []
  readonly #waiting: { accountId: string; start: () => void }[] = []

  constructor(config: Config['fetch']) {
    this.#config = config
  }

  /** Fetches all; the first that fails aborts the others. Throws a GatewayError that names the parameter. */
  fetchAll<Reference extends UrlReference>(
    request: FetchingRequest,
    references: readonly Reference[],
  ): Promise<LoadedMedia<Reference>[]> {
    const failed = new AbortController()
    const signal = AbortSignal.any([request.client, failed.signal])
    let sum = 0
    const fetchOne = async (reference: Reference): Promise<LoadedMedia<Reference>> => {
      try {
        const media = await this.#fetch(reference, signal)
        const encoded = encodedBytes([media])
        request.lease.add(encoded)
        sum += encoded
        if (sum > request.mostBytes)
          throw invalid(
            reference.param,
            `makes the media of this request longer than its providers take: ${request.mostBytes} bytes in base64`,
          )
        return media
      } catch (error) {
        failed.abort()
        throw withParam(error, reference.param)
      }
    }
    return Promise.all(references.map((reference) => this.#inTurn(request.accountId, () => fetchOne(reference))))
  }

  async #fetch<Reference extends UrlReference>(
    reference: Reference,
    signal: AbortSignal,
  ): Promise<LoadedMedia<Reference>> {
    const { bytes, mediaType, url } = await guardedFetch(reference.url, {
      private: this.#config.private,
      maxBytes: this.#config.bytes,
      totalMs: FETCH_MS,
      signal,
    })
    const filename = decodeName(new URL(url).pathname.split('/').at(-1)!)
    return {
      reference,
      mediaType: withoutParameters(sniff(bytes, mediaType, filename)),
      filename,
      bytes: bytes.length,
      data: () => Promise.resolve(bytes),
    }
  }

  #fetchesOf(accountId: string): number {
    return this.#fetching.filter((one) => one === accountId).length
  }

  #mayFetch(accountId: string): boolean {
    return this.#fetching.length < FETCHES_AT_ONCE && this.#fetchesOf(accountId) < FETCHES_PER_ACCOUNT
  }

  /** Runs when a fetch may start; the account with the fewest fetches in progress goes first. */
  async #inTurn<T>(accountId: string, run: () => Promise<T>): Promise<T> {
    if (this.#mayFetch(accountId)) this.#fetching.push(accountId)
    else await new Promise<void>((start) => this.#waiting.push({ accountId, start }))
    try {
      return await run()
    } finally {
      this.#fetching.splice(this.#fetching.indexOf(accountId), 1)
      this.#startNext()
    }
  }

  #startNext(): void {
    const startable = this.#waiting.filter((one) => this.#mayFetch(one.accountId))
    if (startable.length === 0) return
    const next = startable.reduce((a, b) => (this.#fetchesOf(b.accountId) < this.#fetchesOf(a.accountId) ? b : a))
    this.#waiting.splice(this.#waiting.indexOf(next), 1)
    this.#fetching.push(next.accountId)
    next.start()
  }
}

const withParam = (error: unknown, param: string): unknown =>
  error instanceof GatewayError && error.code === 'invalid_request' && error.param === undefined
    ? invalid(param, error.message)
    : error

const decodeName = (name: string): string => {
  try {
    return name === '' ? 'file' : decodeURIComponent(name)
  } catch {
    return name
  }
}
