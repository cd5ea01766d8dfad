import { GatewayError, invalid } from '../../error.ts'
import { isObject } from '../../json/parse.ts'

/** A JSON Schema (2020-12) of a tool's arguments or of a response. */
export type Schema = Record<string, unknown>

/** Keywords with one schema. */
const SINGLE: ReadonlySet<string> = new Set([
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
/** Keywords with a list of schemas. */
const LISTS: ReadonlySet<string> = new Set(['anyOf', 'oneOf', 'allOf', 'prefixItems'])
/** Keywords with schemas by name. */
const NAMED: ReadonlySet<string> = new Set([
  'properties',
  '$defs',
  'definitions',
  'patternProperties',
  'dependentSchemas',
  'dependencies',
])

/** Keywords that do not restrict values. */
const ANNOTATIONS: ReadonlySet<string> = new Set([
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
export const isAnnotation = (keyword: string): boolean => ANNOTATIONS.has(keyword) || keyword.startsWith('x-')

/** True for a schema that accepts every value. */
export const acceptsAnything = (schema: unknown): boolean =>
  schema === true || (isObject(schema) && Object.keys(schema).every(isAnnotation))

/** Sets a member of any name: a property may be called `__proto__`. */
function setMember(schema: Schema, name: string, value: unknown): void {
  if (name === '__proto__')
    Object.defineProperty(schema, name, { value, enumerable: true, configurable: true, writable: true })
  else schema[name] = value
}

/** A new object without a prototype, safe for any property name, with the members of all parts; later ones win. */
export function blank(...parts: object[]): Schema {
  const schema: Schema = Object.create(null)
  for (const part of parts) for (const name of Object.keys(part)) schema[name] = (part as Schema)[name]
  return schema
}

/**
 * The schema with each of its direct subschemas replaced by `change`, or removed for `undefined`. `steps`: the path of
 * the subschema. Invalid values in the position of a schema stay unchanged.
 */
export function mapSchemas(schema: Schema, change: (inner: Schema | boolean, steps: string) => unknown): Schema {
  const out: Schema = {}
  const changed = (inner: unknown, steps: string): unknown =>
    isObject(inner) || typeof inner === 'boolean' ? change(inner, steps) : inner
  for (const keyword of Object.keys(schema)) {
    const value = schema[keyword]
    if (typeof value !== 'object' && typeof value !== 'boolean') out[keyword] = value
    else if (Array.isArray(value) && (LISTS.has(keyword) || keyword === 'items'))
      out[keyword] = value.flatMap((inner, index) => changed(inner, `${keyword}[${index}]`) ?? [])
    else if (SINGLE.has(keyword)) {
      const inner = changed(value, keyword)
      if (inner !== undefined) out[keyword] = inner
    } else if (NAMED.has(keyword) && isObject(value)) {
      const named: Schema = {}
      for (const name of Object.keys(value)) {
        const inner = changed(value[name], `${keyword}.${name}`)
        if (inner !== undefined) setMember(named, name, inner)
      }
      out[keyword] = named
    } else setMember(out, keyword, value)
  }
  return out
}

/** Comparison and join steps, and characters that are copied when references are replaced. */
const BUDGET = { steps: 200_000, characters: 1024 * 1024 }

/** Limit on the work for all schemas of one request: a hostile schema must not delay other requests. */
export class SchemaBudget {
  readonly #left = { ...BUDGET }

  /** Spends a part of the budget; false if it is used up. */
  affords(unit: keyof typeof BUDGET, cost: number): boolean {
    return (this.#left[unit] -= cost) >= 0
  }

  get exceeded(): boolean {
    return this.#left.steps < 0 || this.#left.characters < 0
  }
}

export const joinPath = (path: string, steps: string): string => (path === '' ? steps : `${path}.${steps}`)

/** The types in `type`; undefined if it is absent or invalid. */
export const typesOf = ({ type }: Schema): string[] | undefined =>
  typeof type === 'string'
    ? [type]
    : Array.isArray(type) && type.every((one) => typeof one === 'string')
      ? type
      : undefined

/** The strings of an array; none for anything else. */
export const names = (value: unknown): string[] =>
  Array.isArray(value) ? value.filter((name) => typeof name === 'string') : []

const PATHS_REPORTED = 3

/** The keywords of one schema that its provider does not know, with their paths. */
export class UnknownKeywords {
  readonly #paths = new Map<string, string[]>()

  /** `keyword`: or a description of the construct; `path`: within the schema. */
  add(keyword: string, path: string): void {
    const paths = this.#paths.get(keyword) ?? []
    paths.push(path === '' ? 'the root' : path)
    this.#paths.set(keyword, paths)
  }

  get hasAny(): boolean {
    return this.#paths.size > 0
  }

  toString(): string {
    return [...this.#paths]
      .map(([keyword, paths]) => {
        const more = paths.length > PATHS_REPORTED ? ` and ${paths.length - PATHS_REPORTED} more` : ''
        return `${keyword} (${paths.slice(0, PATHS_REPORTED).join(', ')}${more})`
      })
      .join(', ')
  }

  /** The reason of the loss for the whole schema; undefined if the provider knows every keyword. */
  get reason(): string | undefined {
    return this.hasAny ? `the provider does not know ${this}` : undefined
  }
}

/** The 400 of a schema that the provider cannot accept. `path`: within the schema. */
export class SchemaRefusal extends GatewayError {
  readonly path: string
  readonly problem: string

  constructor(path: string, problem: string) {
    super('invalid_request', `${path === '' ? 'the schema' : path}: ${problem}`)
    this.path = path
    this.problem = problem
  }
}

/** Turns a SchemaRefusal into an invalid_request with its path in the client's request. */
export function refusingAt<T>(path: string, write: () => T): T {
  try {
    return write()
  } catch (error) {
    throw error instanceof SchemaRefusal
      ? invalid(error.path === '' ? path : joinPath(path, error.path), error.problem)
      : error
  }
}
