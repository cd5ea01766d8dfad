import { isRawJson } from './exact.ts'
import { isObject } from './parse.ts'

/** A JSON value with each of its strings replaced. */
export function mapStrings(value: unknown, text: (value: string) => unknown): unknown {
  if (typeof value === 'string') return text(value)
  if (Array.isArray(value)) return value.map((element) => mapStrings(element, text))
  return isObject(value) && !isRawJson(value)
    ? Object.fromEntries(Object.entries(value).map(([name, member]) => [name, mapStrings(member, text)]))
    : value
}

/** All strings in a JSON value. */
export const stringsIn = (value: unknown): string[] => {
  const found: string[] = []
  mapStrings(value, (text) => found.push(text))
  return found
}
