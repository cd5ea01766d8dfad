import { GatewayError } from '../error.ts'
import type { MediaReference } from '../protocols/protocol.ts'

/** A reference as far as loading its medium needs it. */
export type LoadableReference = Omit<MediaReference, 'inline'>

/** A medium that is put into its request. `bytes`: before encoding. */
export type LoadedMedia<Reference extends LoadableReference = MediaReference> = {
  reference: Reference
  mediaType: string
  filename: string
  bytes: number
  data(): Promise<Uint8Array>
}

/** Bytes of these media in base64. */
export const encodedBytes = (media: readonly { bytes: number }[]): number =>
  media.reduce((sum, { bytes }) => sum + Math.ceil(bytes / 3) * 4, 0)

/** A media type without its parameters. */
export const withoutParameters = (mediaType: string): string => mediaType.split(';')[0]!.trim().toLowerCase()

/**
 * Base64 put into requests in flight, all together. Translating and sending it takes about eight times as much memory.
 */
const MEMORY_BYTES = 256 * 2 ** 20

/** The memory that the media of all requests in flight share. */
export class MediaMemory {
  freeBytes = MEMORY_BYTES

  lease(): MediaLease {
    return new Lease(this)
  }
}

/** The part of that memory that one request occupies, until it is released. */
export type MediaLease = {
  /** No effect after the release: a fetch may end after its request was refused. Throws overloaded. */
  add(bytes: number): void
  release(): void
}

class Lease implements MediaLease {
  readonly #memory: MediaMemory
  #bytes = 0
  #isReleased = false

  constructor(memory: MediaMemory) {
    this.#memory = memory
  }

  add(bytes: number): void {
    if (this.#isReleased) return
    if (bytes > this.#memory.freeBytes)
      throw new GatewayError('overloaded', 'The memory for media is full: send the request again in a moment.', {
        retryAfterSeconds: 1,
      })
    this.#memory.freeBytes -= bytes
    this.#bytes += bytes
  }

  release(): void {
    this.#isReleased = true
    this.#memory.freeBytes += this.#bytes
    this.#bytes = 0
  }
}
