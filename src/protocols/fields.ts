import { GatewayError, invalid } from '../error.ts'
import { isObject } from '../json/parse.ts'

/**
 * A JSON object of a request with its path. A protocol's `readRequest` takes each field through one of these methods,
 * and `collectExtras` finds those that no reader took, also in the objects inside. A wrong type or range is a 400 with
 * the path: at once, or with `extras` for a translation only (see `refuseElsewhere`), and then the field is read as
 * absent.
 */
export class Fields {
  readonly path: string
  readonly value: Record<string, unknown>
  readonly extras: Extras | undefined
  /** Names of the members that were taken: so few that a list is faster than a set. */
  #taken: string[] = []
  /** The objects inside that were handed out, whose members are read one by one too. */
  #inner: Fields[] | undefined
  #outer: Fields | undefined
  #isWhole = false

  constructor(value: unknown, path = '', extras?: Extras) {
    if (typeof value !== 'object' || value === null || Array.isArray(value))
      throw invalid(path === '' ? 'body' : path, `must be an object, not ${describeType(value)}`)
    this.path = path
    this.value = value as Record<string, unknown>
    this.extras = extras
  }

  /** The same object for fields that Sluice needs itself: a wrong value is refused at once. */
  get needed(): this {
    const needed = this.made(this.value, this.path, undefined)
    needed.#taken = this.#taken
    return needed
  }

  /** An object inside this one. */
  inner(value: unknown, path: string, extras = this.extras): this {
    return this.made(value, path, extras)
  }

  /** An object of the own class, without reflection, which would take longer than the rest of reading. */
  protected made(value: unknown, path: string, extras: Extras | undefined): this {
    return new Fields(value, path, extras) as this
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
    return this.#refuse(this.at(name), `must be a string, not ${describeType(value)}`)
  }

  boolean(name: string): boolean | undefined {
    const value = this.take(name)
    if (value === undefined || typeof value === 'boolean') return value
    return this.#refuse(this.at(name), `must be true or false, not ${describeType(value)}`)
  }

  number(name: string, range: Range = {}): number | undefined {
    const value = this.take(name)
    if (value === undefined) return undefined
    if (typeof value !== 'number' || !Number.isFinite(value))
      return this.#refuse(
        this.at(name),
        `must be a number, not ${typeof value === 'number' ? 'one beyond the range of a double' : describeType(value)}`,
      )
    const problem = rangeProblem(value, range)
    return problem === undefined ? value : this.#refuse(this.at(name), problem)
  }

  integer(name: string, range: Range = {}): number | undefined {
    const value = this.number(name, range)
    if (value === undefined || Number.isInteger(value)) return value
    return this.#refuse(this.at(name), `must be a whole number, not ${value}`)
  }

  oneOf<T extends string>(name: string, allowed: readonly T[]): T | undefined {
    const value = this.string(name)
    if (value === undefined || (allowed as readonly string[]).includes(value)) return value as T | undefined
    return this.#refuse(this.at(name), `must be one of ${allowed.map((one) => `'${one}'`).join(', ')}, not '${value}'`)
  }

  /** An object whose members are read one by one; see `record`. */
  object(name: string): this | undefined {
    const before = this.#taken.length
    const value = this.take(name)
    if (value === undefined) return undefined
    const path = this.at(name)
    // Conversations hand out many objects: they are searched only for a member that was taken before.
    const isRepeated = this.#taken.indexOf(this.#taken[before]!) < before
    const known = isRepeated ? this.#inner?.find((fields) => fields.path === path) : undefined
    return (known as this | undefined) ?? this.#handedOut(value, path)
  }

  /** An object that is read, or carried, as a whole. */
  record(name: string): Record<string, unknown> | undefined {
    const value = this.take(name)
    return value === undefined ? undefined : this.#innerObject(value, this.at(name))?.value
  }

  /** The value with all that is in it, of an object that is carried, refused or dropped as a whole. */
  whole(): Record<string, unknown> {
    this.#isWhole = true
    return this.value
  }

  array(name: string, limits: { min?: number; max?: number; of?: string } = {}): unknown[] | undefined {
    const value = this.take(name)
    if (value === undefined) return undefined
    if (!Array.isArray(value)) return this.#refuse(this.at(name), `must be an array, not ${describeType(value)}`)
    const of = limits.of ?? 'elements'
    if (limits.min !== undefined && value.length < limits.min)
      return this.#refuse(this.at(name), `must have at least ${limits.min} ${of}, not ${value.length}`)
    if (limits.max !== undefined && value.length > limits.max)
      return this.#refuse(this.at(name), `must have at most ${limits.max} ${of}, not ${value.length}`)
    return value
  }

  /** Each element of an array of objects, with its own path. */
  objects(name: string, limits: { min?: number; max?: number; of?: string } = {}): this[] | undefined {
    const elements = this.array(name, limits)
    if (elements === undefined) return undefined
    const found: this[] = []
    const path = this.at(name)
    // Conversations are long: an iterator of entries would take as long as the objects.
    for (let index = 0; index < elements.length; index++) {
      const fields = this.#handedOut(elements[index], `${path}[${index}]`)
      if (fields !== undefined) found.push(fields)
    }
    return found
  }

  /** One element of an array of objects; undefined for another value, which is refused. */
  element(name: string, elements: readonly unknown[], index: number): this | undefined {
    return this.#innerObject(elements[index], `${this.at(name)}[${index}]`)
  }

  strings(name: string, limits: { min?: number; max?: number; of?: string } = {}): string[] | undefined {
    return this.array(name, limits)?.filter((element, index): element is string => {
      if (typeof element === 'string') return true
      this.#refuse(`${this.at(name)}[${index}]`, `must be a string, not ${describeType(element)}`)
      return false
    })
  }

  #handedOut(value: unknown, path: string): this | undefined {
    const fields = this.#innerObject(value, path)
    if (fields !== undefined) {
      fields.#outer = this
      ;(this.#inner ??= []).push(fields)
    }
    return fields
  }

  #innerObject(value: unknown, path: string): this | undefined {
    return isObject(value)
      ? this.inner(value, path)
      : this.#refuse(path, `must be an object, not ${describeType(value)}`)
  }

  #refuse(path: string, problem: string): undefined {
    const error = invalid(path, problem)
    if (this.extras === undefined) throw error
    refuseElsewhere(this.extras, error)
  }

  /** Adds the members that no reader took, also of the objects inside, unless one was added as a whole. */
  collect(extras: Extras): void {
    if (this.#isWhole) return
    if (this.#inner !== undefined) for (const inner of this.#inner) inner.collect(extras)
    for (const name of Object.keys(this.value))
      if (!this.#taken.includes(name) && this.value[name] !== null && !this.#isAdded(extras))
        extras[this.at(name)] ??= this.value[name]
  }

  /** This object, or one around it, was added as a whole. */
  #isAdded(extras: Extras): boolean {
    for (
      let fields = this.#outer === undefined ? undefined : (this as Fields);
      fields !== undefined;
      fields = fields.#outer
    )
      if (extras[fields.path] !== undefined) return true
    return false
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

function rangeProblem(value: number, { min, max, below }: Range): string | undefined {
  const isOutside =
    (min !== undefined && value < min) || (max !== undefined && value > max) || (below !== undefined && value >= below)
  if (!isOutside) return undefined
  const high = below !== undefined ? ` to below ${below}` : max === undefined || max === min ? '' : ` to ${max}`
  return min === undefined
    ? `must be at most ${max ?? below}, not ${value}`
    : `must be ${high === '' && max === undefined ? 'at least ' : ''}${min}${high}, not ${value}`
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

/**
 * Fields that only the client's own protocol knows, by path. One that no other protocol can represent is its refusal,
 * a GatewayError.
 */
export type Extras = Record<string, unknown>

/** Adds the members of an object that its reader did not take, and those of the objects inside. */
export const collectExtras = (fields: Fields, extras: Extras): void => fields.collect(extras)

/**
 * Has a value be refused by translations. A provider of the client's own protocol is sent it as it is, and judges it.
 */
export function refuseElsewhere(extras: Extras, error: GatewayError): void {
  const path = error.param ?? 'body'
  if (!(extras[path] instanceof GatewayError)) extras[path] = error
}

/** The same for what `read` throws of a value, of which then nothing is read. References that are refused stay so. */
export function tryRead<F extends Fields, T>(
  read: (fields: F, extras: Extras) => T,
  fields: F,
  extras: Extras,
): T | undefined {
  try {
    return read(fields, extras)
  } catch (error) {
    refuseUnreadable(error, extras)
    return undefined
  }
}

/** Takes the error of a value that cannot be read. Throws it again where it is of another kind. */
export function refuseUnreadable(error: unknown, extras: Extras): void {
  if (!(error instanceof GatewayError) || error.code !== 'invalid_request') throw error
  refuseElsewhere(extras, error)
}

/** The refusal of the first value of a request that no other protocol can represent. */
export function refusalOf({ extras }: { extras: Extras }): GatewayError | undefined {
  for (const path in extras) if (extras[path] instanceof GatewayError) return extras[path]
  return undefined
}
