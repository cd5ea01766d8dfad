import { MOST_SPANS } from '../json/body-scan.ts'
import type { Extras, Fields } from './fields.ts'
import type { Target } from './protocol.ts'
import type { Translation } from './translation.ts'

/**
 * Memories for elements of conversations that come again, in a later request, as the same objects (see
 * ConversationMemory). An entry lives as long as its element. All results are shared: nobody may change them.
 */

/** Reports whether the elements of a conversation of this length are remembered: of very many, memories would grow. */
export const isRemembered = (elements: number): boolean => elements <= MOST_SPANS

/** Elements in which nothing was found, so that a later search need not look at them again. */
export class SearchedElements {
  readonly #empty = new WeakSet<object>()

  /** Has `search` look into each element and append to `found`, except where it found nothing before. */
  search<T extends object>(
    elements: readonly [index: number, element: T][],
    found: readonly unknown[],
    search: (index: number, element: T) => void,
  ): void {
    const remembered = isRemembered(elements.length)
    for (const [index, element] of elements) {
      if (this.#empty.has(element)) continue
      const before = found.length
      search(index, element)
      if (remembered && found.length === before) this.#empty.add(element)
    }
  }
}

/** Elements as they were read. */
export class ReadElements<T> {
  readonly #known = new WeakMap<object, { path: string; value: T }>()

  /**
   * The result of `read`, which must depend on nothing but the element and its path. One with extras is not remembered.
   * `isValid`: reports whether a remembered result is valid in this conversation, too.
   */
  of(element: Fields, extras: Extras, read: (extras: Extras) => T, isValid?: (value: T) => boolean): T {
    const { value: object, path } = element
    const known = this.#known.get(object)
    if (known?.path === path && isValid?.(known.value) !== false) return known.value
    const own: Extras = Object.create(null)
    const value = read(own)
    let hasExtras = false
    for (const name in own) {
      extras[name] = own[name]
      hasExtras = true
    }
    if (!hasExtras) this.#known.set(object, { path, value })
    return value
  }
}

/** Elements as they were written for a target. */
export class WrittenElements<T> {
  readonly #known = new WeakMap<object, { target: Target; variant: unknown; value: T }>()

  /**
   * The result of `write`, which must depend on nothing but the element, the target and `variant`. One with losses is
   * not remembered.
   */
  of(element: object, { target, report }: Translation, variant: unknown, write: () => T): T {
    const known = this.#known.get(element)
    if (known?.target === target && known.variant === variant) return known.value
    const { reported } = report
    const value = write()
    if (report.reported === reported) this.#known.set(element, { target, variant, value })
    return value
  }
}
