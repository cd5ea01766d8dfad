import { scrub } from './secrets.ts'

/** Characters of a field. */
const FIELD_MAX = 200

/** Characters that would end a line or change a terminal: controls, line separators, and changes of the direction. */
const UNPRINTABLE = /[\0-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069]/g

const escaped = (character: string): string => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`

const shortened = (text: string): string => (text.length > FIELD_MAX ? `${text.slice(0, FIELD_MAX)}…` : text)

/** One line of text. */
export const plain = (text: string): string => text.replace(UNPRINTABLE, escaped)

/** A field as one word of a line of text. */
export const word = (field: string): string => plain(shortened(field)).replaceAll(' ', '\\u0020')

/** A JSON string on one line, which is safe on a terminal, too. */
export const quoted = (text: string): string => JSON.stringify(text).replace(UNPRINTABLE, escaped)

/** The same of a field. */
export const quotedField = (field: string): string => quoted(shortened(field))

const MESSAGE_MAX = 300
const CAUSES_MAX = 3

/**
 * Name, message and stack of an error, and of its causes. Messages of the runtime quote what they could not read,
 * which may be a prompt or an answer: what is in double quotes is left out.
 */
export function describeError(error: unknown): string {
  const texts: string[] = []
  for (let cause = error; cause !== undefined && texts.length < CAUSES_MAX; ) {
    texts.push(cause instanceof Error ? describeOne(cause) : typeof cause)
    cause = cause instanceof Error ? cause.cause : undefined
  }
  return texts.join('\ncaused by ')
}

function describeOne({ name, message, stack }: Error): string {
  const frames = stack?.split('\n').filter((line) => /^\s+at /.test(line)) ?? []
  const said = message.slice(0, MESSAGE_MAX).replace(/"[^"]*"?/g, '"…"')
  return [scrub(`${name}: ${said}`), ...frames].join('\n')
}
