import { isObject } from '../fields.ts'
import { intersect } from './intersect.ts'
import {
  blank,
  isNote,
  mapSchemas,
  names,
  stepInto,
  SchemaRefusal,
  takesAnything,
  type Schema,
  type SchemaBudget,
} from './schema.ts'

/** References that grow a schema beyond this are a bomb, not a tool. */
const SCHEMAS_MAX = 10_000
const DEPTH_MAX = 200

export const tooLarge = (): SchemaRefusal =>
  new SchemaRefusal(
    '',
    `must not grow beyond ${SCHEMAS_MAX} schemas in ${DEPTH_MAX} levels, nor all schemas of a request by more than a million characters, when references are followed and alternatives joined`,
  )

type Target = { schema: Schema | boolean; place: string }

/** The schemas that a document's references lead to. */
class Pointers {
  readonly #root: Schema
  /** What stands before the `#` of references within the document. */
  readonly #id: string
  readonly #known = new Map<string, Target | undefined>()
  #anchors: Map<string, Target> | undefined

  constructor(root: Schema) {
    this.#root = root
    this.#id = typeof root.$id === 'string' ? root.$id.replace(/#$/, '') : ''
  }

  find(ref: string): Target | undefined {
    if (!this.#known.has(ref)) this.#known.set(ref, this.#look(ref))
    return this.#known.get(ref)
  }

  #look(ref: string): Target | undefined {
    const local = ref.startsWith(this.#id) ? ref.slice(this.#id.length) : ref
    if (local === '' || local === '#') return { schema: this.#root, place: '' }
    const pointer = local.startsWith('#') ? decoded(local.slice(1)) : undefined
    if (pointer === undefined) return undefined
    if (!pointer.startsWith('/')) return this.#anchored().get(pointer)
    let value: unknown = this.#root
    let place = ''
    for (const step of pointer
      .slice(1)
      .split('/')
      .map((one) => one.replaceAll('~1', '/').replaceAll('~0', '~'))) {
      if ((!isObject(value) && !Array.isArray(value)) || !Object.hasOwn(value, step)) return undefined
      place = Array.isArray(value) ? `${place}[${step}]` : stepInto(place, step)
      value = (value as Record<string, unknown>)[step]
    }
    return isObject(value) || typeof value === 'boolean' ? { schema: value, place } : undefined
  }

  #anchored(): Map<string, Target> {
    if (this.#anchors !== undefined) return this.#anchors
    const anchors = (this.#anchors = new Map<string, Target>())
    const walk = (schema: Schema, place: string): void => {
      if (typeof schema.$anchor === 'string') anchors.set(schema.$anchor, { schema, place })
      mapSchemas(schema, (inner, steps) => {
        if (isObject(inner)) walk(inner, stepInto(place, steps))
      })
    }
    walk(this.#root, '')
    return anchors
  }
}

function decoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text)
  } catch {
    return undefined
  }
}

type Child = { schema: Schema; steps: string }

function children(schema: Schema): Child[] {
  const found: Child[] = []
  mapSchemas(schema, (one, steps) => {
    if (isObject(one)) found.push({ schema: one, steps })
  })
  return found
}

/** Without those that only wait to be referred to. */
const parts = (schema: Schema): Child[] =>
  children(schema).filter(({ steps }) => !/^(\$defs|definitions)\./.test(steps))

/** The schemas that lead back to themselves along such edges, of all to which these lead. */
function loops(
  from: Iterable<Schema>,
  pointers: Pointers,
  edgesOf: (schema: Schema) => (steps: string) => boolean,
): { looping: Set<Schema>; reached: Set<Schema> } {
  const looping = new Set<Schema>()
  const done = new Set<Schema>()
  const path: Schema[] = []
  const visit = (schema: Schema): void => {
    if (path.includes(schema)) return void path.slice(path.indexOf(schema)).forEach((one) => looping.add(one))
    if (done.has(schema)) return
    if (path.push(schema) > DEPTH_MAX) throw tooLarge()
    const target = typeof schema.$ref === 'string' ? pointers.find(schema.$ref)?.schema : undefined
    if (isObject(target)) visit(target)
    const isEdge = edgesOf(schema)
    for (const { schema: one, steps } of parts(schema)) if (isEdge(steps)) visit(one)
    path.pop()
    done.add(schema)
  }
  for (const schema of from) visit(schema)
  return { looping, reached: done }
}

/** Whether every value must have what stands there, so that a loop through it never ends. */
function needs(schema: Schema): (steps: string) => boolean {
  const required = new Set(names(schema.required))
  const ends = [schema.anyOf, schema.oneOf]
    .flat()
    .some((one) => isObject(one) && (one.type === 'null' || takesAnything(one)))
  return (steps) => {
    const [word = '', name = ''] = steps.split(/\.(.*)/s)
    if (word === 'properties') return required.has(name)
    if (word === 'items') return typeof schema.minItems === 'number' && schema.minItems > 0
    return /^(allOf|prefixItems)\[/.test(word) || (!ends && /^(anyOf|oneOf)\[/.test(word))
  }
}

export type Recursion =
  /** Refused. */
  | 'none'
  /** Where a value may end it: references to what refers to itself are kept, to `#/$defs/`. */
  | 'escapable'
  /** All of it is kept in the same way. */
  | 'any'

/**
 * The schema with what its references lead to in their place. Throws a SchemaRefusal for one that leads nowhere or out
 * of the schema, for recursion
 * that `recursion` does not allow, and for a schema that would grow without measure.
 */
export function inlined(root: Schema, recursion: Recursion, budget: SchemaBudget): Schema {
  return hasReferences(root) ? new Inliner(root, recursion, budget).result() : root
}

const REFERRING = new Set(['$ref', '$dynamicRef', '$recursiveRef', '$defs', 'definitions', '$anchor', '$id'])

/** Whether anything below has the name of a word of references; a property may only be called so. */
export const hasReferences = (value: unknown): boolean => {
  if (typeof value !== 'object' || value === null) return false
  if (Array.isArray(value)) return value.some(hasReferences)
  for (const name in value) if (REFERRING.has(name) || hasReferences((value as Schema)[name])) return true
  return false
}

class Inliner {
  readonly #root: Schema
  readonly #pointers: Pointers
  readonly #recursion: Recursion
  readonly #budget: SchemaBudget
  readonly #looping: Set<Schema>
  /** Names of the definitions that are kept, by what they define. */
  readonly #kept = new Map<Schema, string>()
  readonly #taken = new Map<string, number>()
  readonly #definitions = blank()
  #schemas = 0

  constructor(root: Schema, recursion: Recursion, budget: SchemaBudget) {
    this.#root = root
    this.#budget = budget
    this.#pointers = new Pointers(root)
    this.#recursion = recursion
    const { looping, reached } = loops([root], this.#pointers, () => () => true)
    this.#looping = looping
    if (recursion === 'escapable' && looping.size > 0)
      for (const schema of loops([...reached].reverse(), this.#pointers, needs).looping) this.#refuse(schema)
  }

  result(): Schema {
    const written = this.#write(this.#root, '', 0)
    const schema = isObject(written) ? written : blank(written ? {} : { not: {} })
    return this.#kept.size === 0 ? schema : blank(schema, { $defs: this.#definitions })
  }

  #refuse(schema: Schema): never {
    let place = ''
    const walk = (one: Schema, at: string): boolean =>
      one === schema
        ? ((place = at), true)
        : children(one).some(({ schema: below, steps }) => walk(below, stepInto(at, steps)))
    walk(this.#root, '')
    throw new SchemaRefusal(
      place,
      this.#recursion === 'none'
        ? 'must not refer to itself, since the provider of this model takes no recursive schemas; spell out as many levels as are needed'
        : 'must not refer to itself through what is required, since no value could ever end; make a property on the way optional',
    )
  }

  #write(schema: Schema | boolean, place: string, depth: number): Schema | boolean {
    if (++this.#schemas > SCHEMAS_MAX || depth > DEPTH_MAX) throw tooLarge()
    if (!isObject(schema)) return schema
    for (const word of ['$dynamicRef', '$recursiveRef'])
      if (typeof schema[word] === 'string')
        throw new SchemaRefusal(
          stepInto(place, word),
          'must be a $ref to a place within the schema, since the provider of this model knows no other references',
        )
    const { $ref, $defs: _defs, definitions: _definitions, $anchor: _anchor, $id: _id, ...rest } = schema
    const written = mapSchemas(blank(rest), (one, steps) => this.#write(one, stepInto(place, steps), depth + 1))
    return typeof $ref === 'string' ? this.#follow($ref, written, place, depth) : written
  }

  #follow(ref: string, siblings: Schema, place: string, depth: number): Schema | boolean {
    const target = this.#pointers.find(ref)
    if (target === undefined)
      throw new SchemaRefusal(
        stepInto(place, '$ref'),
        `must name a place within the schema (#/$defs/...), not '${ref.slice(0, 64)}'`,
      )
    if (!this.#budget.affords('characters', JSON.stringify(target.schema).length)) throw tooLarge()
    const loops = isObject(target.schema) && this.#looping.has(target.schema)
    const found = loops
      ? blank({ $ref: this.#keep(target as { schema: Schema; place: string }, ref, depth) })
      : this.#write(target.schema, target.place, depth + 1)
    if (Object.keys(siblings).length === 0) return found
    // A provider that keeps the reference knows nothing beside it.
    if (loops)
      return Object.keys(siblings).every(isNote)
        ? blank(siblings, { anyOf: [found] })
        : blank({ allOf: [found, siblings] })
    if (!isObject(found)) return found === true ? siblings : false
    return intersect(siblings, found, this.#budget) ?? blank({ allOf: [found, siblings] })
  }

  #keep({ schema, place }: { schema: Schema; place: string }, ref: string, depth: number): string {
    if (this.#recursion === 'none') this.#refuse(schema)
    const known = this.#kept.get(schema)
    if (known !== undefined) return `#/$defs/${known}`
    const last = (decoded(ref) ?? '').split('/').at(-1)!.replace(/\W/g, '_')
    const wish = last === '' || last === '_' ? 'Root' : last
    let n = this.#taken.get(wish) ?? 1
    while (this.#taken.has(numbered(wish, n))) n++
    const name = numbered(wish, n)
    this.#taken.set(wish, n).set(name, n === 1 ? 2 : 1)
    this.#kept.set(schema, name)
    this.#definitions[name] = this.#write(schema, place, depth + 1)
    return `#/$defs/${name}`
  }
}

const numbered = (name: string, n: number): string => (n === 1 ? name : `${name}${n}`)
