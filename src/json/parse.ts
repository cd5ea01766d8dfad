/** The value of a JSON text; undefined if it is not valid JSON. */
export function tryParse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** JSON text without differences in whitespace and key order, for comparing. Text that is not JSON is unchanged. */
export function canonical(json: string): string {
  try {
    return JSON.stringify(JSON.parse(json), (_key, value: unknown) =>
      isObject(value) ? Object.fromEntries(Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1))) : value,
    )
  } catch {
    return json
  }
}

/** True for a JSON object; false for arrays and null. */
export const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** An object as it is, an empty one for any other value. */
export const objectOf = (value: unknown): Record<string, unknown> => (isObject(value) ? value : {})

/** An array as it is, an empty one for any other value. */
export const arrayOf = (value: unknown): unknown[] => (Array.isArray(value) ? value : [])

/** The objects of an array. */
export const objectsOf = (value: unknown): Record<string, unknown>[] => arrayOf(value).filter(isObject)

/** A string as it is, '' for any other value: `String` throws for an object without a text. */
export const stringOf = (value: unknown): string => (typeof value === 'string' ? value : '')
