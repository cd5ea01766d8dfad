import { randomBytes } from 'node:crypto'
import { statSync, truncateSync } from 'node:fs'
import { open } from 'node:fs/promises'

const CHUNK_BYTES = 256 * 1024

/** A file whose only purpose is its size: emptied, it frees space on a full disk. */
export class ReserveFile {
  readonly #path: string
  #size: number
  #isFilling = false
  #isGivenBack = false

  /** `path`: of a file that may exist from an earlier process. */
  constructor(path: string) {
    this.#path = path
    this.#size = statSync(path, { throwIfNoEntry: false })?.size ?? 0
  }

  get size(): number {
    return this.#size
  }

  /** Empties it. False if it was empty already, or cannot be changed. */
  giveBack(): boolean {
    this.#isGivenBack = true
    if (this.#size === 0) return false
    this.#size = 0
    try {
      truncateSync(this.#path, 0)
      return true
    } catch {
      return false
    }
  }

  /** Writes it up to this size, unless the disk fills up meanwhile. The bytes are random, so that none are saved. */
  async fill(bytes: number): Promise<void> {
    if (this.#isFilling) return
    this.#isFilling = true
    this.#isGivenBack = false
    try {
      const file = await open(this.#path, 'w', 0o600)
      try {
        this.#size = 0
        const chunk = randomBytes(CHUNK_BYTES)
        while (this.#size < bytes && !this.#isGivenBack) {
          const { bytesWritten } = await file.write(chunk, 0, Math.min(CHUNK_BYTES, bytes - this.#size))
          this.#size += bytesWritten
        }
      } finally {
        await file.close()
      }
    } catch {
      this.giveBack()
    } finally {
      this.#isFilling = false
    }
    if (this.#isGivenBack) this.giveBack()
  }
}
