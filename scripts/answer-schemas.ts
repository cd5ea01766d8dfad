/**
 * JSON Schemas of the answers of the management API, from the types that its handlers export, for
 * `src/openapi/answers.json`. It reads the few forms of types that those use, and fails at any other.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Glob } from 'bun'

export type JsonSchema = { [keyword: string]: unknown }

const FOLDER = join(import.meta.dir, '../src/endpoints/management')
/** Types of other modules. */
const ELSEWHERE: Record<string, JsonSchema> = {
  Role: {
    type: 'object',
    properties: { scope: { type: 'string' }, role: { type: 'string' } },
    required: ['scope', 'role'],
  },
  Usage: { type: 'object', additionalProperties: { type: 'number' } },
  Explanation: { type: 'object', properties: {}, required: [] },
  unknown: {},
}
/** Aliases of strings: their values are in the shapes of requests. */
const STRING_TYPES = /^(?:string|[A-Z]\w*(?:Name|Kind|Status|Period))$/

type Declarations = ReadonlyMap<string, string>

/** Schemas by the name of the type, of all that `answers.ts` exports. */
export function answerSchemas(): Record<string, JsonSchema> {
  const declared = new Map<string, string>()
  for (const file of [...new Glob('*.ts').scanSync(FOLDER)].sort())
    for (const [, name, text] of readFileSync(join(FOLDER, file), 'utf8').matchAll(
      /^(?:export )?type (\w+) = ([^\n]*[^{\n]|[^\n]*\{\n[\s\S]*?^\})$/gm,
    ))
      declared.set(name!, withoutComments(text!))
  const exported = readFileSync(join(FOLDER, 'answers.ts'), 'utf8').matchAll(/export type \{([^}]+)\}/g)
  const names = [...exported].flatMap(([, list]) => list!.split(',')).map((name) => name.trim())
  return Object.fromEntries(
    names
      .filter((name) => name !== '' && name !== 'Page')
      .sort()
      .map((name) => [name, new TypeReader(declared.get(name) ?? '', declared).all()]),
  )
}

const withoutComments = (text: string): string => text.replace(/\/\*[\s\S]*?\*\//g, '').replace(/\/\/.*$/gm, '')

class TypeReader {
  readonly #tokens: string[]
  readonly #declared: Declarations
  #at = 0

  constructor(text: string, declared: Declarations) {
    this.#tokens = text.match(/'[^']*'|[\w.]+|[^\s\w]/g) ?? []
    this.#declared = declared
  }

  all(): JsonSchema {
    const schema = this.#union()
    if (this.#at < this.#tokens.length) throw new Error(`cannot read ${this.#tokens.slice(this.#at).join(' ')}`)
    return schema
  }

  #peek = (): string | undefined => this.#tokens[this.#at]

  #take(expected?: string): string {
    const token = this.#tokens[this.#at++]
    if (token === undefined || (expected !== undefined && token !== expected))
      throw new Error(`expected ${expected} in ${this.#tokens.join(' ')}, got ${token}`)
    return token
  }

  #skip(token: string): boolean {
    if (this.#peek() !== token) return false
    this.#at++
    return true
  }

  #union(): JsonSchema {
    this.#skip('|')
    const members = [this.#intersection()]
    while (this.#skip('|')) members.push(this.#intersection())
    if (members.length === 1) return members[0]!
    if (members.every((member) => 'const' in member)) return { enum: members.map((member) => member.const) }
    const [only, ...others] = members.filter(({ type }) => type !== 'null')
    const isNullable = members.some(({ type }) => type === 'null')
    if (others.length === 0 && typeof only!.type === 'string') return { ...only, type: [only!.type, 'null'] }
    const values = [only!, ...others]
    if (values.every((member) => 'const' in member))
      return { enum: [...values.map((member) => member.const), ...(isNullable ? [null] : [])] }
    return { anyOf: [...values, ...(isNullable ? [{ type: 'null' }] : [])] }
  }

  #intersection(): JsonSchema {
    const parts = [this.#array()]
    while (this.#skip('&')) parts.push(this.#array())
    if (parts.length === 1) return parts[0]!
    return {
      type: 'object',
      properties: Object.assign({}, ...parts.map(({ properties }) => properties)),
      required: parts.flatMap(({ required }) => required ?? []),
    }
  }

  #array(): JsonSchema {
    let schema = this.#single()
    while (this.#peek() === '[' && this.#tokens[this.#at + 1] === ']') {
      this.#at += 2
      schema = { type: 'array', items: schema }
    }
    return schema
  }

  #single(): JsonSchema {
    const token = this.#take()
    if (token === '{') return this.#object()
    if (token === '[') return this.#tuple()
    if (token === '(') {
      const schema = this.#union()
      this.#take(')')
      return schema
    }
    if (token.startsWith("'")) return { const: token.slice(1, -1) }
    if (this.#peek() === '[' && this.#tokens[this.#at + 1]?.startsWith("'")) return this.#member()
    if (token === 'Record' || token === 'Partial') return this.#generic(token)
    if (token === 'Omit') return this.#omit()
    if (token === 'number' || token === 'boolean' || token === 'null') return { type: token }
    if (token === 'true' || token === 'false') return { const: token === 'true' }
    if (STRING_TYPES.test(token)) return { type: 'string' }
    if (token in ELSEWHERE) return ELSEWHERE[token]!
    const declared = this.#declared.get(token)
    if (declared === undefined) throw new Error(`the type ${token} is declared nowhere in ${FOLDER}`)
    return new TypeReader(declared, this.#declared).all()
  }

  #object(): JsonSchema {
    const properties: Record<string, JsonSchema> = {}
    const required: string[] = []
    while (!this.#skip('}')) {
      const name = this.#take().replaceAll("'", '')
      if (!this.#skip('?')) required.push(name)
      this.#take(':')
      properties[name] = this.#union()
      if (!this.#skip(';')) this.#skip(',')
    }
    return { type: 'object', properties, required }
  }

  /** Not as `prefixItems`, which many programs cannot read. */
  #tuple(): JsonSchema {
    const members: JsonSchema[] = []
    while (!this.#skip(']')) {
      if (this.#tokens[this.#at + 1] === ':') this.#at += 2
      members.push(this.#union())
      this.#skip(',')
    }
    const { length } = members
    return length === 0
      ? { type: 'array' }
      : { type: 'array', items: { anyOf: members }, minItems: length, maxItems: length }
  }

  /** `T['member']`, which is a string in all that there are. */
  #member(): JsonSchema {
    this.#at += 3
    return { type: 'string' }
  }

  /** `Omit<T, 'a' | 'b'>`. */
  #omit(): JsonSchema {
    this.#take('<')
    const { properties, required } = this.#union() as { properties: Record<string, JsonSchema>; required: string[] }
    this.#take(',')
    const left = new Set<unknown>()
    do left.add(this.#take().slice(1, -1))
    while (this.#skip('|'))
    this.#take('>')
    return {
      type: 'object',
      properties: Object.fromEntries(Object.entries(properties).filter(([name]) => !left.has(name))),
      required: required.filter((name) => !left.has(name)),
    }
  }

  /** `Record<string, T>`, and `Partial` of one. */
  #generic(name: string): JsonSchema {
    this.#take('<')
    if (name === 'Record') {
      this.#take()
      this.#take(',')
    }
    const schema = this.#union()
    this.#take('>')
    return name === 'Record' ? { type: 'object', additionalProperties: schema } : schema
  }
}
