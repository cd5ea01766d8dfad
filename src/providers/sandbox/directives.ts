import { tryParse } from '../../json/parse.ts'
/** A directive as it stands in a prompt: `[[name: argument]]`. */
export type Directive = { name: string; argument: string }

const OPENING = /\[\[\s*([a-z]+(?:-[a-z]+)*)\s*:?/gi
/** A prompt is a stranger's text: what it may cost to look at is bounded. */
const MAX_DIRECTIVES = 1000
const MAX_ENDS_TRIED = 64

/**
 * Finds the directives whose names are known; everything else, other `[[...]]` included, is `rest`. The colon may be
 * left out.
 * A directive ends at the first `]]`, or, where its argument is (or ends in) JSON, at the first `]]` that completes
 * that JSON.
 */
export function directivesIn(
  text: string,
  known: (name: string) => boolean,
): { directives: Directive[]; rest: string } {
  const directives: Directive[] = []
  let rest = ''
  let from = 0
  const opening = new RegExp(OPENING)
  for (
    let match = opening.exec(text);
    match !== null && directives.length < MAX_DIRECTIVES;
    match = opening.exec(text)
  ) {
    const name = match[1]!.toLowerCase()
    if (!known(name)) continue
    const end = endOf(text, opening.lastIndex)
    if (end < 0) break
    directives.push({ name, argument: text.slice(opening.lastIndex, end).trim() })
    rest += text.slice(from, match.index)
    from = opening.lastIndex = end + 2
  }
  return { directives, rest: (rest + text.slice(from)).trim() }
}

function endOf(text: string, from: number): number {
  let first = -1
  let tried = 0
  const json = /^\s*(?:[\w.:/-]+\s+)?(?=[{[])/.exec(text.slice(from, from + 200))
  for (let at = text.indexOf(']]', from); at >= 0; at = text.indexOf(']]', at + 1)) {
    // Of three brackets in a row the last two close: the first belongs to the text.
    if (first < 0 && text[at + 2] !== ']') first = at
    if (json === null && first >= 0) return first
    if (json !== null && tryParse(text.slice(from + json[0].length, at)) !== undefined) return at
    if (json !== null && ++tried >= MAX_ENDS_TRIED && first >= 0) return first
  }
  return first
}

/**
 * `20ms`, `1.5s` or a bare number of milliseconds -> milliseconds; undefined for anything else or more than ten
 * minutes.
 */
export function milliseconds(text: string): number | undefined {
  const match = /^(\d+(?:\.\d+)?)\s*(ms|s)?$/i.exec(text)
  if (match === null) return undefined
  const value = Number(match[1]) * (match[2]?.toLowerCase() === 's' ? 1000 : 1)
  return value <= 600_000 ? value : undefined
}

/**
 * Takes the `key=value` words with the given keys off a text: `429 retry-after=2 slow down` -> the pairs, and what
 * remains.
 */
export function options(text: string, keys: readonly string[]): { given: Map<string, string>; rest: string } {
  const given = new Map<string, string>()
  const rest = text.replace(/(^|\s)([a-z][a-z-]*)=(\S+)/gi, (whole, space: string, key: string, value: string) => {
    if (!keys.includes(key.toLowerCase())) return whole
    given.set(key.toLowerCase(), value)
    return space
  })
  return { given, rest: rest.replace(/\s+/g, ' ').trim() }
}
