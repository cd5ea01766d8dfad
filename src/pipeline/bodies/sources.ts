import type { ByteSource } from '../../http/call.ts'
import type { Chunk, TextSource, WriteNow } from '../../http/stream.ts'

/** A provider's response of which every chunk is also recorded. */
export class RecordedSource implements ByteSource {
  readonly #source: ByteSource
  readonly #record: (chunk: Uint8Array) => void
  /** The last one that was consumed: the read that it ends gives it again. */
  #consumed: Uint8Array | undefined

  constructor(source: ByteSource, record: (chunk: Uint8Array) => void) {
    this.#source = source
    this.#record = record
  }

  async read(consume?: (chunk: Uint8Array) => boolean): Promise<Uint8Array | undefined> {
    const consumeRecorded = (chunk: Uint8Array): boolean => {
      this.#consumed = chunk
      this.#record(chunk)
      return consume!(chunk)
    }
    const chunk = await this.#source.read(consume && consumeRecorded)
    if (chunk !== undefined && chunk !== this.#consumed) this.#record(chunk)
    this.#consumed = undefined
    return chunk
  }

  cancel(): void {
    this.#source.cancel()
  }
}

/** The stream of a client of which every text is also recorded. `ended`: called once. */
export function recordedAnswer(source: TextSource, record: (text: string) => void, ended: () => void): TextSource {
  const recordChunk = (chunk: Chunk): void => {
    for (const text of typeof chunk === 'string' ? [chunk] : chunk.map((one) => one.text)) record(text)
  }
  return {
    async pull(write?: WriteNow): Promise<Chunk | undefined> {
      const writeRecorded: WriteNow = (text) => {
        const result = write!(text)
        if (result !== 'refused') record(text)
        return result
      }
      try {
        const chunk = await source.pull(write && writeRecorded)
        if (chunk === undefined) ended()
        else recordChunk(chunk)
        return chunk
      } catch (error) {
        ended()
        throw error
      }
    },
    cancel(reason) {
      source.cancel(reason)
      ended()
    },
  }
}
