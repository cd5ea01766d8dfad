/** Parsing and printing that keep the spelling of numbers that a double would change. */

import { isObject } from './parse.ts'
import { isDeeperThan, WRITABLE_LEVELS } from './scan.ts'

/**
 * JSON.parse whose result stringifies with the original spelling of numbers: those that a double would print
 * differently (big integers, `1.0`) become raw JSON instead of numbers. For values that are only passed on.
 * Throws a SyntaxError like JSON.parse.
 */
export function parseExact(text: string): unknown {
  if (!mayRespell(text)) return JSON.parse(text)
  return JSON.parse(text, ((_key: string, value: unknown, context: { source?: string }) =>
    typeof value === 'number' && context.source !== undefined && context.source !== String(value)
      ? rawJson(context.source)
      : value) as (key: string, value: unknown) => unknown)
}

/**
 * JSON.parse, except that values of members with this name are parsed as by `parseExact`: the arguments of a tool call
 * are only passed on, and must not change. Throws a SyntaxError like JSON.parse.
 */
export function parseWithExact(text: string, name: string): unknown {
  return text.includes(`"${name}"`) && mayRespell(text)
    ? withExactMembers(JSON.parse(text), parseExact(text), name)
    : JSON.parse(text)
}

function withExactMembers(plain: unknown, exact: unknown, name: string): unknown {
  if (Array.isArray(plain))
    return plain.map((element, index) => withExactMembers(element, (exact as unknown[])[index], name))
  if (!isObject(plain) || !isObject(exact)) return plain
  for (const member of Object.keys(plain))
    plain[member] = member === name ? exact[member] : withExactMembers(plain[member], exact[member], name)
  return plain
}

/**
 * `parseExact` for a text that should be a JSON object; undefined if it is incomplete, invalid or anything else, and
 * for one that could not be written again.
 */
export function readObject(text: string): Record<string, unknown> | undefined {
  if (isDeeperThan(WRITABLE_LEVELS, text)) return undefined
  try {
    const value = parseExact(text)
    return isObject(value) && !isRawJson(value) ? value : undefined
  } catch {
    return undefined
  }
}

// Numbers with sixteen digits, a fraction or an exponent, and -0: a double may print them differently.
const MAY_CHANGE = /\d{16}|\d[.eE]|-0/

/** True if numbers in a JSON text may be spelled differently after JSON.parse and JSON.stringify. */
const mayRespell = (text: string): boolean => MAY_CHANGE.test(text)

const { rawJSON: rawJson, isRawJSON } = JSON as unknown as {
  rawJSON(text: string): unknown
  isRawJSON(value: unknown): boolean
}

/** True for a number that `parseExact` kept as raw JSON. */
export const isRawJson = (value: unknown): boolean => isRawJSON(value)

// Digits alone are found thirty times as fast as a whole number of that length.
const DIGITS = /\d{16}/
const BIG_NUMBER = /[:,[]\s*-?\d{16}/

/**
 * JSON.stringify, except that integers which a double rounds are spelled as in `source`, the text that the value was
 * parsed from. If two of them round to the same double, both stay rounded.
 */
export function stringifyAs(source: string, value: unknown): string {
  if (!DIGITS.test(source) || !BIG_NUMBER.test(source)) return JSON.stringify(value)
  const spellings = new Map<unknown, string>()
  const collect = (_key: string, number: unknown, context: { source?: string }): unknown => {
    const token = typeof number === 'number' ? context.source : undefined
    if (token !== undefined && /^-?\d{16,}$/.test(token))
      spellings.set(number, (spellings.get(number) ?? token) === token ? token : String(number))
    return number
  }
  JSON.parse(source, collect as (key: string, value: unknown) => unknown)
  return JSON.stringify(value, (_key, one: unknown) =>
    typeof one === 'number' && spellings.has(one) ? rawJson(spellings.get(one)!) : one,
  )
}
