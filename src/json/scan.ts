import { MAX_MEMBERS } from './weight.ts'

/** Scanning JSON text without parsing it, so that a body can be checked and edited as text. */

const QUOTE = 34,
  BACKSLASH = 92,
  OPEN_BRACE = 123,
  CLOSE_BRACE = 125,
  OPEN_BRACKET = 91,
  CLOSE_BRACKET = 93,
  COLON = 58,
  COMMA = 44

/** A member of an object in a text. `nameAt`: offset of the name's quote. [`start`, `end`): the value. */
export type Member = { key: string; nameAt: number; start: number; end: number }

/**
 * Walks the members of the object at an offset, which may be whitespace before it. The text must be valid JSON. There
 * are no members if it is not an object.
 */
export class MemberWalker {
  key = ''
  nameAt = 0
  start = 0
  end: number
  /** There may be another member. */
  #more: boolean
  /** The offset of the comma or brace after the member. */
  #separatorAt: number
  readonly #text: string

  constructor(text: string, at: number) {
    this.#text = text
    this.end = this.#separatorAt = skipSpace(text, at)
    this.#more = text.charCodeAt(this.end) === OPEN_BRACE
  }

  /** Steps to the next member; false after the last. */
  next(): boolean {
    const text = this.#text
    if (!this.#more) return false
    let i = skipSpace(text, this.#separatorAt + 1)
    if (text.charCodeAt(i) !== QUOTE) return (this.#more = false)
    this.nameAt = i
    i = skipString(text, i)
    this.key = memberName(text, this.nameAt, i)
    i = skipSpace(text, i)
    this.start = text.charCodeAt(i) === COLON ? skipSpace(text, i + 1) : i
    this.end = skipValue(text, this.start)
    this.#separatorAt = skipSpace(text, this.end)
    this.#more = text.charCodeAt(this.#separatorAt) === COMMA
    return true
  }
}

/** The members of the object at an offset, in order, including duplicates. */
export function members(text: string, at = 0): Member[] {
  const found: Member[] = []
  const walk = new MemberWalker(text, at)
  while (walk.next()) found.push({ key: walk.key, nameAt: walk.nameAt, start: walk.start, end: walk.end })
  return found
}

/** The offsets [start, end) of the elements of the array at an offset; undefined if it is not an array. */
export function elements(text: string, at = 0): [start: number, end: number][] | undefined {
  let i = skipSpace(text, at)
  if (text.charCodeAt(i) !== OPEN_BRACKET) return undefined
  const found: [number, number][] = []
  i = skipSpace(text, i + 1)
  while (i < text.length && text.charCodeAt(i) !== CLOSE_BRACKET) {
    const end = skipValue(text, i)
    found.push([i, end])
    i = skipSpace(text, end)
    if (text.charCodeAt(i) === COMMA) i = skipSpace(text, i + 1)
  }
  return found
}

const MAX_DEPTH = 64
/** Up to here, searching an array of names is faster than a set. */
const FEW_NAMES = 16

/** The member names of an open object so far; undefined for an array. */
type OpenNames = string[] | Set<string> | undefined

/**
 * Checks a body before anything walks it. Returns what is wrong: nesting that could exhaust the stack of a recursive
 * walk, or a duplicate member name, of which a provider might use the one that Sluice did not check. Returns undefined
 * for an acceptable text, and for one that is not JSON at all.
 */
export function checkJson(text: string, maxDepth = MAX_DEPTH): string | undefined {
  const open: OpenNames[] = []
  /** The next string is a member name of the innermost object. */
  let expectsName = false
  for (let i = 0; i < text.length; i++) {
    const c = text.charCodeAt(i)
    if (c === QUOTE) {
      const end = skipString(text, i)
      if (expectsName) {
        const problem = addName(open, memberName(text, i, end))
        if (problem !== undefined) return problem
        expectsName = false
      }
      i = end - 1
    } else if (c === OPEN_BRACE || c === OPEN_BRACKET) {
      expectsName = c === OPEN_BRACE
      if (open.push(expectsName ? [] : undefined) > maxDepth)
        return `must not be nested deeper than ${maxDepth} levels (limits.depth)`
    } else if (c === CLOSE_BRACE || c === CLOSE_BRACKET) {
      expectsName = false
      open.pop()
    } else if (c === COMMA) expectsName = open[open.length - 1] !== undefined
  }
  return undefined
}

/** Adds a name to those of the innermost object, which are a set once they are many. Returns what is wrong with it. */
function addName(open: OpenNames[], name: string): string | undefined {
  const names = open[open.length - 1]!
  const isSet = names instanceof Set
  if (isSet ? names.has(name) : names.includes(name))
    return `must not contain the member '${name.slice(0, 64)}' twice in one object`
  if (isSet)
    return names.add(name).size > MAX_MEMBERS ? `must have at most ${MAX_MEMBERS} members in one object` : undefined
  if (names.push(name) === FEW_NAMES) open[open.length - 1] = new Set(names)
  return undefined
}

/** Writing a value of 30,000 levels as JSON takes a third of a second, and of 100,000 it fails after two. */
export const WRITABLE_LEVELS = 1_000

/** True where objects and arrays of a JSON text are nested deeper than is written. */
export function isTooDeep(text: string): boolean {
  if (text.length <= WRITABLE_LEVELS) return false
  let depth = 0
  for (let i = 0; i < text.length; i++) {
    const c = text.charCodeAt(i)
    if (c === QUOTE) i = skipString(text, i) - 1
    else if (c === OPEN_BRACE || c === OPEN_BRACKET) {
      if (++depth > WRITABLE_LEVELS) return true
    } else if (c === CLOSE_BRACE || c === CLOSE_BRACKET) depth--
  }
  return false
}

/** Detects the end of a JSON object or array whose text arrives in pieces. Leading whitespace is skipped. */
export class JsonEnd {
  complete = false
  #depth: number
  #inString = false
  #escaped = false

  /** `depth`: the number of brackets that are open already. */
  constructor(depth = 0) {
    this.#depth = depth
  }

  /** Returns the offset in this piece just after the last bracket; undefined if the value does not end in it. */
  add(piece: string): number | undefined {
    for (let i = 0; i < piece.length && !this.complete; i++) {
      const c = piece.charCodeAt(i)
      if (this.#inString) {
        this.#inString = this.#escaped || c !== QUOTE
        this.#escaped = !this.#escaped && c === BACKSLASH
      } else if (c === QUOTE) this.#inString = true
      else if (c === OPEN_BRACE || c === OPEN_BRACKET) this.#depth++
      else if ((c === CLOSE_BRACE || c === CLOSE_BRACKET) && --this.#depth <= 0) {
        this.complete = true
        return i + 1
      }
    }
    return undefined
  }
}

/** A member name with its escapes decoded, or as it is spelled if its escapes are invalid. */
function memberName(text: string, start: number, end: number): string {
  const raw = text.slice(start + 1, end - 1)
  // Names are short: looking at each character costs less than a search in the slice.
  let i = start + 1
  while (i < end && text.charCodeAt(i) !== BACKSLASH) i++
  if (i === end) return raw
  try {
    return JSON.parse(text.slice(start, end)) as string
  } catch {
    return raw
  }
}

export function skipSpace(text: string, i: number): number {
  for (;;) {
    const c = text.charCodeAt(i)
    if (c !== 32 && c !== 10 && c !== 13 && c !== 9) return i
    i++
  }
}

/** From the opening quote of a string to just after the closing one. */
export function skipString(text: string, i: number): number {
  for (;;) {
    i = text.indexOf('"', i + 1)
    if (i < 0) return text.length
    let slashes = 0
    while (text.charCodeAt(i - 1 - slashes) === BACKSLASH) slashes++
    if (slashes % 2 === 0) return i + 1
  }
}

function skipValue(text: string, i: number): number {
  const c = text.charCodeAt(i)
  if (c === QUOTE) return skipString(text, i)
  if (c !== OPEN_BRACE && c !== OPEN_BRACKET) {
    while (i < text.length && !endsScalar(text.charCodeAt(i))) i++
    return i
  }
  let depth = 0
  while (i < text.length) {
    const d = text.charCodeAt(i)
    if (d === QUOTE) {
      i = skipString(text, i)
      continue
    }
    if (d === OPEN_BRACE || d === OPEN_BRACKET) depth++
    else if ((d === CLOSE_BRACE || d === CLOSE_BRACKET) && --depth === 0) return i + 1
    i++
  }
  return i
}

const endsScalar = (c: number): boolean =>
  c === COMMA || c === CLOSE_BRACE || c === CLOSE_BRACKET || c === 32 || c === 10 || c === 13 || c === 9
