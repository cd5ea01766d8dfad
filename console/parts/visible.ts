/** Characters that are not seen, or that change the direction of the text around them. */
const HIDDEN =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b\u200c\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]/gu

/** A text from outside with marks in place of hidden characters: `\u202E` as `[U+202E]`. */
export const visible = (text: string): string =>
  text.replace(HIDDEN, (char) => `[U+${char.codePointAt(0)!.toString(16).toUpperCase().padStart(4, '0')}]`)

/** The same in one line, cut. */
export function oneLine(text: string, most = 200): string {
  const line = visible(text.replace(/\s+/g, ' ').trim())
  return line.length > most ? `${line.slice(0, most - 1)}…` : line
}
