/** Characters that are looked at: a client that sends more has the rest of the text to compare. */
const LOOKED_AT = 4 * 2 ** 20

/** A literal or number, or the beginning of one that the text ends in. */
const SCALAR = /true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y
const ESCAPE = /\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})/y

/**
 * The position of the first character that cannot be there in JSON, as `line 2, column 7`, or undefined where there is
 * none in the first 4 MiB. For a text that `JSON.parse` has refused: its own error does not say where.
 */
export function positionOfSyntaxError(text: string): string | undefined {
  const at = new SyntaxScan(text.length > LOOKED_AT ? text.slice(0, LOOKED_AT) : text).findError()
  if (at === undefined || at >= LOOKED_AT) return undefined
  const before = text.slice(0, at)
  const line = before.split('\n').length
  const column = at - before.lastIndexOf('\n')
  return `line ${line}, column ${column}`
}

/** The problem of a text that `JSON.parse` has refused with `error`, with its position. */
export function syntaxProblem(text: string, error: unknown): string {
  const position = positionOfSyntaxError(text)
  const reason = (error as Error).message.replace(/^JSON Parse error: /, '')
  return `is not valid JSON${position === undefined ? '' : ` at ${position}`} (${reason})`
}

/** The next token. `first`: a value or, as the container is still empty, its end. */
type Expected = 'value' | 'first' | 'name' | 'separator'

/** One walk over a text, without recursion. */
class SyntaxScan {
  readonly #text: string
  #at = 0
  #expected: Expected = 'value'
  /** The closing brackets of open containers, the innermost last. */
  readonly #open: string[] = []

  constructor(text: string) {
    this.#text = text
  }

  /** The offset of the first wrong character, or of the end where something is missing; undefined if it is valid. */
  findError(): number | undefined {
    for (;;) {
      while (' \t\n\r'.includes(this.#text[this.#at] ?? '-')) this.#at++
      if (this.#at === this.#text.length)
        return this.#open.length === 0 && this.#expected === 'separator' ? undefined : this.#at
      if (!this.#step(this.#text[this.#at]!)) return this.#at
    }
  }

  /** Reads the next token; false where it is wrong. */
  #step(character: string): boolean {
    const closing = this.#open.at(-1)
    const mayClose = this.#expected === 'separator' || this.#expected === 'first'
    if (mayClose && character === closing) return this.#close()
    if (this.#expected === 'separator') {
      if (character !== ',' || closing === undefined) return false
      this.#expected = closing === '}' ? 'name' : 'value'
      this.#at++
      return true
    }
    const isName = this.#expected === 'name' || (this.#expected === 'first' && closing === '}')
    return isName ? this.#readName(character) : this.#readValue(character)
  }

  #close(): boolean {
    this.#open.pop()
    this.#at++
    this.#expected = 'separator'
    return true
  }

  #readName(character: string): boolean {
    if (character !== '"' || !this.#readString()) return false
    while (' \t\n\r'.includes(this.#text[this.#at] ?? '-')) this.#at++
    if (this.#text[this.#at] !== ':') return false
    this.#at++
    this.#expected = 'value'
    return true
  }

  #readValue(character: string): boolean {
    if (character === '{' || character === '[') {
      this.#open.push(character === '{' ? '}' : ']')
      this.#expected = 'first'
      this.#at++
      return true
    }
    this.#expected = 'separator'
    if (character === '"') return this.#readString()
    SCALAR.lastIndex = this.#at
    if (!SCALAR.test(this.#text)) return false
    this.#at = SCALAR.lastIndex
    return true
  }

  /** Leaves the offset behind the string, or at its wrong character. */
  #readString(): boolean {
    for (this.#at++; ; ) {
      const code = this.#text.charCodeAt(this.#at)
      if (code === 0x22) {
        this.#at++
        return true
      }
      // Also at the end of the text, where the code is not a number.
      if (!(code >= 0x20)) return false
      if (code === 0x5c) {
        ESCAPE.lastIndex = this.#at
        if (!ESCAPE.test(this.#text)) return false
        this.#at = ESCAPE.lastIndex
      } else this.#at++
    }
  }
}
