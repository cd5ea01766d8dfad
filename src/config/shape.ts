import { isAlias, isMap, isScalar, isSeq, visit, type Document, type LineCounter, type Node } from 'yaml'
import { nearest } from '../nearest.ts'

/**
 * What may stand at one place of the file: reads it, and says so as JSON Schema. Read problems are noted, never thrown.
 */
export type Shape<T> = { read(place: ConfigLocation): T | undefined; schema: Record<string, unknown> }

export type Problem = { line: number; column: number; path: string; message: string }

/** An alias may unfold to much more than the file holds; no honest file has so many values. */
const MOST_VALUES = 20_000

/** Reading was given up: the file unfolds to too much. */
export class TooMuch extends Error {
  readonly problem: Problem

  constructor(problem: Problem) {
    super(problem.message)
    this.problem = problem
  }
}

/** The file being read: where problems are noted and environment variables come from. */
export class Source {
  readonly problems: Problem[] = []
  readonly env: Record<string, string | undefined>
  readonly #document: Document
  readonly #lines: LineCounter
  #anchors: Map<string, Node[]> | undefined
  #values = 0

  constructor(document: Document, lines: LineCounter, env: Record<string, string | undefined>) {
    this.#document = document
    this.#lines = lines
    this.env = env
  }

  root(): ConfigLocation | undefined {
    return this.place(this.#document.contents, '', 0)
  }

  note(offset: number, path: string, message: string): undefined {
    this.problems.push(this.#problem(offset, path, message))
    return undefined
  }

  #problem(offset: number, path: string, message: string): Problem {
    const { line, col } = this.#lines.linePos(offset)
    return { line: Math.max(line, 1), column: Math.max(col, 1), path, message }
  }

  /** A place in the file; undefined after a problem. Aliases are followed, as often as an honest file needs. */
  place(node: unknown, path: string, offset: number): ConfigLocation | undefined {
    const at = startOf(node) ?? offset
    if (++this.#values > MOST_VALUES)
      throw new TooMuch(this.#problem(at, path, `unfolds to more than ${MOST_VALUES} values`))
    if (!isAlias(node)) return new ConfigLocation(this, node as Node | null, path, at)
    const meant = this.#anchored(node.source, at)
    return meant === undefined
      ? this.note(at, path, `names the anchor ${node.source}, which is not set before it`)
      : new ConfigLocation(this, meant, path, at)
  }

  /**
   * The last node of this anchor before an offset. The YAML library's own search goes through the whole document for
   * each alias.
   */
  #anchored(name: string, before: number): Node | undefined {
    if (this.#anchors === undefined) {
      const anchors = (this.#anchors = new Map<string, Node[]>())
      visit(this.#document, {
        Node: (_, node) => {
          if (!isAlias(node) && node.anchor !== undefined)
            anchors.set(node.anchor, [...(anchors.get(node.anchor) ?? []), node])
        },
      })
    }
    return this.#anchors.get(name)?.findLast((node) => (startOf(node) ?? 0) < before)
  }
}

const startOf = (node: unknown): number | undefined => (node as Node | null)?.range?.[0]

/** One value in the file with its path and position. */
export class ConfigLocation {
  readonly source: Source
  readonly node: Node | null
  readonly path: string
  readonly offset: number

  constructor(source: Source, node: Node | null, path: string, offset: number) {
    this.source = source
    this.node = node
    this.path = path
    this.offset = offset
  }

  fail(message: string): undefined {
    return this.source.note(this.offset, this.path, message)
  }

  /** Nothing was written after the colon. */
  get empty(): boolean {
    return this.node === null || (isScalar(this.node) && this.node.value === null)
  }

  get scalar(): unknown {
    return isScalar(this.node) ? this.node.value : undefined
  }

  /** What stands here, in words, for error texts: never the value itself, which may be a secret. */
  get kind(): string {
    if (this.empty) return 'nothing'
    if (isMap(this.node)) return 'a mapping'
    if (isSeq(this.node)) return 'a list'
    const value = this.scalar
    return typeof value === 'string'
      ? 'a string'
      : typeof value === 'number'
        ? 'a number'
        : typeof value === 'boolean'
          ? 'true or false'
          : 'a value of another kind'
  }

  /** The members of a mapping: each key with its own place. */
  *members(): Generator<{ key: string; keyOffset: number; place: ConfigLocation }> {
    if (!isMap(this.node)) return
    const seen = new Set<string>()
    for (const pair of this.node.items) {
      const offset = startOf(pair.key) ?? this.offset
      const key = keyText(pair.key)
      if (key === undefined) {
        this.source.note(offset, this.path, 'has a key that is not a plain name')
        continue
      }
      if (seen.has(key)) this.source.note(offset, this.path, `has the key ${JSON.stringify(key.slice(0, 80))} twice`)
      seen.add(key)
      const place = this.source.place(pair.value, this.path === '' ? key : `${this.path}.${key}`, offset)
      if (place === undefined) continue
      yield { key, keyOffset: offset, place }
    }
  }

  /** The elements of a list. */
  *elements(): Generator<ConfigLocation> {
    if (!isSeq(this.node)) return
    for (const [index, item] of this.node.items.entries()) {
      const place = this.source.place(item, `${this.path}[${index}]`, this.offset)
      if (place !== undefined) yield place
    }
  }

  /** The text of a string with environment variables put in; undefined after a problem or where there is none. */
  text(what: string): string | undefined {
    if (typeof this.scalar !== 'string')
      return this.fail(
        `must be ${what}, not ${this.kind}${isScalar(this.node) && !this.empty ? ': put it in quotes' : ''}`,
      )
    return this.expand(this.scalar)
  }

  /** `${NAME}` and `${NAME:-default}`; as in a shell, the default also stands for a variable that is empty. */
  expand(text: string): string | undefined {
    let complete = true
    const expanded = text.replace(
      /\$\{([A-Za-z_][A-Za-z0-9_]*)(:-([^{}]*))?\}|\$\{/g,
      (whole, name?: string, fallback?: string, value?: string) => {
        const set = name === undefined || !Object.hasOwn(this.source.env, name) ? undefined : this.source.env[name]
        if (name !== undefined && fallback !== undefined) return set === undefined || set === '' ? value! : set
        if (set !== undefined) return set
        complete = false
        this.fail(
          name === undefined
            ? 'holds a ${ that is not of the form ${NAME} or ${NAME:-default}'
            : `needs the environment variable ${name}, which is not set: set it, or write \${${name}:-default}`,
        )
        return whole
      },
    )
    return complete ? expanded : undefined
  }
}

function keyText(key: unknown): string | undefined {
  if (!isScalar(key)) return undefined
  if (typeof key.value === 'string') return key.value
  return key.value === null ? undefined : key.source
}

/**
 * `${` in a string that must become a number: the schema lets it through, since the value is known only when the file
 * is read.
 */
const VARIABLE = { type: 'string', pattern: '\\$\\{[A-Za-z_]' }

export type StringRule = {
  what: string
  pattern?: RegExp
  description?: string
  check?: (text: string) => string | undefined
}

/** `check` returns what is wrong, or undefined. */
export const string = ({ what, pattern, description, check }: StringRule): Shape<string> => ({
  schema: {
    type: 'string',
    ...(pattern === undefined ? {} : { anyOf: [{ pattern: pattern.source }, VARIABLE] }),
    ...(description === undefined ? {} : { description }),
  },
  read(place) {
    const text = place.text(what)
    if (text === undefined) return undefined
    if (pattern !== undefined && !pattern.test(text)) return place.fail(`must be ${what}`)
    const wrong = check?.(text)
    return wrong === undefined ? text : place.fail(wrong)
  },
})

/** `decimals`: most digits after the point. */
export const number = (rule: {
  min: number
  max: number
  whole?: boolean
  decimals?: number
  description?: string
}): Shape<number> => ({
  schema: {
    anyOf: [{ type: rule.whole === true ? 'integer' : 'number', minimum: rule.min, maximum: rule.max }, VARIABLE],
    ...(rule.description === undefined ? {} : { description: rule.description }),
  },
  read(place) {
    const what = `must be a ${rule.whole === true ? 'whole ' : ''}number from ${rule.min} to ${rule.max}`
    const text =
      typeof place.scalar === 'string' && place.scalar.includes('${') ? place.expand(place.scalar) : undefined
    if (text === undefined && typeof place.scalar === 'string' && place.scalar.includes('${')) return undefined
    const value = text === undefined ? place.scalar : /^-?\d+(\.\d+)?$/.test(text) ? Number(text) : undefined
    if (typeof value !== 'number' || !Number.isFinite(value))
      return place.fail(text === undefined ? `${what}, not ${place.kind}` : what)
    if (value < rule.min || value > rule.max || (rule.whole === true && !Number.isInteger(value)))
      return place.fail(`${what}, not ${value}`)
    return rule.decimals !== undefined && Number(value.toFixed(rule.decimals)) !== value
      ? place.fail(`must have at most ${rule.decimals} decimals, not ${value}`)
      : value
  },
})

export const boolean = (description: string): Shape<boolean> => ({
  schema: { anyOf: [{ type: 'boolean' }, VARIABLE], description },
  read(place) {
    if (typeof place.scalar === 'boolean') return place.scalar
    if (typeof place.scalar !== 'string' || !place.scalar.includes('${'))
      return place.fail(`must be true or false, not ${place.kind}`)
    const text = place.expand(place.scalar)
    return text === undefined
      ? undefined
      : text === 'true'
        ? true
        : text === 'false'
          ? false
          : place.fail('must be true or false')
  },
})

/** One of a few words. */
export const name = <T extends string>(words: readonly T[], description?: string): Shape<T> => ({
  schema: { anyOf: [{ enum: [...words] }, VARIABLE], ...(description === undefined ? {} : { description }) },
  read(place) {
    const text = place.text(`one of ${words.join(', ')}`)
    if (text === undefined || (words as readonly string[]).includes(text)) return text as T | undefined
    const [near] = nearest(text, words, 1)
    return place.fail(`must be one of ${words.join(', ')}${near === undefined ? '' : `: is ${near} meant?`}`)
  },
})

/** One of the listed values, words or booleans. */
export const oneOf = <T extends string | boolean>(values: readonly T[], description?: string): Shape<T> => ({
  schema: { enum: [...values], ...(description === undefined ? {} : { description }) },
  read(place) {
    const value = place.scalar
    return values.includes(value as T) ? (value as T) : place.fail(`must be one of ${values.join(', ')}`)
  },
})

const quantity = (
  units: Record<string, number>,
  rule: { min: string; max: string; what: string; description: string },
): Shape<number> => {
  const pattern = new RegExp(`^(\\d+(?:\\.\\d+)?)(${Object.keys(units).join('|')})$`)
  const measure = (text: string): number | undefined => {
    const [, amount, unit] = pattern.exec(text) ?? []
    return amount === undefined ? undefined : Math.round(Number(amount) * units[unit!]!)
  }
  return {
    schema: { type: 'string', anyOf: [{ pattern: pattern.source }, VARIABLE], description: rule.description },
    read(place) {
      if (typeof place.scalar === 'number') return place.fail(`must be ${rule.what}: the unit is missing`)
      const text = place.text(rule.what)
      if (text === undefined) return undefined
      const value = measure(text)
      if (value === undefined) return place.fail(`must be ${rule.what}`)
      return value < measure(rule.min)! || value > measure(rule.max)!
        ? place.fail(`must be from ${rule.min} to ${rule.max}, not ${text}`)
        : value
    },
  }
}

/** A length of time with its unit; read as milliseconds. */
export const duration = (min: string, max: string, description: string): Shape<number> =>
  quantity(
    { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 },
    { min, max, what: "a duration with its unit, like '500ms', '10s' or '5m'", description },
  )

/** An amount of memory with its unit; read as bytes. */
export const size = (min: string, max: string, description: string): Shape<number> =>
  quantity(
    { KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30, TiB: 2 ** 40, PiB: 2 ** 50, KB: 1e3, MB: 1e6, GB: 1e9, B: 1 },
    { min, max, what: "a size with its unit, like '512KiB' or '32MiB'", description },
  )

type Members = Record<string, Shape<unknown>>
type ReadMembers<M extends Members> = { [Name in keyof M]?: M[Name] extends Shape<infer T> ? T : never }

/**
 * A mapping with known keys. `required` ones missing are a problem; unknown ones are, with the nearest known key. An
 * empty mapping may be left unwritten.
 */
export const object = <M extends Members>(
  members: M,
  options: { required?: (keyof M & string)[]; description?: string } = {},
): Shape<ReadMembers<M>> => ({
  schema: {
    type: options.required === undefined ? ['object', 'null'] : 'object',
    properties: Object.fromEntries(Object.entries(members).map(([name, member]) => [name, member.schema])),
    additionalProperties: false,
    ...(options.required === undefined ? {} : { required: options.required }),
    ...(options.description === undefined ? {} : { description: options.description }),
  },
  read(place) {
    const read: Record<string, unknown> = Object.create(null)
    if (place.empty && options.required === undefined) return read as ReadMembers<M>
    if (!isMap(place.node))
      return place.fail(`must be a mapping of ${Object.keys(members).join(', ')}, not ${place.kind}`)
    const present = new Set<string>()
    for (const { key, keyOffset, place: member } of place.members()) {
      present.add(key)
      const shape = Object.hasOwn(members, key) ? members[key] : undefined
      if (shape !== undefined) read[key] = shape.read(member)
      else place.source.note(keyOffset, place.path, unknownKey(key, Object.keys(members)))
    }
    for (const name of options.required ?? []) if (!present.has(name)) place.fail(`needs ${name}`)
    return read as ReadMembers<M>
  },
})

function unknownKey(key: string, known: string[]): string {
  const [near] = nearest(key, known, 1)
  return `has the unknown key ${JSON.stringify(key.slice(0, 80))}: ${near === undefined ? `known are ${known.join(', ')}` : `is ${near} meant?`}`
}

/** A mapping whose keys are the user's own names. */
export const map = <T>(
  of: Shape<T>,
  key: { pattern: RegExp; what: string; description: string; check?: (name: string) => string | undefined },
): Shape<Map<string, { value: T; place: ConfigLocation }>> => ({
  schema: {
    type: ['object', 'null'],
    propertyNames: { pattern: key.pattern.source },
    additionalProperties: of.schema,
    description: key.description,
  },
  read(place) {
    const read = new Map<string, { value: T; place: ConfigLocation }>()
    if (place.empty) return read
    if (!isMap(place.node)) return place.fail(`must be a mapping, not ${place.kind}`)
    for (const { key: name, keyOffset, place: member } of place.members()) {
      const wrong = key.pattern.test(name) ? key.check?.(name) : `must be ${key.what}`
      if (wrong !== undefined)
        place.source.note(keyOffset, place.path, `the name ${JSON.stringify(name.slice(0, 80))} ${wrong}`)
      const value = of.read(member)
      if (wrong === undefined && value !== undefined) read.set(name, { value, place: member })
    }
    return read
  },
})

export const list = <T>(
  of: Shape<T>,
  rule: { what: string; min?: number; description?: string },
): Shape<{ value: T; place: ConfigLocation }[]> => ({
  schema: {
    type: rule.min === undefined ? ['array', 'null'] : 'array',
    items: of.schema,
    ...(rule.min === undefined ? {} : { minItems: rule.min }),
    ...(rule.description === undefined ? {} : { description: rule.description }),
  },
  read(place) {
    if (place.empty && rule.min === undefined) return []
    if (!isSeq(place.node)) return place.fail(`must be a list of ${rule.what}, not ${place.kind}`)
    if (place.node.items.length < (rule.min ?? 0)) return place.fail(`must hold at least ${rule.min} of ${rule.what}`)
    return [...place.elements()].flatMap((element) => {
      const value = of.read(element)
      return value === undefined ? [] : [{ value, place: element }]
    })
  },
})
