import { isObject } from '../../json/parse.ts'
import { intersect } from './intersect.ts'
import {
  blank,
  isAnnotation,
  mapSchemas,
  names,
  joinPath,
  SchemaRefusal,
  acceptsAnything,
  type Schema,
  type SchemaBudget,
} from './schema.ts'

/** Limits of a schema with resolved references, against schemas that grow exponentially. */
const SCHEMAS_MAX = 10_000
const DEPTH_MAX = 200

export const tooLarge = (): SchemaRefusal =>
  new SchemaRefusal(
    '',
    `must not grow beyond ${SCHEMAS_MAX} schemas in ${DEPTH_MAX} levels, and all schemas of a request by at most a ` +
      'million characters, when references are resolved and alternatives joined',
  )

/** `path`: of the schema within the document. */
type ReferenceTarget = { schema: Schema | boolean; path: string }

/** Resolves the references of one document. */
class ReferenceResolver {
  readonly #root: Schema
  /** `$id` of the document, a prefix that its references may have. */
  readonly #id: string
  readonly #known = new Map<string, ReferenceTarget | undefined>()
  #anchors: Map<string, ReferenceTarget> | undefined

  constructor(root: Schema) {
    this.#root = root
    this.#id = typeof root.$id === 'string' ? root.$id.replace(/#$/, '') : ''
  }

  /** Undefined for a reference without a target in the document. */
  find(ref: string): ReferenceTarget | undefined {
    if (!this.#known.has(ref)) this.#known.set(ref, this.#resolve(ref))
    return this.#known.get(ref)
  }

  #resolve(ref: string): ReferenceTarget | undefined {
    const local = ref.startsWith(this.#id) ? ref.slice(this.#id.length) : ref
    if (local === '' || local === '#') return { schema: this.#root, path: '' }
    const pointer = local.startsWith('#') ? decoded(local.slice(1)) : undefined
    if (pointer === undefined) return undefined
    if (!pointer.startsWith('/')) return this.#anchorTargets().get(pointer)
    let value: unknown = this.#root
    let path = ''
    for (const step of pointer
      .slice(1)
      .split('/')
      .map((one) => one.replaceAll('~1', '/').replaceAll('~0', '~'))) {
      if ((!isObject(value) && !Array.isArray(value)) || !Object.hasOwn(value, step)) return undefined
      path = Array.isArray(value) ? `${path}[${step}]` : joinPath(path, step)
      value = (value as Record<string, unknown>)[step]
    }
    return isObject(value) || typeof value === 'boolean' ? { schema: value, path } : undefined
  }

  #anchorTargets(): Map<string, ReferenceTarget> {
    if (this.#anchors !== undefined) return this.#anchors
    const anchors = (this.#anchors = new Map<string, ReferenceTarget>())
    const walk = (schema: Schema, path: string): void => {
      if (typeof schema.$anchor === 'string') anchors.set(schema.$anchor, { schema, path })
      mapSchemas(schema, (inner, steps) => {
        if (isObject(inner)) walk(inner, joinPath(path, steps))
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

/** All children except definitions, which apply only where they are referenced. */
const applicableChildren = (schema: Schema): Child[] =>
  children(schema).filter(({ steps }) => !/^(\$defs|definitions)\./.test(steps))

/**
 * The schemas on cycles of references and of those steps for which `edgesOf` returns true, and all schemas that can be
 * reached from `from`.
 */
function findCycles(
  from: Iterable<Schema>,
  resolver: ReferenceResolver,
  edgesOf: (schema: Schema) => (steps: string) => boolean,
): { recursive: Set<Schema>; reached: Set<Schema> } {
  const recursive = new Set<Schema>()
  const done = new Set<Schema>()
  const path: Schema[] = []
  const visit = (schema: Schema): void => {
    if (path.includes(schema)) return void path.slice(path.indexOf(schema)).forEach((one) => recursive.add(one))
    if (done.has(schema)) return
    if (path.push(schema) > DEPTH_MAX) throw tooLarge()
    const target = typeof schema.$ref === 'string' ? resolver.find(schema.$ref)?.schema : undefined
    if (isObject(target)) visit(target)
    const isEdge = edgesOf(schema)
    for (const { schema: one, steps } of applicableChildren(schema)) if (isEdge(steps)) visit(one)
    path.pop()
    done.add(schema)
  }
  for (const schema of from) visit(schema)
  return { recursive, reached: done }
}

/** A test whether every value must have the child at a step, so that recursion through it never ends. */
function isRequiredStep(schema: Schema): (steps: string) => boolean {
  const required = new Set(names(schema.required))
  const hasFiniteBranch = [schema.anyOf, schema.oneOf]
    .flat()
    .some((one) => isObject(one) && (one.type === 'null' || acceptsAnything(one)))
  return (steps) => {
    const [keyword = '', name = ''] = steps.split(/\.(.*)/s)
    if (keyword === 'properties') return required.has(name)
    if (keyword === 'items') return typeof schema.minItems === 'number' && schema.minItems > 0
    return /^(allOf|prefixItems)\[/.test(keyword) || (!hasFiniteBranch && /^(anyOf|oneOf)\[/.test(keyword))
  }
}

type Recursion =
  /** Refused. */
  | 'none'
  /** Kept as references to `#/$defs/` if a value can end the recursion, otherwise refused. */
  | 'escapable'
  /** Kept as references to `#/$defs/`. */
  | 'any'

/**
 * The schema with its references replaced by their targets. Throws SchemaRefusal for a reference without a target in
 * the document, for recursion that `recursion` does not allow, and for a schema that grows beyond the limits.
 */
export function inlined(root: Schema, recursion: Recursion, budget: SchemaBudget): Schema {
  return hasReferences(root) ? new Inliner(root, recursion, budget).result() : root
}

const REFERENCE_KEYWORDS = new Set(['$ref', '$dynamicRef', '$recursiveRef', '$defs', 'definitions', '$anchor', '$id'])

/** True if any member below has the name of a reference keyword, even a property of that name. */
export const hasReferences = (value: unknown): boolean => {
  if (typeof value !== 'object' || value === null) return false
  if (Array.isArray(value)) return value.some(hasReferences)
  for (const name in value) if (REFERENCE_KEYWORDS.has(name) || hasReferences((value as Schema)[name])) return true
  return false
}

class Inliner {
  readonly #root: Schema
  readonly #resolver: ReferenceResolver
  readonly #recursion: Recursion
  readonly #budget: SchemaBudget
  readonly #recursive: Set<Schema>
  /** Names of the definitions that are kept, by schema. */
  readonly #definitionNames = new Map<Schema, string>()
  /** The next number for a name that is in use. */
  readonly #nextNumbers = new Map<string, number>()
  readonly #definitions = blank()
  #schemas = 0

  constructor(root: Schema, recursion: Recursion, budget: SchemaBudget) {
    this.#root = root
    this.#budget = budget
    this.#resolver = new ReferenceResolver(root)
    this.#recursion = recursion
    const { recursive, reached } = findCycles([root], this.#resolver, () => () => true)
    this.#recursive = recursive
    if (recursion === 'escapable' && recursive.size > 0)
      for (const schema of findCycles([...reached].reverse(), this.#resolver, isRequiredStep).recursive)
        this.#refuseRecursion(schema)
  }

  result(): Schema {
    const written = this.#write(this.#root, '', 0)
    const schema = isObject(written) ? written : blank(written ? {} : { not: {} })
    return this.#definitionNames.size === 0 ? schema : blank(schema, { $defs: this.#definitions })
  }

  #refuseRecursion(schema: Schema): never {
    let path = ''
    const walk = (one: Schema, at: string): boolean =>
      one === schema
        ? ((path = at), true)
        : children(one).some(({ schema: below, steps }) => walk(below, joinPath(at, steps)))
    walk(this.#root, '')
    throw new SchemaRefusal(
      path,
      this.#recursion === 'none'
        ? 'must not refer to itself, since the provider of this model accepts no recursive schemas; write out the ' +
            'levels that are needed'
        : 'must not refer to itself through required values, since no finite value exists; make a property of the ' +
            'cycle optional',
    )
  }

  #write(schema: Schema | boolean, path: string, depth: number): Schema | boolean {
    if (++this.#schemas > SCHEMAS_MAX || depth > DEPTH_MAX) throw tooLarge()
    if (!isObject(schema)) return schema
    for (const keyword of ['$dynamicRef', '$recursiveRef'])
      if (typeof schema[keyword] === 'string')
        throw new SchemaRefusal(
          joinPath(path, keyword),
          'must be a $ref within the schema, since the provider of this model accepts no other references',
        )
    const { $ref, $defs: _defs, definitions: _definitions, $anchor: _anchor, $id: _id, ...rest } = schema
    const written = mapSchemas(blank(rest), (one, steps) => this.#write(one, joinPath(path, steps), depth + 1))
    return typeof $ref === 'string' ? this.#replace($ref, written, path, depth) : written
  }

  #replace(ref: string, siblings: Schema, path: string, depth: number): Schema | boolean {
    const target = this.#resolver.find(ref)
    if (target === undefined)
      throw new SchemaRefusal(
        joinPath(path, '$ref'),
        `must refer to a definition within the schema (#/$defs/...), not '${ref.slice(0, 64)}'`,
      )
    if (!this.#budget.affords('characters', JSON.stringify(target.schema).length)) throw tooLarge()
    const isRecursive = isObject(target.schema) && this.#recursive.has(target.schema)
    const found = isRecursive
      ? blank({ $ref: this.#keepDefinition(target as { schema: Schema; path: string }, ref, depth) })
      : this.#write(target.schema, target.path, depth + 1)
    if (Object.keys(siblings).length === 0) return found
    // Providers ignore keywords beside a reference.
    if (isRecursive)
      return Object.keys(siblings).every(isAnnotation)
        ? blank(siblings, { anyOf: [found] })
        : blank({ allOf: [found, siblings] })
    if (!isObject(found)) return found === true ? siblings : false
    return intersect(siblings, found, this.#budget) ?? blank({ allOf: [found, siblings] })
  }

  #keepDefinition({ schema, path }: { schema: Schema; path: string }, ref: string, depth: number): string {
    if (this.#recursion === 'none') this.#refuseRecursion(schema)
    const known = this.#definitionNames.get(schema)
    if (known !== undefined) return `#/$defs/${known}`
    const last = (decoded(ref) ?? '').split('/').at(-1)!.replace(/\W/g, '_')
    const preferred = last === '' || last === '_' ? 'Root' : last
    let n = this.#nextNumbers.get(preferred) ?? 1
    while (this.#nextNumbers.has(numbered(preferred, n))) n++
    const name = numbered(preferred, n)
    this.#nextNumbers.set(preferred, n).set(name, n === 1 ? 2 : 1)
    this.#definitionNames.set(schema, name)
    this.#definitions[name] = this.#write(schema, path, depth + 1)
    return `#/$defs/${name}`
  }
}

const numbered = (name: string, n: number): string => (n === 1 ? name : `${name}${n}`)
