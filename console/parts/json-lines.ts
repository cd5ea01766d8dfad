/**
 * JSON as lines, indented by two, without parsing it: every digit and escape stays as it is. A text that is no JSON is
 * cut at its own ends of lines.
 */
export function jsonLines(text: string): string[] {
  const start = text.trimStart()[0]
  return start === '{' || start === '[' ? (indented(text) ?? text.split('\n')) : text.split('\n')
}

const PAIRS: Record<string, string> = { '{': '}', '[': ']' }
const INDENT = '  '

/** Undefined where brackets do not match. */
function indented(text: string): string[] | undefined {
  const lines: string[] = []
  const open: string[] = []
  let line = ''
  const next = (): void => {
    lines.push(line)
    line = INDENT.repeat(open.length)
  }
  for (let at = 0; at < text.length; at++) {
    const char = text[at]!
    if (char === '"') {
      const end = endOfString(text, at)
      if (end === undefined) return undefined
      line += text.slice(at, end)
      at = end - 1
    } else if (char === '{' || char === '[') {
      const after = nextVisible(text, at + 1)
      if (text[after] === PAIRS[char]) {
        line += char + PAIRS[char]
        at = after
        continue
      }
      line += char
      open.push(char)
      next()
    } else if (char === '}' || char === ']') {
      if (PAIRS[open.pop() ?? ''] !== char) return undefined
      next()
      line += char
    } else if (char === ',') {
      line += char
      next()
    } else if (char === ':') line += ': '
    else if (!/\s/.test(char)) line += char
  }
  if (open.length > 0) return undefined
  lines.push(line)
  return lines
}

function nextVisible(text: string, from: number): number {
  let at = from
  while (at < text.length && /\s/.test(text[at]!)) at++
  return at
}

/** The position after the closing quote. */
function endOfString(text: string, from: number): number | undefined {
  for (let at = from + 1; at < text.length; at++) {
    if (text[at] === '\\') at++
    else if (text[at] === '"') return at + 1
  }
  return undefined
}

export type Token = { kind: 'name' | 'text' | 'number' | 'word' | 'mark'; text: string }

const TOKEN = /("(?:[^"\\]|\\.)*")(\s*:)?|(-?\d[\d.eE+-]*)|\b(true|false|null)\b|[^"\d\w-]+|./g

/** A line in pieces for colours. */
export function tokensOf(line: string): Token[] {
  const tokens: Token[] = []
  for (const [all, quoted, colon, number, word] of line.matchAll(TOKEN)) {
    if (quoted !== undefined) {
      tokens.push({ kind: colon === undefined ? 'text' : 'name', text: quoted })
      if (colon !== undefined) tokens.push({ kind: 'mark', text: colon })
    } else if (number !== undefined) tokens.push({ kind: 'number', text: number })
    else if (word !== undefined) tokens.push({ kind: 'word', text: word })
    else tokens.push({ kind: 'mark', text: all })
  }
  return tokens
}

/** Lines longer than this are shown cut: one of a megabyte would stop the page. */
export const LINE_MOST = 2000
