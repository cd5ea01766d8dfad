import { GatewayError, invalid } from '../../error.ts'
import { isObject } from '../fields.ts'

/**
 * JSON Schema (2020-12) of tools and answers: where schemas stand inside one, and what is told of what a provider does
 * not know.
 */
export type Schema = Record<string, unknown>

const ONE: ReadonlySet<string> = new Set([
  'items',
  'additionalProperties',
  'not',
  'if',
  'then',
  'else',
  'contains',
  'propertyNames',
  'unevaluatedItems',
  'unevaluatedProperties',
  'additionalItems',
  'contentSchema',
])
const LISTS: ReadonlySet<string> = new Set(['anyOf', 'oneOf', 'allOf', 'prefixItems'])
/** Members whose keys are names that the author of the schema chose. */
const NAMED: ReadonlySet<string> = new Set([
  'properties',
  '$defs',
  'definitions',
  'patternProperties',
  'dependentSchemas',
  'dependencies',
])

/** Words that say something about a value without asking anything of it. */
const NOTES: ReadonlySet<string> = new Set([
  'description',
  'title',
  'default',
  'example',
  'examples',
  'deprecated',
  'readOnly',
  'writeOnly',
  '$comment',
  '$schema',
  '$id',
  '$anchor',
  '$defs',
  'definitions',
  'propertyOrdering',
])
export const isNote = (word: string): boolean => NOTES.has(word) || word.startsWith('x-')

/** What a value may be without any word that asks something of it. */
export const takesAnything = (schema: unknown): boolean =>
  schema === true || (isObject(schema) && Object.keys(schema).every(isNote))

/** A member that is one whatever its name: a property may be called `__proto__`. */
function put(schema: Schema, name: string, value: unknown): void {
  if (name === '__proto__')
    Object.defineProperty(schema, name, { value, enumerable: true, configurable: true, writable: true })
  else schema[name] = value
}

/**
 * A new object of the members of these, of a name given twice the last; one in which names can be looked up, whatever
 * they are.
 */
export function blank(...parts: object[]): Schema {
  const schema: Schema = Object.create(null)
  for (const part of parts) for (const name of Object.keys(part)) schema[name] = (part as Schema)[name]
  return schema
}

/**
 * The schema with each schema right below it changed; `undefined` takes it out. What stands where a schema may stand
 * and is none stays as it is.
 */
export function mapSchemas(schema: Schema, change: (inner: Schema | boolean, steps: string) => unknown): Schema {
  const out: Schema = {}
  const changed = (inner: unknown, steps: string): unknown =>
    isObject(inner) || typeof inner === 'boolean' ? change(inner, steps) : inner
  for (const word of Object.keys(schema)) {
    const value = schema[word]
    if (typeof value !== 'object' && typeof value !== 'boolean') out[word] = value
    else if (Array.isArray(value) && (LISTS.has(word) || word === 'items'))
      out[word] = value.flatMap((inner, index) => changed(inner, `${word}[${index}]`) ?? [])
    else if (ONE.has(word)) {
      const inner = changed(value, word)
      if (inner !== undefined) out[word] = inner
    } else if (NAMED.has(word) && isObject(value)) {
      const named: Schema = {}
      for (const name of Object.keys(value)) {
        const inner = changed(value[name], `${word}.${name}`)
        if (inner !== undefined) put(named, name, inner)
      }
      out[word] = named
    } else put(out, word, value)
  }
  return out
}

/** Steps of comparing and joining schemas, and characters that are copied where a schema grows. */
const BUDGET = { steps: 200_000, characters: 1024 * 1024 }

/** Work that the schemas of one request may cost: a hostile schema must not hold up other requests. */
export class SchemaBudget {
  readonly #left = { ...BUDGET }

  /** Takes so much of what is left; false where there is not enough. */
  affords(what: keyof typeof BUDGET, cost: number): boolean {
    return (this.#left[what] -= cost) >= 0
  }

  get exceeded(): boolean {
    return this.#left.steps < 0 || this.#left.characters < 0
  }
}

export const stepInto = (place: string, steps: string): string => (place === '' ? steps : `${place}.${steps}`)

/** The words of `type`; undefined where it is absent or none. */
export const typesOf = ({ type }: Schema): string[] | undefined =>
  typeof type === 'string'
    ? [type]
    : Array.isArray(type) && type.every((one) => typeof one === 'string')
      ? type
      : undefined

export const names = (value: unknown): string[] =>
  Array.isArray(value) ? value.filter((name) => typeof name === 'string') : []

const PLACES_TOLD = 3

/** What of one schema its provider does not know, and where. */
export class Unknowns {
  readonly #places = new Map<string, string[]>()

  /** `what`: a word, or what it stands for; `place`: within the schema. */
  add(what: string, place: string): void {
    const places = this.#places.get(what) ?? []
    places.push(place === '' ? 'the root' : place)
    this.#places.set(what, places)
  }

  get some(): boolean {
    return this.#places.size > 0
  }

  toString(): string {
    return [...this.#places]
      .map(
        ([what, places]) =>
          `${what} (${places.slice(0, PLACES_TOLD).join(', ')}${places.length > PLACES_TOLD ? ` and ${places.length - PLACES_TOLD} more` : ''})`,
      )
      .join(', ')
  }

  /** The reason of the one loss for the whole schema; undefined where the provider knows all of it. */
  get reason(): string | undefined {
    return this.some ? `the provider does not know ${this}` : undefined
  }
}

/** The 400 of a schema that the provider cannot be sent. `place`: the path within the schema. */
export class SchemaRefusal extends GatewayError {
  readonly place: string
  readonly problem: string

  constructor(place: string, problem: string) {
    super('invalid_request', `${place === '' ? 'the schema' : place}: ${problem}`)
    this.place = place
    this.problem = problem
  }
}

/** Gives a refusal the path of its schema in the client's request. */
export function refusingAt<T>(path: string, write: () => T): T {
  try {
    return write()
  } catch (error) {
    throw error instanceof SchemaRefusal
      ? invalid(error.place === '' ? path : stepInto(path, error.place), error.problem)
      : error
  }
}
