import { WRITABLE_LEVELS } from './scan.ts'

const QUOTE = 34,
  COMMA = 44,
  COLON = 58,
  OPEN_BRACKET = 91,
  BACKSLASH = 92,
  CLOSE_BRACKET = 93,
  OPEN_BRACE = 123,
  CLOSE_BRACE = 125

const ESCAPE = /^\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})$/
const SCALAR = /^(?:true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?)$/
/** No number that means anything is longer; a longer one would be copied again for each piece of it. */
const SCALAR_LENGTH_MAX = 10_000

/** The next token that is allowed. */
type Expected = 'value' | 'first-value' | 'name' | 'first-name' | 'colon' | 'separator' | 'nothing'

/**
 * The text of a JSON object that arrives in pieces, checked as it comes: parsing a long one at its end would hold up
 * all other responses. Numbers and strings stay as they are spelled; white space between them is left out.
 */
export class ObjectText {
  #text = ''
  #expected: Expected = 'value'
  #invalid = false
  /** The open containers, `true` for an object. */
  readonly #open: boolean[] = []
  #inString = false
  /** The begun escape in a string, or the begun scalar. */
  #begun = ''

  /** The object without white space; undefined if it is not complete, not valid, or no object. */
  get complete(): string | undefined {
    if (this.#invalid || this.#expected !== 'nothing') return undefined
    return this.#text.isWellFormed() ? this.#text : this.#text.replace(/\p{Surrogate}/gu, escaped)
  }

  add(piece: string): void {
    if (this.#invalid) return
    // The piece from here on is not in the text.
    let from = 0
    let i = 0
    while (i < piece.length && !this.#invalid) {
      if (this.#inString) i = this.#string(piece, i)
      else if (this.#begun !== '') i = this.#scalar(piece, i)
      else {
        const c = piece.charCodeAt(i)
        if (isSpace(c)) {
          this.#text += piece.slice(from, i)
          while (i < piece.length && isSpace(piece.charCodeAt(i))) i++
          from = i
        } else i = this.#token(piece, i, c)
      }
    }
    this.#text += piece.slice(from)
  }

  /** A bracket, separator, or the beginning of a string or scalar. Gives the offset behind it. */
  #token(piece: string, i: number, c: number): number {
    const expected = this.#expected
    const isValue = expected === 'value' || expected === 'first-value'
    if (c === QUOTE && (isValue || expected === 'name' || expected === 'first-name') && this.#open.length > 0)
      this.#inString = true
    else if (c === OPEN_BRACE && isValue) this.#push(true)
    else if (c === OPEN_BRACKET && isValue && this.#open.length > 0) this.#push(false)
    else if (c === CLOSE_BRACE && (expected === 'first-name' || expected === 'separator')) this.#pop(true)
    else if (c === CLOSE_BRACKET && (expected === 'first-value' || expected === 'separator')) this.#pop(false)
    else if (c === COLON && expected === 'colon') this.#expected = 'value'
    else if (c === COMMA && expected === 'separator') this.#expected = this.#open.at(-1) === true ? 'name' : 'value'
    else if (isValue && this.#open.length > 0) return this.#scalar(piece, i)
    else this.#invalid = true
    return i + 1
  }

  #push(isObject: boolean): void {
    this.#invalid = this.#open.push(isObject) > WRITABLE_LEVELS
    this.#expected = isObject ? 'first-name' : 'first-value'
  }

  #pop(isObject: boolean): void {
    this.#invalid = this.#open.pop() !== isObject
    this.#expected = this.#open.length === 0 ? 'nothing' : 'separator'
  }

  /** A string from within. Gives the offset behind it, or the end of the piece. */
  #string(piece: string, from: number): number {
    let i = this.#begun === '' ? from : this.#escape(piece, from)
    while (i < piece.length) {
      const c = piece.charCodeAt(i)
      if (c === BACKSLASH) i = this.#escape(piece, i)
      else if (c === QUOTE || c < 32) {
        this.#invalid = c !== QUOTE
        this.#inString = false
        this.#expected = this.#expected === 'name' || this.#expected === 'first-name' ? 'colon' : 'separator'
        return i + 1
      } else i++
    }
    return i
  }

  /** An escape or the rest of one, which the end of a piece may cut. Gives the offset behind it. */
  #escape(piece: string, from: number): number {
    const begun = this.#begun
    if (begun === '' && isShortEscape(piece.charCodeAt(from + 1))) return from + 2
    const length = (begun[1] ?? piece[from + 1 - begun.length]) === 'u' ? 6 : 2
    const end = from + length - begun.length
    const escape = begun + piece.slice(from, end)
    const isCut = escape.length < length
    this.#begun = isCut ? escape : ''
    this.#invalid = !isCut && !ESCAPE.test(escape)
    return isCut || this.#invalid ? piece.length : end
  }

  /** A number or literal, which ends before the next character that cannot be in one. */
  #scalar(piece: string, from: number): number {
    let i = from
    while (i < piece.length && isInScalar(piece.charCodeAt(i))) i++
    this.#begun += piece.slice(from, i)
    if (this.#begun.length > SCALAR_LENGTH_MAX) this.#invalid = true
    else if (i < piece.length || this.#begun === '') {
      this.#invalid = !SCALAR.test(this.#begun)
      this.#begun = ''
      this.#expected = 'separator'
    }
    return i
  }
}

/** Half of a character, as JSON.stringify writes it: there are no bytes for it. */
const escaped = (half: string): string => `\\u${half.charCodeAt(0).toString(16)}`

/** `n`, `"` and `\`, which are most of them. */
const isShortEscape = (c: number): boolean => c === 110 || c === QUOTE || c === BACKSLASH

const isSpace = (c: number): boolean => c === 32 || c === 10 || c === 13 || c === 9

/** Digits, letters, and `+ - .`. */
const isInScalar = (c: number): boolean =>
  (c >= 48 && c <= 57) || (c >= 97 && c <= 122) || c === 43 || c === 45 || c === 46 || c === 69
