import { isObject } from '../../json/parse.ts'

type Container = Record<string, unknown> | unknown[]

const MAX_DEPTH = 64

/**
 * The arguments of one call that Vertex streams by JSON path (`$.recipe.steps[0]`), a value or a piece of a string at a
 * time (`streamFunctionCallArguments`).
 */
export class StreamedArguments {
  // The model chooses the names: an object without a prototype accepts all of them.
  readonly #root: Record<string, unknown> = Object.create(null)

  constructor(initial: unknown) {
    if (isObject(initial)) for (const [name, value] of Object.entries(initial)) this.#root[name] = value
  }

  /** False if a piece has no place here: it is nested too deeply, or has no path or a value of an unknown kind. */
  add(partialArgs: unknown): boolean {
    if (!Array.isArray(partialArgs)) return partialArgs === undefined
    return partialArgs.filter((piece) => !isObject(piece) || !this.#put(piece)).length === 0
  }

  toJSON(): Record<string, unknown> {
    return this.#root
  }

  #put(piece: Record<string, unknown>): boolean {
    const keys = typeof piece.jsonPath === 'string' ? keysOf(piece.jsonPath) : []
    if (keys.length === 0 || keys.length > MAX_DEPTH) return false
    let container: Container = this.#root
    for (const [index, key] of keys.slice(0, -1).entries()) {
      const inner: unknown = get(container, key)
      const next: Container =
        Array.isArray(inner) || isObject(inner)
          ? inner
          : typeof keys[index + 1] === 'number'
            ? []
            : (Object.create(null) as Record<string, unknown>)
      if (next !== inner) set(container, key, next)
      container = next
    }
    const last = keys.at(-1)!
    const value = valueOf(piece)
    const present = get(container, last)
    if (value === undefined) return Object.keys(piece).every((name) => name === 'jsonPath' || name === 'willContinue')
    set(container, last, typeof value === 'string' && typeof present === 'string' ? present + value : value)
    return true
  }
}

function valueOf(piece: Record<string, unknown>): unknown {
  for (const name of ['stringValue', 'numberValue', 'boolValue']) if (piece[name] !== undefined) return piece[name]
  return Object.hasOwn(piece, 'nullValue') ? null : undefined
}

const get = (container: Container, key: string | number): unknown =>
  Array.isArray(container)
    ? typeof key === 'number'
      ? container[key]
      : undefined
    : Object.hasOwn(container, key)
      ? container[key]
      : undefined

/** Elements come in order, so an index beyond the end is the next one: no path can create a huge array. */
function set(container: Container, key: string | number, value: unknown): void {
  if (!Array.isArray(container)) container[key] = value
  else if (typeof key === 'number' && key < container.length) container[key] = value
  else container.push(value)
}

/** `$.a.b[0]['c']` as a, b, 0, c. */
const keysOf = (path: string): (string | number)[] =>
  [...path.matchAll(/\[(\d+)\]|\['([^']*)'\]|\["([^"]*)"\]|([^.[\]$]+)/g)].map(
    ([, index, singleQuoted, doubleQuoted, unquoted]) =>
      index === undefined ? (singleQuoted ?? doubleQuoted ?? unquoted ?? '') : Number(index),
  )
