import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

/**
 * Requests with one unknown value each, generated from the JSON Schemas that vendors publish. The schemas are kept
 * outside the repository: tests are skipped where they are absent.
 */
const folder = join(import.meta.dir, '../../../shared/specs/schemas')

export const haveSchemas = existsSync(folder)

type Json = Record<string, unknown>
type Schema = Json & {
  $ref?: string
  properties?: Record<string, Schema>
  required?: string[]
  items?: Schema
  enum?: unknown[]
}
type Wrap = (value: unknown) => unknown
type Path = (string | number)[]

/** `path`: of the unknown value in `body`. */
export type Case = { path: Path; body: Json }

/** A value of an enumeration, and one of any other member, that no schema lists. */
export const UNKNOWN_WORD = 'x-unknown'
export const UNKNOWN_OBJECT = { x_unknown: true }

/** Nested deeper, schemas repeat themselves. */
const DEPTH_MAX = 12

/** The requests of one file. `base`: members of every body, for those that the schema requires. */
export function* unknownValues(file: string, base: Json): Generator<Case> {
  const { $defs: definitions, roots } = JSON.parse(readFileSync(join(folder, `${file}.schema.json`), 'utf8')) as {
    $defs: Record<string, Schema>
    roots: Record<string, string>
  }
  const walker = new Walker(definitions)
  yield* walker.walk(definitions[roots.request!]!, [], (value) => ({ ...base, ...(value as Json) }), 0)
}

class Walker {
  readonly #definitions: Record<string, Schema>
  /** Definitions that were walked, each under the definition that has it. */
  readonly #walked = new Set<string>()

  constructor(definitions: Record<string, Schema>) {
    this.#definitions = definitions
  }

  *walk(schema: Schema, path: Path, wrap: Wrap, depth: number, parent = ''): Generator<Case> {
    if (depth > DEPTH_MAX) return
    const name = schema.$ref?.split('/').at(-1)
    if (name !== undefined) {
      const key = `${parent} ${name}`
      if (this.#walked.has(key)) return
      this.#walked.add(key)
      return yield* this.walk(this.#definitions[name]!, path, wrap, depth, name)
    }
    for (const variant of variantsOf(schema)) yield* this.walk(variant, path, wrap, depth, parent)
    if (schema.items !== undefined) {
      const inArray: Wrap = (value) => wrap([value])
      if (depth > 0) yield { path: [...path, 0], body: inArray(unknownFor(this.#resolved(schema.items))) as Json }
      yield* this.walk(schema.items, [...path, 0], inArray, depth + 1, parent)
    }
    if (schema.properties !== undefined) yield* this.#members(schema, path, wrap, depth, parent)
  }

  *#members(schema: Schema, path: Path, wrap: Wrap, depth: number, parent: string): Generator<Case> {
    const minimal = complete(this.#minimal(schema, 0) as Json)
    yield { path: [...path, 'x_unknown'], body: wrap({ ...minimal, x_unknown: UNKNOWN_OBJECT }) as Json }
    for (const [name, member] of Object.entries(schema.properties!)) {
      const inMember: Wrap = (value) => wrap({ ...minimal, [name]: value })
      yield { path: [...path, name], body: inMember(unknownFor(this.#resolved(member))) as Json }
      yield* this.walk(member, [...path, name], inMember, depth + 1, parent)
    }
  }

  #resolved(schema: Schema): Schema {
    return schema.$ref === undefined ? schema : this.#resolved(this.#definitions[schema.$ref.split('/').at(-1)!]!)
  }

  /** A value with the required members of its schema. */
  #minimal(given: Schema, depth: number): unknown {
    const schema = this.#resolved(given)
    if (schema.const !== undefined) return schema.const
    if (schema.enum !== undefined) return schema.enum[0]
    if (schema.default !== undefined && schema.default !== null) return schema.default
    const required = (name: string): [string, unknown] => [
      name,
      depth > DEPTH_MAX ? 'x' : this.#minimal(schema.properties?.[name] ?? {}, depth + 1),
    ]
    if (schema.properties !== undefined) return Object.fromEntries((schema.required ?? []).map(required))
    const [variant] = variantsOf(schema)
    if (variant !== undefined && depth <= DEPTH_MAX) return this.#minimal(variant, depth + 1)
    const type = Array.isArray(schema.type) ? (schema.type as unknown[])[0] : schema.type
    if (type === 'array') return schema.minItems === undefined ? [] : [this.#minimal(schema.items ?? {}, depth + 1)]
    if (type === 'object') return {}
    if (type === 'boolean') return true
    if (type === 'integer' || type === 'number') return schema.minimum ?? 1
    return 'x'
  }
}

/** A reasoning item that has its content: one known by its id alone is left out of every request. */
const complete = (minimal: Json): Json =>
  minimal.type === 'reasoning' ? { ...minimal, encrypted_content: 'x' } : minimal

const variantsOf = (schema: Schema): Schema[] =>
  ['anyOf', 'oneOf', 'allOf'].flatMap((name) => (schema[name] as Schema[] | undefined) ?? [])

const unknownFor = (schema: Schema): unknown => {
  const isWord = (one: Schema): boolean =>
    one.enum !== undefined || one.const !== undefined || variantsOf(one).some(isWord)
  return isWord(schema) ? UNKNOWN_WORD : UNKNOWN_OBJECT
}
