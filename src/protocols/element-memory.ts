import type { Extras, Fields } from './fields.ts'
import type { Target } from './protocol.ts'
import type { Translation } from './translation.ts'

/**
 * Memories for elements of conversations that come again, in a later request, as the same objects (see
 * ConversationMemory). An entry lives as long as its element. All results are shared and must not be changed.
 */

/** Arrays whose elements are remembered: those of conversations that came before, and what was made of them. */
const remembered = new WeakSet<readonly unknown[]>()

/** Has the elements of an array be remembered, if those of `source` are. */
export function rememberLike<T>(source: unknown, array: T[]): T[] {
  if (isRemembered(source)) remembered.add(array)
  return array
}

/** Has the elements of an array be remembered. */
export const remember = (array: readonly unknown[]): void => void remembered.add(array)

/** Reports whether a value is an array whose elements are remembered. */
export const isRemembered = (value: unknown): value is readonly unknown[] =>
  Array.isArray(value) && remembered.has(value)

/** Elements as they were read. */
export class ReadElements<T> {
  readonly #known = new WeakMap<object, { path: string; value: T }>()

  /**
   * The result of `read`, which must depend on nothing but the element and its path. One with extras is not kept.
   * `isKept`: the element is remembered. `isValid`: reports whether a kept result is valid in this conversation, too.
   */
  of(
    element: Fields,
    isKept: boolean,
    extras: Extras,
    read: (element: Fields, extras: Extras) => T,
    isValid?: (value: T) => boolean,
  ): T {
    if (!isKept) return read(element, extras)
    const { value: object, path } = element
    const known = this.#known.get(object)
    if (known?.path === path && isValid?.(known.value) !== false) return known.value
    const own: Extras = Object.create(null)
    const value = read(element.inner(object, path, own), own)
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
   * not kept.
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
