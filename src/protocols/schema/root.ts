import { isObject } from '../fields.ts'
import { hasReferences, inlined, tooLarge } from './references.ts'
import { intersect } from './intersect.ts'
import { blank, names, type Schema, type SchemaBudget, typesOf, type Unknowns } from './schema.ts'

const UNIONS = ['allOf', 'anyOf', 'oneOf'] as const
/** What no provider takes at the root of a tool's schema beside `type`. */
const REFUSED = ['enum', 'const', 'not'] as const

/**
 * The schema of a tool's arguments with an object at its root, without alternatives or a reference there, which is what
 * every provider wants. Where the
 * alternatives cannot be joined exactly, the object takes what any of them takes.
 */
export function objectRoot(plain: Schema | boolean, unknowns: Unknowns, budget: SchemaBudget): Schema {
  if (!isObject(plain)) return blank({ type: 'object', properties: {} })
  const schema =
    typeof plain.$ref === 'string' || unionOf(plain) !== undefined
      ? withoutUnions(dereferenced(plain, budget), unknowns, budget)
      : blank(plain)
  for (const word of REFUSED) {
    if (schema[word] === undefined) continue
    unknowns.add(word, '')
    delete schema[word]
  }
  const types = typesOf(schema)
  if (types !== undefined && !types.includes('object'))
    unknowns.add(`arguments that are no object but ${types.join(' or ')}`, '')
  return schema.type === 'object' ? schema : blank({ type: 'object' }, without(schema, 'type'))
}

const without = (schema: Schema, ...words: string[]): Schema =>
  blank(Object.fromEntries(Object.entries(schema).filter(([word]) => !words.includes(word))))

/**
 * Where the root itself moves, references into it would lead astray: all are followed, but to what refers to itself.
 */
export function dereferenced(plain: Schema, budget: SchemaBudget): Schema {
  const schema = hasReferences(plain) ? inlined(plain, 'any', budget) : plain
  const { $ref, $defs, ...rest } = schema
  const target = definitionOf($ref, $defs)
  return target === undefined ? schema : blank(target, rest, { $defs })
}

/** The definition that a reference leads to, of those that are kept because they refer to themselves. */
function definitionOf($ref: unknown, $defs: unknown): Schema | undefined {
  const target = typeof $ref === 'string' && isObject($defs) ? $defs[$ref.split('/').at(-1)!] : undefined
  return isObject(target) ? target : undefined
}

const unionOf = (schema: Schema): (typeof UNIONS)[number] | undefined =>
  UNIONS.find((word) => Array.isArray(schema[word]))

function withoutUnions(schema: Schema, unknowns: Unknowns, budget: SchemaBudget): Schema {
  let root = schema
  for (let word = unionOf(root); word !== undefined; word = unionOf(root)) {
    const branches = (root[word] as unknown[]).flatMap((branch) =>
      isObject(branch) ? [resolved(branch, schema)] : branch === false ? [] : [blank()],
    )
    const rest = without(root, word)
    const exact =
      word === 'allOf' || branches.length === 1
        ? branches.reduce<Schema | undefined>((joined, branch) => joined && intersect(joined, branch, budget), rest)
        : undefined
    if (exact === undefined) unknowns.add(`${word} at the root, which becomes one object`, '')
    root = exact ?? merged(rest, branches, word === 'allOf', budget)
  }
  return root
}

/** A branch that only refers to a definition which refers to itself. */
function resolved(branch: Schema, { $defs }: Schema): Schema {
  const target = definitionOf(branch.$ref, $defs)
  return target === undefined ? branch : blank(target, without(branch, '$ref'))
}

/** One object that takes what any branch takes; only what every branch asks for stays required. */
function merged(root: Schema, branches: Schema[], all: boolean, budget: SchemaBudget): Schema {
  const choices = new Map<string, Map<string, unknown>>()
  for (const { properties } of [root, ...branches]) {
    if (!budget.affords('steps', isObject(properties) ? Object.keys(properties).length : 0)) throw tooLarge()
    for (const [name, schema] of Object.entries(isObject(properties) ? properties : {})) {
      const known = choices.get(name) ?? new Map<string, unknown>()
      choices.set(name, known.set(JSON.stringify(schema), schema))
    }
  }
  const properties = blank(
    Object.fromEntries(
      [...choices].map(([name, schemas]) => [
        name,
        schemas.size === 1 ? [...schemas.values()][0] : either([...schemas.values()]),
      ]),
    ),
  )
  const needed = branches.map((branch) => new Set(names(branch.required)))
  const common = all
    ? needed.flatMap((one) => [...one])
    : [...needed.reduce((shared, one) => shared.intersection(one), needed[0] ?? new Set<string>())]
  const required = [...new Set([...names(root.required), ...common])]
  const closed = branches.length > 0 && branches.every((branch) => branch.additionalProperties === false)
  return blank(
    without(root, 'required'),
    { properties },
    required.length === 0 ? {} : { required },
    closed ? { additionalProperties: false } : {},
  )
}

/** Constants of the alternatives are the values of one choice. */
function either(schemas: unknown[]): Schema {
  const values = schemas.map((schema) =>
    isObject(schema) ? (schema.const === undefined ? schema.enum : [schema.const]) : undefined,
  )
  const types = new Set(schemas.map((schema) => (isObject(schema) ? schema.type : undefined)))
  const [type] = types
  if (values.every(Array.isArray) && types.size === 1)
    return blank(type === undefined ? {} : { type }, { enum: [...new Set(values.flat())] })
  return blank({ anyOf: schemas })
}
