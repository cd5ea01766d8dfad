/** Texts of elements that come again in later bodies as the same objects. */
const known = new WeakMap<object, string>()

/**
 * JSON.stringify of an object. `isKept`: reports whether an array has elements that come again as the same objects and
 * do not change: their texts are kept.
 */
export function stringifyBody(body: Record<string, unknown>, isKept: (value: unknown) => boolean): string {
  const names = Object.keys(body)
  if (!names.some((name) => isKept(body[name]))) return JSON.stringify(body)
  let text = ''
  for (const name of names) {
    const value = body[name]
    const written = isKept(value) ? arrayText(value as readonly unknown[]) : JSON.stringify(value)
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
