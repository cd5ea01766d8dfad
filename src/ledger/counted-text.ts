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

/** Pieces that are joined at once: two strings for each of them would take many times its own memory. */
const JOINED_PIECES = 256

/** A text that grows by small pieces, of which no more is kept than is counted. */
export class GrowingText {
  /** The length of the whole text. */
  length = 0
  #joined = ''
  #pieces: string[] | undefined

  append(piece: string): void {
    if (this.length < COUNTED_CHARACTERS + CHUNK) {
      if ((this.#pieces ??= []).push(piece) === JOINED_PIECES) this.#join()
    }
    this.length += piece.length
  }

  clear(): void {
    this.length = 0
    this.#joined = ''
    this.#pieces = undefined
  }

  /** Its beginning, as far as it is counted. */
  get beginning(): string {
    this.#join()
    return this.#joined
  }

  #join(): void {
    if (this.#pieces !== undefined) this.#joined += this.#pieces.join('')
    this.#pieces = undefined
  }
}
