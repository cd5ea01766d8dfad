import { GatewayError } from '../error.ts'
import type { GenerationRequest } from '../generation/request.ts'
import { CHARACTERS_PER_TOKEN, estimateInputTokens } from '../ledger/estimate.ts'
import type { RawRequest } from '../protocols/protocol.ts'
import { bodyBytes } from '../protocols/raw-request.ts'

/** Counts the input tokens of a request, for a provider that reports none. */
export class PromptCount {
  readonly #rawRequest: RawRequest
  readonly #readRequest: (rawRequest: RawRequest) => GenerationRequest
  #request: GenerationRequest | undefined

  /** `request`: as read from `rawRequest`; undefined if it was not read. */
  constructor(
    rawRequest: RawRequest,
    readRequest: (rawRequest: RawRequest) => GenerationRequest,
    request: GenerationRequest | undefined,
  ) {
    this.#rawRequest = rawRequest
    this.#readRequest = readRequest
    this.#request = request
  }

  /**
   * Frees the request as it was read, which can occupy several times the memory of its body: a response may stream for
   * minutes, and few have to be counted. `keepsBody`: the body's values are still used.
   */
  free(keepsBody: boolean): void {
    this.#request = undefined
    if (!keepsBody) this.#rawRequest.free?.()
  }

  /** An arrow function, so that whoever counts keeps nothing else. */
  readonly tokens = async (): Promise<number> => {
    try {
      return await estimateInputTokens(this.#request ?? this.#readRequest(this.#rawRequest))
    } catch (error) {
      if (!(error instanceof GatewayError)) throw error
      // A conversation that was not read may be one that only its provider understands.
      return Math.ceil(bodyBytes(this.#rawRequest) / CHARACTERS_PER_TOKEN)
    }
  }
}
