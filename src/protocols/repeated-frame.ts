import { detachedCopy } from '../json/detached-copy.ts'
import { isObject, tryParse } from '../json/parse.ts'

/**
 * A frame that differs from others only in one text: most frames of a stream do. `textOf` gives that of another frame,
 * whose other members need not be read again then.
 */
export class RepeatedFrame {
  readonly #before: string
  readonly #behind: string

  private constructor(before: string, behind: string) {
    this.#before = before
    this.#behind = behind
  }

  /** `read` gives the text of a value. Undefined where the text that is the value of `name` cannot be identified. */
  static of(data: string, name: string, read: (value: Record<string, unknown>) => unknown): RepeatedFrame | undefined {
    const found = new RegExp(`"${name}"\\s*:\\s*"`).exec(data)
    if (found === null) return undefined
    const from = found.index + found[0].length
    const to = data.indexOf('"', from)
    // Another text in this place is what is read: it is no part of another text, and no other member counts instead.
    const probe = tryParse(data.slice(0, from) + PROBE + data.slice(to))
    if (to === -1 || !isObject(probe) || read(probe) !== PROBE) return undefined
    // Frames that come in a burst are parts of one text.
    return new RepeatedFrame(detachedCopy(data.slice(0, from)), detachedCopy(data.slice(to)))
  }

  /** Undefined for a frame that differs in anything else. */
  textOf(data: string): string | undefined {
    const to = data.length - this.#behind.length
    if (to < this.#before.length || !data.startsWith(this.#before) || !data.endsWith(this.#behind)) return undefined
    // It is no valid text if it goes beyond its end. A part of `data` would keep all of that in memory.
    return tryParse(`"${data.slice(this.#before.length, to)}"`) as string | undefined
  }
}

const PROBE = 'a text that no provider sends'
