/** Parsing and printing that keep the spelling of numbers that a double would change. */

import { isObject } from './parse.ts'
import { isTooDeep, skipString } from './scan.ts'

/**
 * JSON.parse whose result stringifies with the original spelling of numbers: those that a double would print
 * differently (big integers, `1.0`) become raw JSON instead of numbers. For values that are only passed on.
 * Throws a SyntaxError like JSON.parse.
 */
export function parseExact(text: string): unknown {
  if (!respells(text)) return JSON.parse(text)
  return JSON.parse(text, ((_key: string, value: unknown, context: { source?: string }) =>
    typeof value === 'number' && context.source !== undefined && isRespelled(context.source)
      ? rawJson(context.source)
      : value) as (key: string, value: unknown) => unknown)
}

/**
 * JSON.parse, except that values of members with this name are parsed as by `parseExact`: the arguments of a tool call
 * are only passed on, and must not change. Throws a SyntaxError like JSON.parse.
 */
export function parseWithExact(text: string, name: string): unknown {
  return text.includes(`"${name}"`) && respells(text)
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
  if (isTooDeep(text)) return undefined
  try {
    const value = parseExact(text)
    return isObject(value) && !isRawJson(value) ? value : undefined
  } catch {
    return undefined
  }
}

const QUOTE = 34
const PLUS = 43
const MINUS = 45
const DOT = 46
const ZERO = 48
const NINE = 57
const LOWER_E = 101

/** A double keeps every decimal number of so many digits. */
const EXACT_DIGITS = 15

/**
 * True if numbers in a JSON text are spelled differently after JSON.parse and JSON.stringify. Asking JSON.parse for the
 * spelling of each number takes ten times as long.
 */
function respells(text: string): boolean {
  for (let at = 0; at < text.length; ) {
    const code = text.charCodeAt(at)
    if (code === QUOTE) at = skipString(text, at)
    else if (code === MINUS || isDigit(code)) {
      const end = skipNumber(text, at)
      if (!isPlain(text, at, end) && isRespelled(text.slice(at, end))) return true
      at = end
    } else at++
  }
  return false
}

const isDigit = (code: number): boolean => code >= ZERO && code <= NINE

const isRespelled = (number: string): boolean => String(Number(number)) !== number

/** The offset behind the number at `from`. */
function skipNumber(text: string, from: number): number {
  let at = from + 1
  for (; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (!isDigit(code) && code !== DOT && code !== MINUS && code !== PLUS && (code | 32) !== LOWER_E) break
  }
  return at
}

/** True for most numbers that are spelled as a double is printed. */
function isPlain(text: string, from: number, end: number): boolean {
  const first = text.charCodeAt(from) === MINUS ? from + 1 : from
  if (end - first > EXACT_DIGITS) return false
  // Zero may be negative, and a double below a millionth has an exponent.
  if (text.charCodeAt(first) === ZERO && (end - first < 3 || text.charCodeAt(first + 2) === ZERO))
    return end - from === 1
  let hasDot = false
  for (let at = first; at < end; at++)
    if (text.charCodeAt(at) === DOT) hasDot = true
    else if (!isDigit(text.charCodeAt(at))) return false
  return !hasDot || text.charCodeAt(end - 1) !== ZERO
}

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
