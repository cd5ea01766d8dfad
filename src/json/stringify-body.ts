import { MOST_SPANS } from './body-scan.ts'

/** Texts of elements that come again in later bodies as the same objects. */
const known = new WeakMap<object, string>()

/** Arrays from this length on may be conversations, whose elements come again. */
const LONG_ARRAY = 8

const isConversation = (value: unknown): value is readonly unknown[] =>
  Array.isArray(value) && value.length >= LONG_ARRAY && value.length <= MOST_SPANS

/** JSON.stringify of an object whose long arrays have elements that were written before, and did not change since. */
export function stringifyBody(body: Record<string, unknown>): string {
  let text = ''
  for (const name of Object.keys(body)) {
    const value = body[name]
    const written = isConversation(value) ? arrayText(value) : JSON.stringify(value)
    if (written !== undefined) text += `${text === '' ? '{' : ','}${JSON.stringify(name)}:${written}`
  }
  return text === '' ? '{}' : text + '}'
}

function arrayText(elements: readonly unknown[]): string {
  let text = '['
  for (const element of elements) {
    if (text !== '[') text += ','
    text += typeof element === 'object' && element !== null ? elementText(element) : (JSON.stringify(element) ?? 'null')
  }
  return text + ']'
}

function elementText(element: object): string {
  let text = known.get(element)
  if (text === undefined) {
    text = JSON.stringify(element)
    known.set(element, text)
  }
  return text
}
