/**
 * JSON as text: finds members without parsing, so that a body can be passed on byte for byte with a few values exchanged
 * (key order, number spelling and big integers stay as the client or the provider wrote them).
 */

const QUOTE = 34, BACKSLASH = 92, OPEN_BRACE = 123, CLOSE_BRACE = 125, OPEN_BRACKET = 91, CLOSE_BRACKET = 93, COLON = 58, COMMA = 44

/** A member of an object in a text: where its name starts, and where its value starts and ends (end exclusive). */
export type Member = { key: string; nameAt: number; start: number; end: number }

/** The members of the object that starts at `at` (whitespace may precede it), in order, duplicates included. The text must be valid JSON. */
export function members(text: string, at = 0): Member[] {
  const found: Member[] = []
  let i = skipSpace(text, at)
  if (text.charCodeAt(i) !== OPEN_BRACE) return found
  i = skipSpace(text, i + 1)
  while (i < text.length && text.charCodeAt(i) === QUOTE) {
    const nameAt = i
    const keyEnd = skipString(text, i)
    const rawKey = text.slice(i + 1, keyEnd - 1)
    const key = rawKey.includes('\\') ? (JSON.parse(text.slice(i, keyEnd)) as string) : rawKey
    i = skipSpace(text, keyEnd)
    if (text.charCodeAt(i) === COLON) i = skipSpace(text, i + 1)
    const start = i
    i = skipValue(text, i)
    found.push({ key, nameAt, start, end: i })
    i = skipSpace(text, i)
    if (text.charCodeAt(i) !== COMMA) break
    i = skipSpace(text, i + 1)
  }
  return found
}

/** Where the elements of an array stand (end exclusive); undefined for a text that is no array. The text must be valid JSON. */
export function elements(text: string): [start: number, end: number][] | undefined {
  let i = skipSpace(text, 0)
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

/** The text of an object with top-level values exchanged or added; `undefined` removes a member. Values are JSON texts. */
export function splice(text: string, changes: Record<string, string | undefined>, at = 0): string {
  const present = members(text, at)
  const brace = text.indexOf('{', at) + 1
  const added = Object.keys(changes).filter((key) => changes[key] !== undefined && !present.some((member) => member.key === key)).map((key) => `${JSON.stringify(key)}:${changes[key]}`)
  if (present.some(({ key }) => Object.hasOwn(changes, key) && changes[key] === undefined)) return text.slice(0, brace) + [...added, ...kept(text, present, changes)].join(',') + text.slice(present.at(-1)!.end)
  let out = text.slice(0, brace) + added.join(',') + (added.length > 0 && present.length > 0 ? ',' : '')
  let from = brace
  for (const { key, start, end } of present) {
    const value = Object.hasOwn(changes, key) ? changes[key] : undefined
    if (value === undefined) continue
    out += text.slice(from, start) + value
    from = end
  }
  return out + text.slice(from)
}

/** The members that stay, each with its name as it was spelled. */
const kept = (text: string, present: Member[], changes: Record<string, string | undefined>): string[] =>
  present.filter(({ key }) => !Object.hasOwn(changes, key) || changes[key] !== undefined)
    .map(({ key, nameAt, start, end }) => text.slice(nameAt, start) + (Object.hasOwn(changes, key) ? changes[key] : text.slice(start, end)))

const DEPTH_MAX = 64
const MEMBERS_MAX = 10_000

/**
 * What is wrong with a body before anything walks it: nesting that would exhaust the stack of whatever does, or a name given
 * twice, of which a provider might read the other one. Undefined for a text that is fine or is no JSON at all.
 */
export function checkJson(text: string): string | undefined {
  let depth = 0
  for (let i = 0; i < text.length; i++) {
    const c = text.charCodeAt(i)
    if (c === QUOTE) i = skipString(text, i) - 1
    else if (c === OPEN_BRACE || c === OPEN_BRACKET) {
      if (++depth > DEPTH_MAX) return `must not be nested deeper than ${DEPTH_MAX} levels`
    } else if (c === CLOSE_BRACE || c === CLOSE_BRACKET) depth--
  }
  const found = members(text)
  if (found.length > MEMBERS_MAX) return `must not have more than ${MEMBERS_MAX} members`
  const seen = new Set<string>()
  for (const { key } of found) {
    if (seen.has(key)) return `must not name '${key.slice(0, 64)}' twice`
    seen.add(key)
  }
  return undefined
}

/**
 * JSON.parse whose result stringifies to the numbers as they were spelled: big integers and `1.0` become raw leaves (not numbers).
 * For values that are only passed on. Throws a SyntaxError like JSON.parse.
 */
export function parseExact(text: string): unknown {
  if (!MAY_CHANGE.test(text)) return JSON.parse(text)
  return JSON.parse(text, ((_key: string, value: unknown, context: { source?: string }) =>
    typeof value === 'number' && context.source !== undefined && context.source !== String(value) ? rawJson(context.source) : value) as (key: string, value: unknown) => unknown)
}

// Sixteen digits or a fraction or exponent: what a double may spell in another way.
const MAY_CHANGE = /\d{16}|\d[.eE]|-0/

const rawJson = (JSON as unknown as { rawJSON(text: string): unknown }).rawJSON

function skipSpace(text: string, i: number): number {
  for (;;) {
    const c = text.charCodeAt(i)
    if (c !== 32 && c !== 10 && c !== 13 && c !== 9) return i
    i++
  }
}

/** From an opening quote to just after the closing one. */
function skipString(text: string, i: number): number {
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
    while (i < text.length && !isEnd(text.charCodeAt(i))) i++
    return i
  }
  let depth = 0
  while (i < text.length) {
    const d = text.charCodeAt(i)
    if (d === QUOTE) { i = skipString(text, i); continue }
    if (d === OPEN_BRACE || d === OPEN_BRACKET) depth++
    else if ((d === CLOSE_BRACE || d === CLOSE_BRACKET) && --depth === 0) return i + 1
    i++
  }
  return i
}

const isEnd = (c: number): boolean => c === COMMA || c === CLOSE_BRACE || c === CLOSE_BRACKET || c === 32 || c === 10 || c === 13 || c === 9
