import { FORMAT, words, type Json } from './shapes.ts'

/** A signature with what else OpenRouter wants back in its entry, and other protocols have no place for. */
export const withEntry = (data: string, { format, id }: Json): string =>
  words(format) === undefined || format === FORMAT ? data : `${format as string}\0${words(id) ?? ''}\0${data}`

/** Undoes `withEntry`. */
export function entryOf(signature: string): { data: string; format?: string; id?: string } {
  const [format, id, ...data] = signature.split('\0')
  return data.length === 0
    ? { data: signature }
    : { data: data.join('\0'), format: format!, ...(id === '' ? {} : { id: id! }) }
}
