import { isMap, isSeq } from 'yaml'
import { nearest } from '../nearest.ts'
import type { ConfigLocation } from './location.ts'

/** A kind of value in the file: its reader and its JSON Schema. Problems are reported at the location, never thrown. */
export type Shape<T> = { read(location: ConfigLocation): T | undefined; schema: Record<string, unknown> }

/** A string with a variable. The schema accepts it for any value, since its value is known only at the start. */
export const VARIABLE = { type: 'string', pattern: '\\$\\{[A-Za-z_]' }

type StringRule = {
  what: string
  pattern?: RegExp
  description?: string
  check?: (text: string) => string | undefined
}

/** `what`: the expected value, for error messages. `check` returns what is wrong, or undefined. */
export const string = ({ what, pattern, description, check }: StringRule): Shape<string> => ({
  schema: {
    type: 'string',
    ...(pattern === undefined ? {} : { anyOf: [{ pattern: pattern.source }, VARIABLE] }),
    ...(description === undefined ? {} : { description }),
  },
  read(location) {
    const text = location.text(what)
    if (text === undefined) return undefined
    if (pattern !== undefined && !pattern.test(text)) return location.fail(`must be ${what}`)
    const wrong = check?.(text)
    return wrong === undefined ? text : location.fail(wrong)
  },
})

/** `decimals`: the maximum number of digits after the decimal point. */
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
  read(location) {
    const what = `a ${rule.whole === true ? 'whole ' : ''}number from ${rule.min} to ${rule.max}`
    const value = literal(location, what, isNumber, numberIn)
    if (value === undefined) return undefined
    if (value < rule.min || value > rule.max || (rule.whole === true && !Number.isInteger(value)))
      return location.fail(`must be ${what}, not ${value}`)
    return rule.decimals !== undefined && Number(value.toFixed(rule.decimals)) !== value
      ? location.fail(`must have at most ${rule.decimals} decimals, not ${value}`)
      : value
  },
})

export const boolean = (description: string): Shape<boolean> => ({
  schema: { anyOf: [{ type: 'boolean' }, VARIABLE], description },
  read: (location) => literal(location, 'true or false', isBoolean, booleanIn),
})

/** A number or a boolean, written as such or as the text of a variable. `what`: the expected value. */
function literal<T>(
  location: ConfigLocation,
  what: string,
  isOne: (value: unknown) => value is T,
  parse: (text: string) => T | undefined,
): T | undefined {
  const { scalar } = location
  if (typeof scalar !== 'string' || !scalar.includes('${'))
    return isOne(scalar) ? scalar : location.fail(`must be ${what}, not ${location.kind}`)
  const text = location.expand(scalar)
  return text === undefined ? undefined : (parse(text) ?? location.fail(`must be ${what}`))
}

const isNumber = (value: unknown): value is number => Number.isFinite(value)
const isBoolean = (value: unknown): value is boolean => typeof value === 'boolean'

const numberIn = (text: string): number | undefined => {
  const value = /^-?\d+(\.\d+)?$/.test(text) ? Number(text) : undefined
  return isNumber(value) ? value : undefined
}
const booleanIn = (text: string): boolean | undefined => (text === 'true' ? true : text === 'false' ? false : undefined)

/** One of a few names. */
export const name = <T extends string>(known: readonly T[], description?: string): Shape<T> => ({
  schema: { anyOf: [{ enum: [...known] }, VARIABLE], ...(description === undefined ? {} : { description }) },
  read(location) {
    const text = location.text(`one of ${known.join(', ')}`)
    if (text === undefined || (known as readonly string[]).includes(text)) return text as T | undefined
    const [near] = nearest(text, known, 1)
    return location.fail(`must be one of ${known.join(', ')}${near === undefined ? '' : ` (did you mean ${near}?)`}`)
  },
})

/** A list of such names. */
export const names = <T extends string>(known: readonly T[], rule: ListRule): Shape<T[]> => values(name(known), rule)

/** A list without the locations of its elements. */
export const values = <T>(of: Shape<T>, rule: ListRule): Shape<T[]> => {
  const shape = list(of, rule)
  return { schema: shape.schema, read: (location) => shape.read(location)?.map(({ value }) => value) }
}

/** One of a few strings or booleans. */
export const oneOf = <T extends string | boolean>(values: readonly T[], description?: string): Shape<T> => ({
  schema: { enum: [...values], ...(description === undefined ? {} : { description }) },
  read(location) {
    const value = location.scalar
    return values.includes(value as T) ? (value as T) : location.fail(`must be one of ${values.join(', ')}`)
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
    read(location) {
      if (typeof location.scalar === 'number') return location.fail(`must be ${rule.what}; the unit is missing`)
      const text = location.text(rule.what)
      if (text === undefined) return undefined
      const value = measure(text)
      if (value === undefined) return location.fail(`must be ${rule.what}`)
      return value < measure(rule.min)! || value > measure(rule.max)!
        ? location.fail(`must be from ${rule.min} to ${rule.max}, not ${text}`)
        : value
    },
  }
}

/** A duration with its unit, read as milliseconds. */
export const duration = (min: string, max: string, description: string): Shape<number> =>
  quantity(
    { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 },
    { min, max, what: "a duration with a unit, such as '500ms', '10s' or '5m'", description },
  )

/** A size with its unit, read as bytes. */
export const size = (min: string, max: string, description: string): Shape<number> =>
  quantity(
    { KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30, TiB: 2 ** 40, PiB: 2 ** 50, KB: 1e3, MB: 1e6, GB: 1e9, B: 1 },
    { min, max, what: "a size with a unit, such as '512KiB' or '32MiB'", description },
  )

/** A part of something, at most so many bytes. */
export type Share = { share: number; bytes: number }

/** A percentage (`5%`) or a size with its unit. */
export const shareOrSize = (max: string, description: string): Shape<Share> => {
  const bytes = size('0B', max, description)
  const percentage = /^(\d+(?:\.\d+)?)%$/
  return {
    schema: { type: 'string', anyOf: [{ pattern: percentage.source }, ...bytesPatterns(bytes)], description },
    read(location) {
      const text = location.text("a percentage or a size, such as '5%' or '1GiB'")
      if (text === undefined) return undefined
      const [, percent] = percentage.exec(text) ?? []
      if (percent === undefined) {
        const value = bytes.read(location)
        return value === undefined ? undefined : { share: 1, bytes: value }
      }
      return Number(percent) <= 100
        ? { share: Number(percent) / 100, bytes: Infinity }
        : location.fail(`must be from 0% to 100%, not ${percent}%`)
    },
  }
}

const bytesPatterns = ({ schema }: Shape<number>): unknown[] => schema.anyOf as unknown[]

/** A value and where it is in the file. */
export type Located<T> = { value: T; location: ConfigLocation }

/** A value with its location, for problems that its neighbours decide. */
export const located = <T>(of: Shape<T>): Shape<Located<T>> => ({
  schema: of.schema,
  read(location) {
    const value = of.read(location)
    return value === undefined ? undefined : { value, location }
  },
})

type Members = Record<string, Shape<unknown>>
type ReadMembers<M extends Members> = { [Name in keyof M]?: M[Name] extends Shape<infer T> ? T : never }

/**
 * A mapping with known keys. Problems are missing `required` keys, and unknown ones, reported with the nearest known
 * key. A mapping without required keys may be empty.
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
  read(location) {
    const read: Record<string, unknown> = Object.create(null)
    if (location.empty && options.required === undefined) return read as ReadMembers<M>
    if (!isMap(location.node))
      return location.fail(`must be a mapping of ${Object.keys(members).join(', ')}, not ${location.kind}`)
    const present = new Set<string>()
    for (const { key, keyOffset, location: member } of location.members()) {
      present.add(key)
      const shape = Object.hasOwn(members, key) ? members[key] : undefined
      if (shape !== undefined) read[key] = shape.read(member)
      else location.source.report(keyOffset, location.path, unknownKey(key, Object.keys(members)))
    }
    for (const name of options.required ?? []) if (!present.has(name)) location.fail(`requires ${name}`)
    return read as ReadMembers<M>
  },
})

function unknownKey(key: string, known: string[]): string {
  const [near] = nearest(key, known, 1)
  const hint = near === undefined ? `known keys: ${known.join(', ')}` : `did you mean ${near}?`
  return `has the unknown key ${JSON.stringify(key.slice(0, 80))} (${hint})`
}

/** A mapping whose keys are names that the user chooses. */
export const map = <T>(
  of: Shape<T>,
  key: { pattern: RegExp; what: string; description: string; check?: (name: string) => string | undefined },
): Shape<Map<string, Located<T>>> => ({
  schema: {
    type: ['object', 'null'],
    propertyNames: { pattern: key.pattern.source },
    additionalProperties: of.schema,
    description: key.description,
  },
  read(location) {
    const read = new Map<string, Located<T>>()
    if (location.empty) return read
    if (!isMap(location.node)) return location.fail(`must be a mapping, not ${location.kind}`)
    for (const { key: name, keyOffset, location: member } of location.members()) {
      const wrong = key.pattern.test(name) ? key.check?.(name) : `must be ${key.what}`
      if (wrong !== undefined)
        location.source.report(
          keyOffset,
          location.path,
          `has the name ${JSON.stringify(name.slice(0, 80))}, which ${wrong}`,
        )
      const value = of.read(member)
      if (wrong === undefined && value !== undefined) read.set(name, { value, location: member })
    }
    return read
  },
})

/** `what`: the elements, for error messages. A list without `min` may be empty. */
type ListRule = { what: string; min?: number; description?: string }

export const list = <T>(of: Shape<T>, rule: ListRule): Shape<Located<T>[]> => ({
  schema: {
    type: rule.min === undefined ? ['array', 'null'] : 'array',
    items: of.schema,
    ...(rule.min === undefined ? {} : { minItems: rule.min }),
    ...(rule.description === undefined ? {} : { description: rule.description }),
  },
  read(location) {
    if (location.empty && rule.min === undefined) return []
    if (!isSeq(location.node)) return location.fail(`must be a list of ${rule.what}, not ${location.kind}`)
    if (location.node.items.length < (rule.min ?? 0))
      return location.fail(`must be a list of ${rule.what} with at least ${rule.min} element`)
    return [...location.elements()].flatMap((element) => {
      const value = of.read(element)
      return value === undefined ? [] : [{ value, location: element }]
    })
  },
})
