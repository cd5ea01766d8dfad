/** Characters that are counted; the rest is extrapolated, because random letters take 4 µs each. */
export const COUNTED_CHARACTERS = 64_000

/** Characters given to the tokeniser at once. */
export const CHUNK = 4_096

/** The beginnings of texts as far as they are counted: copying 30 MB into the worker takes 20 ms. */
export function countedText(texts: readonly string[]): string[] {
  const counted: string[] = []
  let left = COUNTED_CHARACTERS
  for (const text of texts) {
    if (left <= 0) break
    counted.push(text.slice(0, left + CHUNK))
    left -= text.length
  }
  return counted
}

/**
 * Pieces that are joined at once, as bytes: two strings for each of them would take many times its own memory, and a
 * string with one wide character takes two bytes for each other one.
 */
const JOINED_PIECES = 256

/** A text that grows by small pieces, of which no more is kept than is counted. */
export class GrowingText {
  /** The length of the whole text. */
  length = 0
  #joined: Buffer[] | undefined
  #pieces: string[] | undefined

  append(piece: string): void {
    const left = COUNTED_CHARACTERS + CHUNK - this.length
    if (left > 0) {
      this.#pieces ??= []
      this.#pieces.push(piece.length < left ? piece : piece.slice(0, left))
      if (this.#pieces.length === JOINED_PIECES || piece.length >= left) this.#join()
    }
    this.length += piece.length
  }

  clear(): void {
    this.length = 0
    this.#joined = undefined
    this.#pieces = undefined
  }

  /** Its beginning, as far as it is counted. */
  get beginning(): string {
    const rest = this.#pieces?.join('') ?? ''
    return this.#joined === undefined ? rest : Buffer.concat(this.#joined).toString() + rest
  }

  #join(): void {
    ;(this.#joined ??= []).push(Buffer.from(this.#pieces!.join('')))
    this.#pieces = undefined
  }
}
