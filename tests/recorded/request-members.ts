import { isDeepStrictEqual } from 'node:util'

/** Walks the members of a vendor's request schema, and makes requests with and without each of them. */

export type Json = Record<string, any>

/**
 * One value of a member. `path`: of the member in the request. `request`: with this value. `base`: the same request
 * without the member, or with another value if the member is required.
 */
export type Member = { path: string; value: unknown; request: Json; base: Json }

/** A member that no schema has. */
const UNKNOWN = 'added_later'

/** Facts that a vendor's schema does not have. */
export type SchemaHints = {
  /** Members without which an object is not valid, by the name of its definition. */
  required?: Record<string, readonly string[]>
  /** Values of members, by the name of the member or of its definition and it: a list has several values. */
  samples?: Record<string, unknown>
  /** Definitions whose members are not walked. */
  opaque?: readonly string[]
}

/** Where a value is put. `definitions`: those around it, which are not walked again inside. */
type Place = { path: string; build: (value: unknown) => Json; definitions: readonly string[] }

/** A schema without references and alternatives, and the name of its definition. */
type Variant = { schema: Json; name: string | undefined }

export class RequestMembers {
  readonly members: Member[] = []
  readonly #definitions: Record<string, Json>
  readonly #hints: Required<SchemaHints>

  constructor(definitions: Record<string, Json>, hints: SchemaHints) {
    this.#definitions = definitions
    this.#hints = { required: {}, samples: {}, opaque: [], ...hints }
  }

  /** Adds all members of values of this schema. */
  walk(schema: Json, place: Place): void {
    for (const variant of this.#variants(schema)) {
      const { schema: one, name = '' } = variant
      if (place.definitions.includes(name) || this.#hints.opaque.includes(name)) continue
      const inside = { ...place, definitions: [...place.definitions, ...(name === '' ? [] : [name])] }
      if (isObjectSchema(one)) this.#walkObject(variant, inside)
      else if (one.type === 'array')
        this.walk(one.items ?? {}, {
          ...inside,
          path: `${place.path}[0]`,
          build: (element) => place.build([element]),
        })
    }
  }

  #walkObject(variant: Variant, { path: outer, build, definitions }: Place): void {
    const minimal = this.#sampleObject(variant, definitions)
    const required = this.#requiredOf(variant)
    for (const [name, schema] of Object.entries<Json>(variant.schema.properties ?? {})) {
      const path = outer === '' ? name : `${outer}.${name}`
      const withMember = (value: unknown): Json => build({ ...minimal, [name]: value })
      const base = required.includes(name) ? minimal : without(minimal, name)
      for (const value of this.#samples(schema, `${variant.name}.${name}`, definitions))
        if (!isDeepStrictEqual(value, base[name]))
          this.members.push({ path, value, request: withMember(value), base: build(base) })
      this.walk(schema, { path, build: withMember, definitions })
    }
    // A member that the vendor adds to the object later.
    if (variant.schema.properties !== undefined)
      this.members.push({
        path: outer === '' ? UNKNOWN : `${outer}.${UNKNOWN}`,
        value: 1,
        request: build({ ...minimal, [UNKNOWN]: 1 }),
        base: build(minimal),
      })
  }

  #requiredOf({ schema, name = '' }: Variant): readonly string[] {
    return [...(schema.required ?? []), ...(this.#hints.required[name] ?? [])]
  }

  #sampleObject(variant: Variant, definitions: readonly string[]): Json {
    const sampled = this.#requiredOf(variant).flatMap((name): [string, unknown][] => {
      const schema = variant.schema.properties?.[name]
      return schema === undefined ? [] : [[name, this.#samples(schema, `${variant.name}.${name}`, definitions)[0]]]
    })
    return Object.fromEntries(sampled)
  }

  /** Values of all variants. `member`: `<definition>.<name>`. */
  #samples(schema: Json, member: string, definitions: readonly string[]): unknown[] {
    const name = member.slice(member.lastIndexOf('.') + 1)
    const hint = this.#hints.samples[member] ?? this.#hints.samples[name]
    if (Array.isArray(hint)) return hint
    return this.#variants(schema).flatMap((variant): unknown[] => {
      const { schema: one, name: definition = '' } = variant
      if (definitions.includes(definition)) return []
      const inside = definition === '' ? definitions : [...definitions, definition]
      if (isObjectSchema(one)) {
        if (hint !== undefined) return typeof hint === 'object' ? [hint] : []
        return [one.properties === undefined ? { walked: 'one' } : this.#sampleObject(variant, inside)]
      }
      if (one.type === 'array') return [this.#samples(one.items ?? {}, member, inside).slice(0, 1)]
      return hint !== undefined && typeof hint !== 'object' ? [hint] : scalarsOf(one)
    })
  }

  /** The alternatives of a schema with their references resolved, without `null`. */
  #variants(schema: Json, name?: string): Variant[] {
    if (typeof schema.$ref === 'string') return this.#variants(...this.#definitionOf(schema.$ref))
    const alternatives: Json[] | undefined = schema.anyOf ?? schema.oneOf
    if (alternatives !== undefined) return alternatives.flatMap((one) => this.#variants(one))
    if (Array.isArray(schema.allOf)) return [{ schema: this.#joined(schema), name }]
    const types: string[] = Array.isArray(schema.type) ? schema.type : [schema.type]
    return types.filter((type) => type !== 'null').map((type) => ({ schema: { ...schema, type }, name }))
  }

  #definitionOf(reference: string): [Json, string] {
    const name = reference.slice(reference.lastIndexOf('/') + 1)
    return [this.#definitions[name]!, name]
  }

  #joined(schema: Json): Json {
    const parts = (schema.allOf as Json[]).map((part) => {
      const [target] = typeof part.$ref === 'string' ? this.#definitionOf(part.$ref) : [part]
      return Array.isArray(target.allOf) ? this.#joined(target) : target
    })
    return {
      type: 'object',
      properties: Object.assign({}, ...parts.map(({ properties }) => properties), schema.properties),
      required: [...parts.flatMap(({ required }) => required ?? []), ...(schema.required ?? [])],
    }
  }
}

const isObjectSchema = ({ type, properties }: Json): boolean => type === 'object' || properties !== undefined

const without = (object: Json, name: string): Json =>
  Object.fromEntries(Object.entries(object).filter(([member]) => member !== name))

/** Values that differ from each other and, unless there is only one, from the default. */
function scalarsOf({ type, format, minimum, maximum, const: only, enum: listed, default: usual }: Json): unknown[] {
  const values: unknown[] = listed ?? (only === undefined ? undefined : [only]) ?? byType()
  const others = values.filter((value) => value !== null && value !== usual)
  return others.length > 0 ? others : values

  function byType(): unknown[] {
    if (type === 'boolean') return [true, false]
    if (type !== 'integer' && type !== 'number')
      return format === 'uri' ? ['https://example.com/one', 'https://example.com/two'] : ['one', 'two']
    const low: number = minimum ?? 1
    const high: number = maximum ?? Math.max(low + 8, 8)
    return [low + (high - low) / 4, low + (high - low) / 2].map((value) =>
      type === 'integer' ? Math.ceil(value) : value,
    )
  }
}
