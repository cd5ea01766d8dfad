import type { Template } from './otlp-writer.ts'

export type Value = string | number | undefined

type Known = { values: readonly Value[]; template: Template }

const TEMPLATES_MAX = 1_000
const NONE: Known[] = []

/** Templates by the values that decide them, always as many. Most messages need that of the one before. */
export class Templates {
  /** By the first value, then by the second: of the others there are few combinations with the same two. */
  readonly #known = new Map<Value, Map<Value, Known[]>>()
  #count = 0
  readonly #lastValues: Value[] = []
  #last: Template | undefined

  /** The list of values may be used again. */
  get(values: readonly Value[]): Template | undefined {
    if (isSame(values, this.#lastValues)) return this.#last
    for (let i = 0; i < values.length; i++) this.#lastValues[i] = values[i]
    const similar = this.#known.get(values[0])?.get(values[1]) ?? NONE
    return (this.#last = similar.find((one) => isSame(values, one.values))?.template)
  }

  /** Adds the one that `get` did not find. Where there are too many, all others are forgotten. */
  add(values: readonly Value[], template: Template): Template {
    if (++this.#count > TEMPLATES_MAX) {
      this.#known.clear()
      this.#count = 1
    }
    const own = values.map(ownCopy)
    const [first, second] = own
    let bySecond = this.#known.get(first)
    if (bySecond === undefined) this.#known.set(first, (bySecond = new Map()))
    const similar = bySecond.get(second)
    const one = { values: own, template }
    if (similar === undefined) bySecond.set(second, [one])
    else similar.push(one)
    return (this.#last = template)
  }
}

function isSame(values: readonly Value[], others: readonly Value[]): boolean {
  for (let i = 0; i < values.length; i++) if (values[i] !== others[i]) return false
  return true
}

/** A part of a text keeps all of it in memory, which clients can make long; so does a part of a sum of texts. */
const ownCopy = (value: Value): Value =>
  typeof value === 'string' ? (JSON.parse(JSON.stringify(value)) as string) : value
