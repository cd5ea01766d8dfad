import { isObject, objectOf } from '../../json/parse.ts'
import { hasReferences, inlined, tooLarge } from './references.ts'
import { intersectAll } from './intersect.ts'
import { blank, names, type Schema, type SchemaBudget, typesOf, type UnknownKeywords } from './schema.ts'

const UNIONS = ['allOf', 'anyOf', 'oneOf'] as const
/** Keywords that no provider accepts at the root of a tool's schema. */
const REFUSED_KEYWORDS = ['enum', 'const', 'not'] as const

/**
 * The schema of a tool's arguments with an object at its root and no alternatives or reference there, as every provider
 * requires. If the alternatives cannot be joined exactly, the object accepts the values of all of them.
 */
export function objectRoot(plain: Schema | boolean, unknowns: UnknownKeywords, budget: SchemaBudget): Schema {
  if (!isObject(plain)) return blank({ type: 'object', properties: {} })
  const schema =
    typeof plain.$ref === 'string' || unionOf(plain) !== undefined
      ? withoutUnions(dereferenced(plain, budget), unknowns, budget)
      : blank(plain)
  for (const keyword of REFUSED_KEYWORDS) {
    if (schema[keyword] === undefined) continue
    unknowns.add(keyword, '')
    delete schema[keyword]
  }
  const types = typesOf(schema)
  if (types !== undefined && !types.includes('object'))
    unknowns.add(`arguments of type ${types.join(' or ')}, which must be an object`, '')
  return schema.type === 'object' ? schema : blank({ type: 'object' }, without(schema, 'type'))
}

const without = (schema: Schema, ...keywords: string[]): Schema =>
  blank(Object.fromEntries(Object.entries(schema).filter(([keyword]) => !keywords.includes(keyword))))

/**
 * The schema with all but recursive references replaced by their targets, for a root that moves: references into it
 * would have other targets then.
 */
export function dereferenced(plain: Schema, budget: SchemaBudget): Schema {
  const schema = hasReferences(plain) ? inlined(plain, 'any', budget) : plain
  const { $ref, $defs, ...rest } = schema
  const target = definitionOf($ref, $defs)
  return target === undefined ? schema : blank(target, rest, { $defs })
}

/** The target of a reference to one of the recursive definitions that are kept. */
function definitionOf($ref: unknown, $defs: unknown): Schema | undefined {
  const target = typeof $ref === 'string' && isObject($defs) ? $defs[$ref.split('/').at(-1)!] : undefined
  return isObject(target) ? target : undefined
}

const unionOf = (schema: Schema): (typeof UNIONS)[number] | undefined =>
  UNIONS.find((keyword) => Array.isArray(schema[keyword]))

function withoutUnions(schema: Schema, unknowns: UnknownKeywords, budget: SchemaBudget): Schema {
  let root = schema
  for (let keyword = unionOf(root); keyword !== undefined; keyword = unionOf(root)) {
    const branches = (root[keyword] as unknown[]).flatMap((branch) =>
      isObject(branch) ? [resolved(branch, schema)] : branch === false ? [] : [blank()],
    )
    const rest = without(root, keyword)
    const exact = keyword === 'allOf' || branches.length === 1 ? intersectAll(rest, branches, budget) : undefined
    if (exact === undefined) unknowns.add(`${keyword} at the root, which becomes one object`, '')
    root = exact ?? merged(rest, branches, keyword === 'allOf', budget)
  }
  return root
}

/** A branch with its reference to a recursive definition replaced. */
function resolved(branch: Schema, { $defs }: Schema): Schema {
  const target = definitionOf(branch.$ref, $defs)
  return target === undefined ? branch : blank(target, without(branch, '$ref'))
}

/**
 * One object that accepts the values of every branch. `all`: of `allOf`; else a property is required if all require it.
 */
function merged(root: Schema, branches: Schema[], all: boolean, budget: SchemaBudget): Schema {
  const alternatives = new Map<string, Map<string, unknown>>()
  for (const { properties } of [root, ...branches]) {
    if (!budget.affords('steps', isObject(properties) ? Object.keys(properties).length : 0)) throw tooLarge()
    for (const [name, schema] of Object.entries(objectOf(properties))) {
      const known = alternatives.get(name) ?? new Map<string, unknown>()
      alternatives.set(name, known.set(JSON.stringify(schema), schema))
    }
  }
  const properties = blank(
    Object.fromEntries(
      [...alternatives].map(([name, schemas]) => [
        name,
        schemas.size === 1 ? [...schemas.values()][0] : anyOf([...schemas.values()]),
      ]),
    ),
  )
  const requiredLists = branches.map((branch) => new Set(names(branch.required)))
  const common = all
    ? requiredLists.flatMap((one) => [...one])
    : [...requiredLists.reduce((shared, one) => shared.intersection(one), requiredLists[0] ?? new Set<string>())]
  const required = [...new Set([...names(root.required), ...common])]
  const closed = branches.length > 0 && branches.every((branch) => branch.additionalProperties === false)
  return blank(
    without(root, 'required'),
    { properties },
    required.length === 0 ? {} : { required },
    closed ? { additionalProperties: false } : {},
  )
}

/** One schema for the alternatives; those with constants become one `enum`. */
function anyOf(schemas: unknown[]): Schema {
  const values = schemas.map((schema) =>
    isObject(schema) ? (schema.const === undefined ? schema.enum : [schema.const]) : undefined,
  )
  const types = new Set(schemas.map((schema) => (isObject(schema) ? schema.type : undefined)))
  const [type] = types
  if (values.every(Array.isArray) && types.size === 1)
    return blank(type === undefined ? {} : { type }, { enum: [...new Set(values.flat())] })
  return blank({ anyOf: schemas })
}
