/**
 * JSON as text: finds members without parsing, so that a body can be passed on byte for byte with a few values
 * exchanged
 * (key order, number spelling and big integers stay as the client or the provider wrote them).
 */

const QUOTE = 34,
  BACKSLASH = 92,
  OPEN_BRACE = 123,
  CLOSE_BRACE = 125,
  OPEN_BRACKET = 91,
  CLOSE_BRACKET = 93,
  COLON = 58,
  COMMA = 44

/** A member of an object in a text: where its name starts, and where its value starts and ends (end exclusive). */
export type Member = { key: string; nameAt: number; start: number; end: number }

/** Walks the members of the object that starts at `at` (whitespace may precede it). The text must be valid JSON. */
class Members {
  key = ''
  nameAt = 0
  start = 0
  /** Where the value ends. */
  valueEnd = 0
  /** Where the value and what space follows it end. */
  end: number
  readonly #text: string
  #more: boolean

  constructor(text: string, at: number) {
    this.#text = text
    this.end = skipSpace(text, at)
    this.#more = text.charCodeAt(this.end) === OPEN_BRACE
  }

  /** Steps to the next member; false after the last. */
  next(): boolean {
    const text = this.#text
    if (!this.#more) return false
    let i = skipSpace(text, this.end + 1)
    if (text.charCodeAt(i) !== QUOTE) return (this.#more = false)
    this.nameAt = i
    i = skipString(text, i)
    this.key = nameOf(text, this.nameAt, i)
    i = skipSpace(text, i)
    this.start = text.charCodeAt(i) === COLON ? skipSpace(text, i + 1) : i
    const end = skipValue(text, this.start)
    this.end = skipSpace(text, end)
    this.#more = text.charCodeAt(this.end) === COMMA
    this.valueEnd = end
    return true
  }
}

/** The members of the object that starts at `at`, in order, duplicates included. */
export function members(text: string, at = 0): Member[] {
  const found: Member[] = []
  const walk = new Members(text, at)
  while (walk.next()) found.push({ key: walk.key, nameAt: walk.nameAt, start: walk.start, end: walk.valueEnd })
  return found
}

/**
 * Where the elements of the array that starts at `at` stand (end exclusive); undefined for what is no array. The text
 * must be valid JSON.
 */
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

/**
 * The text of an object with top-level values exchanged or added; `undefined` removes a member. Values are JSON texts.
 */
export function splice(text: string, changes: Record<string, string | undefined>, at = 0): string {
  const names = Object.keys(changes)
  for (const name of names) if (changes[name] === undefined) return rebuilt(text, changes, at)
  const found: string[] = []
  const walk = new Members(text, at)
  let out = ''
  let from = 0
  // What follows the last change is taken as it is, unread.
  while (found.length < names.length && walk.next()) {
    const value = changes[walk.key]
    if (value === undefined || !names.includes(walk.key)) continue
    if (!found.includes(walk.key)) found.push(walk.key)
    out += text.slice(from, walk.start) + value
    from = walk.valueEnd
  }
  out += text.slice(from)
  if (found.length === names.length) return out
  const brace = text.indexOf('{', at) + 1
  const added = names
    .filter((name) => !found.includes(name))
    .map((name) => `${JSON.stringify(name)}:${changes[name]}`)
    .join(',')
  return out.slice(0, brace) + added + (walk.key === '' && walk.nameAt === 0 ? '' : ',') + out.slice(brace)
}

/** The same where a member is removed: one comma goes with it, and every other byte stays. */
function rebuilt(text: string, changes: Record<string, string | undefined>, at: number): string {
  const present = members(text, at)
  const brace = text.indexOf('{', at) + 1
  const pieces: string[] = []
  for (const name of Object.keys(changes)) {
    if (changes[name] !== undefined && !present.some(({ key }) => key === name))
      pieces.push(`${JSON.stringify(name)}:${changes[name]}`)
  }
  let from = brace
  for (const [index, { key, start, end }] of present.entries()) {
    const value = Object.hasOwn(changes, key) ? changes[key] : text.slice(start, end)
    const next = index === present.length - 1 ? end : text.indexOf(',', end)
    if (value !== undefined) pieces.push(text.slice(from, start) + value + text.slice(end, next))
    from = next + 1
  }
  return text.slice(0, brace) + pieces.join(',') + text.slice(present.at(-1)?.end ?? brace)
}

/** Names of members and indexes, from the outermost value down. */
export type JsonPath = readonly (string | number)[]

/** A JSON text that takes the place of another, or what makes it of that. */
type Replacement = string | ((text: string) => string)

/** Values that stand below one another: `value` takes the place of the whole. */
type Tree = { value?: Replacement; below: Map<string | number, Tree> }

/**
 * The text with the values at these paths exchanged for other JSON texts; every other byte stays as it was. Of a name
 * given twice the last counts,
 * as for JSON.parse. No path may lead through another. Throws an Error for one that leads nowhere. The text must be
 * valid JSON.
 */
export function replaceAt(text: string, changes: readonly { path: JsonPath; value: Replacement }[]): string {
  const root: Tree = { below: new Map() }
  for (const { path, value } of changes) {
    let tree = root
    for (const step of path) {
      const next = tree.below.get(step) ?? { below: new Map() }
      tree.below.set(step, next)
      tree = next
    }
    tree.value = value
  }
  const spans: [start: number, end: number, value: string][] = []
  locate(text, 0, text.length, root, spans)
  let out = ''
  let from = 0
  for (const [start, end, value] of spans.sort(([a], [b]) => a - b)) {
    out += text.slice(from, start) + value
    from = end
  }
  return out + text.slice(from)
}

function locate(text: string, start: number, end: number, tree: Tree, spans: [number, number, string][]): void {
  if (tree.value !== undefined)
    return void spans.push([
      start,
      end,
      typeof tree.value === 'string' ? tree.value : tree.value(text.slice(start, end)),
    ])
  const array = elements(text, start)
  const found = new Map<string | number, { start: number; end: number }>()
  if (array !== undefined) for (const [index, [from, to]] of array.entries()) found.set(index, { start: from, end: to })
  else for (const member of members(text, start)) found.set(member.key, member)
  for (const [step, below] of tree.below) {
    const value = found.get(step)
    if (value === undefined) throw new Error(`nothing stands at ${step}`)
    locate(text, value.start, value.end, below, spans)
  }
}

/**
 * The text of an array with these JSON texts put before the elements at their indexes (its length: at the end), and
 * without some elements; every other byte stays. The text must be valid JSON.
 */
export function insertAt(
  text: string,
  added: readonly { before: number; value: string }[],
  removed: ReadonlySet<number> = new Set(),
): string {
  const spans = elements(text)
  if (spans === undefined) throw new Error('what is inserted into must be an array')
  const [first, last] = [spans[0], spans.at(-1)]
  if (first === undefined || last === undefined) return `[${added.map(({ value }) => value).join(',')}]`
  const put = (index: number): { value: string; then: string }[] =>
    added.filter(({ before }) => before === index).map(({ value }) => ({ value, then: ',' }))
  const all = spans
    .flatMap(([start, end], index) => {
      const next = spans[index + 1]
      return [
        ...put(index),
        ...(removed.has(index)
          ? []
          : [{ value: text.slice(start, end), then: next === undefined ? ',' : text.slice(end, next[0]) }]),
      ]
    })
    .concat(put(spans.length))
  return (
    text.slice(0, first[0]) +
    all.map(({ value, then }, index) => (index === all.length - 1 ? value : value + then)).join('') +
    text.slice(last[1])
  )
}

const DEPTH_MAX = 64
const MEMBERS_MAX = 10_000
const FEW = 16

/**
 * What is wrong with a body before anything walks it: nesting that would exhaust the stack of whatever does, or a name
 * given
 * twice in one object, of which a provider might read the one that was not looked at. Undefined for a text that is fine
 * or is no JSON at all.
 */
export function checkJson(text: string): string | undefined {
  /**
   * The names of each open object, undefined for an array. Most objects have few, for which a set takes longer than
   * looking through them.
   */
  const open: (string[] | Set<string> | undefined)[] = []
  /** Whether the next string is a name: then of the innermost object. */
  let named = false
  for (let i = 0; i < text.length; i++) {
    const c = text.charCodeAt(i)
    if (c === QUOTE) {
      const end = skipString(text, i)
      if (named) {
        const key = nameOf(text, i, end)
        const names = open[open.length - 1]!
        const isSet = names instanceof Set
        if (isSet ? names.has(key) : names.includes(key))
          return `must not name '${key.slice(0, 64)}' twice in one object`
        if (isSet) {
          if (names.add(key).size > MEMBERS_MAX && open.length === 1)
            return `must not have more than ${MEMBERS_MAX} members`
        } else if (names.push(key) === FEW) open[open.length - 1] = new Set(names)
        named = false
      }
      i = end - 1
    } else if (c === OPEN_BRACE || c === OPEN_BRACKET) {
      named = c === OPEN_BRACE
      if (open.push(named ? [] : undefined) > DEPTH_MAX) return `must not be nested deeper than ${DEPTH_MAX} levels`
    } else if (c === CLOSE_BRACE || c === CLOSE_BRACKET) {
      named = false
      open.pop()
    } else if (c === COMMA) named = open[open.length - 1] !== undefined
  }
  return undefined
}

/** A name between its quotes, escapes read; as it stands where the text is no JSON and its escapes are none. */
function nameOf(text: string, start: number, end: number): string {
  const raw = text.slice(start + 1, end - 1)
  if (!raw.includes('\\')) return raw
  try {
    return JSON.parse(text.slice(start, end)) as string
  } catch {
    return raw
  }
}

/** The value of a JSON text; undefined for a text that is no JSON. */
export function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/**
 * JSON.parse whose result stringifies to the numbers as they were spelled: big integers and `1.0` become raw leaves
 * (not numbers).
 * For values that are only passed on. Throws a SyntaxError like JSON.parse.
 */
export function parseExact(text: string): unknown {
  if (!mayRespell(text)) return JSON.parse(text)
  return JSON.parse(text, ((_key: string, value: unknown, context: { source?: string }) =>
    typeof value === 'number' && context.source !== undefined && context.source !== String(value)
      ? rawJson(context.source)
      : value) as (key: string, value: unknown) => unknown)
}

// Sixteen digits or a fraction or exponent: what a double may spell in another way.
const MAY_CHANGE = /\d{16}|\d[.eE]|-0/

/** Whether numbers in a JSON text may come out in another spelling than they went in. */
export const mayRespell = (text: string): boolean => MAY_CHANGE.test(text)

const { rawJSON: rawJson, isRawJSON } = JSON as unknown as {
  rawJSON(text: string): unknown
  isRawJSON(value: unknown): boolean
}

/** Whether `parseExact` left it as it was spelled. */
export const isRawJson = (value: unknown): boolean => isRawJSON(value)

// The digits alone are found thirty times as fast as a number of them.
const DIGITS = /\d{16}/
const BIG_NUMBER = /[:,[]\s*-?\d{16}/

/**
 * JSON.stringify with the integers that doubles round as `source` spells them, from which the value was made. Two that
 * round to the same stay rounded.
 */
export function stringifyAs(source: string, value: unknown): string {
  if (!DIGITS.test(source) || !BIG_NUMBER.test(source)) return JSON.stringify(value)
  const spelled = new Map<unknown, string>()
  const collect = (_key: string, number: unknown, context: { source?: string }): unknown => {
    const token = typeof number === 'number' ? context.source : undefined
    if (token !== undefined && /^-?\d{16,}$/.test(token))
      spelled.set(number, (spelled.get(number) ?? token) === token ? token : String(number))
    return number
  }
  JSON.parse(source, collect as (key: string, value: unknown) => unknown)
  return JSON.stringify(value, (_key, one: unknown) =>
    typeof one === 'number' && spelled.has(one) ? rawJson(spelled.get(one)!) : one,
  )
}

/** JSON text as it is compared: whatever a client's JSON library does to spacing and key order does not count. */
export function canonical(json: string): string {
  try {
    return JSON.stringify(JSON.parse(json), (_key, value: unknown) =>
      typeof value === 'object' && value !== null && !Array.isArray(value)
        ? Object.fromEntries(Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1)))
        : value,
    )
  } catch {
    return json
  }
}

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

const isEnd = (c: number): boolean =>
  c === COMMA || c === CLOSE_BRACE || c === CLOSE_BRACKET || c === 32 || c === 10 || c === 13 || c === 9
