import { sameBeginning } from '../json/same-beginning.ts'
import { ArrayText } from '../json/stringify-body.ts'
import type { Extras } from './fields.ts'
import type { Target } from './protocol.ts'
import type { Loss, Translation } from './translation.ts'

/**
 * Memories for conversations that come again, longer, in a later request. Their elements are the same objects then (see
 * ConversationMemory). All results are shared and must not be changed.
 */

/** Facts about an array that comes again: one object for each owner. */
class ArrayMemory {
  readonly #made = new WeakMap<object, object>()

  of<T extends object>(owner: object, make: () => T): T {
    let made = this.#made.get(owner) as T | undefined
    if (made === undefined) this.#made.set(owner, (made = make()))
    return made
  }
}

/** Arrays that come again. All versions of one array share its memory. */
const memories = new WeakMap<readonly unknown[], ArrayMemory>()

/** Has an array be remembered, as a later version of `before`. */
export function remember(array: readonly unknown[], before?: readonly unknown[]): void {
  if (!memories.has(array)) memories.set(array, memoryOf(before) ?? new ArrayMemory())
}

export const memoryOf = (value: unknown): ArrayMemory | undefined =>
  Array.isArray(value) ? memories.get(value) : undefined

const READ = {}

/** The memory of an array that is made of another one. */
class Made {
  readonly memory = new ArrayMemory()
}

const newMade = (): Made => new Made()

/** Has an array be remembered, if `source` is, of which it was made. `owner`: if that was not a reader. */
export function rememberLike<T>(source: unknown, array: T[], owner: object = READ): T[] {
  const made = memoryOf(source)?.of(owner, newMade)
  if (made !== undefined) memories.set(array, made.memory)
  return array
}

/** Reports whether a value is an array that is remembered. */
export const isRemembered = (value: unknown): value is readonly unknown[] => memoryOf(value) !== undefined

/** The text of an array that is remembered. */
export const textOf = (value: unknown): ArrayText | undefined => memoryOf(value)?.of(ArrayText, newText)

const newText = (): ArrayText => new ArrayText()

/** The elements that were tested, and the indexes of those that passed. */
class Tested {
  #elements: readonly unknown[] = []
  readonly #passed: number[] = []

  /** The indexes of elements that pass. */
  of<T>(elements: readonly T[], test: (element: T) => boolean): readonly number[] {
    const passed = this.#passed
    const same = sameBeginning(this.#elements, elements)
    while (passed.length > 0 && passed.at(-1)! >= same) passed.pop()
    for (let index = same; index < elements.length; index++) if (test(elements[index]!)) passed.push(index)
    this.#elements = elements
    return passed
  }
}

const newTested = (): Tested => new Tested()

/**
 * `array.filter(test)`. Elements that were tested before are not tested again: the test must depend on nothing but the
 * element and be a constant.
 */
export function matchingElements<T>(array: readonly T[], test: (element: T) => boolean): T[] {
  const tested = memoryOf(array)?.of(test, newTested)
  return tested === undefined ? array.filter(test) : tested.of(array, test).map((index) => array[index]!)
}

/** `array.some(test)`; see `matchingElements`. */
export function someElement<T>(array: readonly T[], test: (element: T) => boolean): boolean {
  const tested = memoryOf(array)?.of(test, newTested)
  return tested === undefined ? array.some(test) : tested.of(array, test).length > 0
}

/** Arrays as they were read, as a whole. */
export class ReadArrays<T> {
  readonly #known = new WeakMap<readonly unknown[], T>()

  /** The result of `read`, which must depend on nothing but the array. One with extras is not kept. */
  of(source: unknown, extras: Extras, read: () => T): T {
    if (!isRemembered(source)) return read()
    const known = this.#known.get(source)
    if (known !== undefined) return known
    const before = Object.keys(extras).length
    const value = read()
    if (Object.keys(extras).length === before) this.#known.set(source, value)
    return value
  }
}

/** Arrays as they were written for a target. */
export class WrittenArrays<T> {
  readonly #known = new WeakMap<readonly unknown[], { target: Target; value: T; losses: readonly Loss[] }>()

  /** The result of `write`, which must depend on nothing but array and target. Its losses are reported again. */
  of(source: readonly unknown[], { target, report, schemaBudget }: Translation, write: () => T): T {
    if (!isRemembered(source)) return write()
    const known = this.#known.get(source)
    if (known?.target === target) {
      for (const { code, path, reason } of known.losses) report.add(code, path, reason)
      return known.value
    }
    const { reported } = report
    const lost = report.losses.length
    const value = write()
    const losses = report.losses.slice(lost)
    // A loss that was reported before, or is one too many, is not listed.
    if (report.reported - reported === losses.length && !schemaBudget.exceeded)
      this.#known.set(source, { target, value, losses })
    return value
  }
}
