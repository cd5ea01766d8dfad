import { isObject } from '../fields.ts'

type Container = Record<string, unknown> | unknown[]

const DEPTH_MAX = 64

/**
 * Arguments that Vertex streams by JSON path (`$.recipe.steps[0]`), a value or a piece of a string at a time
 * (`streamFunctionCallArguments`). Lives as long as one call.
 */
export class PartialArguments {
  // Names come from the model: an object without a prototype takes any of them.
  readonly #root: Record<string, unknown> = Object.create(null)

  constructor(begun: unknown) {
    if (isObject(begun)) for (const [name, value] of Object.entries(begun)) this.#root[name] = value
  }

  add(partialArgs: unknown): void {
    if (!Array.isArray(partialArgs)) return
    for (const piece of partialArgs) if (isObject(piece)) this.#put(piece)
  }

  toJSON(): Record<string, unknown> {
    return this.#root
  }

  #put(piece: Record<string, unknown>): void {
    const keys = typeof piece['jsonPath'] === 'string' ? keysOf(piece['jsonPath']) : []
    if (keys.length === 0 || keys.length > DEPTH_MAX) return
    let at: Container = this.#root
    for (const [index, key] of keys.slice(0, -1).entries()) {
      const inner: unknown = get(at, key)
      const next: Container =
        Array.isArray(inner) || isObject(inner)
          ? inner
          : typeof keys[index + 1] === 'number'
            ? []
            : (Object.create(null) as Record<string, unknown>)
      if (next !== inner) set(at, key, next)
      at = next
    }
    const last = keys.at(-1)!
    const value = valueOf(piece)
    const present = get(at, last)
    if (value !== undefined)
      set(at, last, typeof value === 'string' && typeof present === 'string' ? present + value : value)
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

/** Elements come in order, so an index beyond the end is the next one: no path can make a huge array. */
function set(container: Container, key: string | number, value: unknown): void {
  if (!Array.isArray(container)) container[key] = value
  else if (typeof key === 'number' && key < container.length) container[key] = value
  else container.push(value)
}

/** `$.a.b[0]['c']` -> a, b, 0, c. */
const keysOf = (path: string): (string | number)[] =>
  [...path.matchAll(/\[(\d+)\]|\['([^']*)'\]|\["([^"]*)"\]|([^.[\]$]+)/g)].map(([, index, single, double, bare]) =>
    index === undefined ? (single ?? double ?? bare ?? '') : Number(index),
  )
