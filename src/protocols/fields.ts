import { invalid } from '../error.ts'

/**
 * A JSON object of a request with its path. A protocol's `readRequest` takes each field through one of these methods,
 * so that a wrong type or range is a 400 with the path, and the fields that no reader took remain in `rest()`.
 */
export class Fields {
  readonly path: string
  readonly value: Record<string, unknown>
  /** Names of the members that were taken: so few that a list is faster than a set. */
  readonly #taken: string[] = []

  constructor(value: unknown, path = '') {
    if (typeof value !== 'object' || value === null || Array.isArray(value))
      throw invalid(path === '' ? 'body' : path, `must be an object, not ${describeType(value)}`)
    this.path = path
    this.value = value as Record<string, unknown>
  }

  /** The path of a member: `messages[2].content`. */
  at(name: string): string {
    return this.path === '' ? name : `${this.path}.${name}`
  }

  /** The member's value; undefined if it is absent or `null`. */
  take(name: string): unknown {
    if (!Object.hasOwn(this.value, name)) return undefined
    this.#taken.push(name)
    return this.value[name] ?? undefined
  }

  /** True if the member is present and not `null`; it is not taken. */
  has(name: string): boolean {
    return Object.hasOwn(this.value, name) && this.value[name] !== null && this.value[name] !== undefined
  }

  /** The value if it is defined; else throws a 400. `expected`: for its message, `the name of a model`. */
  require<T>(name: string, value: T | undefined, expected: string): T {
    if (value === undefined) throw invalid(this.at(name), `is required: ${expected}`)
    return value
  }

  string(name: string): string | undefined {
    const value = this.take(name)
    if (value === undefined || typeof value === 'string') return value
    throw invalid(this.at(name), `must be a string, not ${describeType(value)}`)
  }

  boolean(name: string): boolean | undefined {
    const value = this.take(name)
    if (value === undefined || typeof value === 'boolean') return value
    throw invalid(this.at(name), `must be true or false, not ${describeType(value)}`)
  }

  number(name: string, range: Range = {}): number | undefined {
    const value = this.take(name)
    if (value === undefined) return undefined
    if (typeof value !== 'number' || !Number.isFinite(value))
      throw invalid(
        this.at(name),
        `must be a number, not ${typeof value === 'number' ? 'one beyond the range of a double' : describeType(value)}`,
      )
    return within(value, range, this.at(name))
  }

  integer(name: string, range: Range = {}): number | undefined {
    const value = this.number(name, range)
    if (value === undefined || Number.isInteger(value)) return value
    throw invalid(this.at(name), `must be a whole number, not ${value}`)
  }

  oneOf<T extends string>(name: string, allowed: readonly T[]): T | undefined {
    const value = this.string(name)
    if (value === undefined || (allowed as readonly string[]).includes(value)) return value as T | undefined
    throw invalid(this.at(name), `must be one of ${allowed.map((one) => `'${one}'`).join(', ')}, not '${value}'`)
  }

  object(name: string): Fields | undefined {
    const value = this.take(name)
    return value === undefined ? undefined : new Fields(value, this.at(name))
  }

  array(name: string, limits: { min?: number; max?: number; of?: string } = {}): unknown[] | undefined {
    const value = this.take(name)
    if (value === undefined) return undefined
    if (!Array.isArray(value)) throw invalid(this.at(name), `must be an array, not ${describeType(value)}`)
    const of = limits.of ?? 'elements'
    if (limits.min !== undefined && value.length < limits.min)
      throw invalid(this.at(name), `must have at least ${limits.min} ${of}, not ${value.length}`)
    if (limits.max !== undefined && value.length > limits.max)
      throw invalid(this.at(name), `must have at most ${limits.max} ${of}, not ${value.length}`)
    return value
  }

  /** Each element of an array of objects, with its own path. */
  objects(name: string, limits: { min?: number; max?: number; of?: string } = {}): Fields[] | undefined {
    return this.array(name, limits)?.map((element, index) => new Fields(element, `${this.at(name)}[${index}]`))
  }

  strings(name: string, limits: { min?: number; max?: number; of?: string } = {}): string[] | undefined {
    return this.array(name, limits)?.map((element, index) => {
      if (typeof element === 'string') return element
      throw invalid(`${this.at(name)}[${index}]`, `must be a string, not ${describeType(element)}`)
    })
  }

  /** The members that the reader did not take, without `null` ones. */
  rest(): Record<string, unknown> {
    const rest: Record<string, unknown> = Object.create(null)
    for (const name of Object.keys(this.value))
      if (!this.#taken.includes(name) && this.value[name] !== null) rest[name] = this.value[name]
    return rest
  }
}

/** `below` is exclusive. */
export type Range = { min?: number; max?: number; below?: number }

function within(value: number, { min, max, below }: Range, path: string): number {
  if (
    (min !== undefined && value < min) ||
    (max !== undefined && value > max) ||
    (below !== undefined && value >= below)
  ) {
    const high = below !== undefined ? ` to below ${below}` : max === undefined || max === min ? '' : ` to ${max}`
    throw invalid(
      path,
      min === undefined
        ? `must be at most ${max ?? below}, not ${value}`
        : `must be ${high === '' && max === undefined ? 'at least ' : ''}${min}${high}, not ${value}`,
    )
  }
  return value
}

/** The kind of a wrong value for error messages, which never quote its content. */
export const describeType = (value: unknown): string =>
  value === null
    ? 'null'
    : value === undefined
      ? 'absent'
      : Array.isArray(value)
        ? 'an array'
        : typeof value === 'object'
          ? 'an object'
          : typeof value === 'string'
            ? 'a string'
            : `${typeof value === 'number' ? 'a number' : `a ${typeof value}`}`

/** An object to spread: one member, or none if the value is undefined. */
export const present = <K extends string, V>(name: K, value: V | undefined): { [P in K]?: V } =>
  (value === undefined ? {} : { [name]: value }) as { [P in K]?: V }

/** A camelCase name in snake_case, the other spelling that Google accepts. */
export const snakeCase = (name: string): string => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)

/** Fields that only the client's own protocol knows, by path. */
export type Extras = Record<string, unknown>

/** Adds the members of an object that its reader did not take. */
export function collectExtras(fields: Fields, extras: Extras): void {
  for (const [name, value] of Object.entries(fields.rest())) extras[fields.at(name)] = value
}
