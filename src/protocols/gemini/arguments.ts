import { isRawJson, parseExact } from '../../json/exact.ts'
import { isObject } from '../fields.ts'

/**
 * Argument text -> the `args` object, key order and number spelling kept; undefined for text that is no object (cut, or
 * invalid).
 */
export function writeArguments(text: string, form: 'function' | 'custom'): Record<string, unknown> | undefined {
  if (form === 'custom') return { input: text }
  return text.trim() === '' ? {} : readObject(text)
}

/** The object that a text is the JSON of, if it is one. */
export function readObject(text: string): Record<string, unknown> | undefined {
  try {
    const value = parseExact(text)
    return isObject(value) && !isRawJson(value) ? value : undefined
  } catch (error) {
    if (error instanceof SyntaxError) return undefined
    throw error
  }
}
