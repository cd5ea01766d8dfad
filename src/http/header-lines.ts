/** Reads header fields, as `Headers` does. `name` is in lower case. */
export type HeaderReader = Iterable<[name: string, value: string]> & { get(name: string): string | null }

const VALID = /^(?:[!#$%&'*'*'*'*'*+.^_`|~0-9A-Za-z-]+:[^\0\r\n]*\r\n)*$/

/** One expression for each name that Sluice reads. */
const expressions = new Map<string, RegExp>()

const LINE = /^([^:\r\n]+):[ \t]*([^\r\n]*)/gm

/**
 * The header lines of a response. Providers send twenty and more, of which a handful is read: each is searched for when
 * it is asked for.
 */
export class HeaderLines implements HeaderReader {
  readonly #text: string

  private constructor(text: string) {
    this.#text = text
  }

  /** `text`: lines, each with its CRLF. Undefined for malformed names and values. */
  static of(text: string): HeaderLines | undefined {
    return VALID.test(text) ? new HeaderLines(text) : undefined
  }

  /** The value of a header, or the values of a repeated one, joined with commas; null without one. */
  get(name: string): string | null {
    const expression = expressionOf(name)
    expression.lastIndex = 0
    const first = expression.exec(this.#text)
    if (first === null) return null
    let value = trimmedEnd(first[1]!)
    for (let next = expression.exec(this.#text); next !== null; next = expression.exec(this.#text))
      value += `, ${trimmedEnd(next[1]!)}`
    return value
  }

  *[Symbol.iterator](): Generator<[string, string]> {
    for (const [, name, value] of this.#text.matchAll(LINE)) yield [name!.toLowerCase(), trimmedEnd(value!)]
  }
}

function expressionOf(name: string): RegExp {
  let expression = expressions.get(name)
  if (expression === undefined) {
    expression = new RegExp(`^${RegExp.escape(name)}:[ \\t]*([^\\r\\n]*)`, 'gim')
    expressions.set(name, expression)
  }
  return expression
}

/** Without the spaces and tabs at its end. An expression for them would take quadratic time for many in the middle. */
function trimmedEnd(value: string): string {
  let end = value.length
  while (end > 0 && (value[end - 1] === ' ' || value[end - 1] === '\t')) end -= 1
  return value.slice(0, end)
}
