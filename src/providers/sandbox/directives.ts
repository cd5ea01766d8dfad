import { tryParse } from '../../json/parse.ts'

/** A directive as written in a prompt: `[[name: argument]]`. */
export type Directive = { name: string; argument: string }

const OPENING = /\[\[\s*([a-z]+(?:-[a-z]+)*)\s*:?/gi
/** Prompts are untrusted, so the work spent on one is bounded. */
const MAX_DIRECTIVES = 1000
const MAX_ENDS_TRIED = 64

/**
 * Finds the directives whose names `isKnown` accepts; everything else, other `[[...]]` included, is `rest`. The colon
 * is optional. A directive ends at the first `]]`, or, if its argument is (or ends in) JSON, at the first `]]` that
 * completes that JSON.
 */
export function findDirectives(
  text: string,
  isKnown: (name: string) => boolean,
): { directives: Directive[]; rest: string } {
  const directives: Directive[] = []
  let rest = ''
  let from = 0
  const opening = new RegExp(OPENING)
  let match = opening.exec(text)
  while (match !== null && directives.length < MAX_DIRECTIVES) {
    const name = match[1]!.toLowerCase()
    if (isKnown(name)) {
      const end = endOfArgument(text, opening.lastIndex)
      if (end < 0) break
      directives.push({ name, argument: text.slice(opening.lastIndex, end).trim() })
      rest += text.slice(from, match.index)
      from = end + 2
      opening.lastIndex = from
    }
    match = opening.exec(text)
  }
  return { directives, rest: (rest + text.slice(from)).trim() }
}

function endOfArgument(text: string, from: number): number {
  let first = -1
  let tried = 0
  const json = /^\s*(?:[\w.:/-]+\s+)?(?=[{[])/.exec(text.slice(from, from + 200))
  for (let at = text.indexOf(']]', from); at >= 0; at = text.indexOf(']]', at + 1)) {
    // In `]]]` the last two brackets close the directive; the first one belongs to the argument.
    if (first < 0 && text[at + 2] !== ']') first = at
    if (json === null) {
      if (first >= 0) return first
      continue
    }
    if (tryParse(text.slice(from + json[0].length, at)) !== undefined) return at
    tried += 1
    if (tried >= MAX_ENDS_TRIED && first >= 0) return first
  }
  return first
}
