import type { ReasoningPart } from '../../generation/request.ts'
import { FORMAT, nonEmpty, type Json } from './shapes.ts'

/** A signature with the format and id of its OpenRouter entry, which other protocols have no fields for. */
export const withEntry = (data: string, { format, id }: Json): string =>
  nonEmpty(format) === undefined || format === FORMAT ? data : `${format as string}\0${nonEmpty(id) ?? ''}\0${data}`

/** Undoes `withEntry`. */
function entryOf(signature: string): { data: string; format?: string; id?: string } {
  const [format, id, ...data] = signature.split('\0')
  return data.length === 0
    ? { data: signature }
    : { data: data.join('\0'), format: format!, ...(id === '' ? {} : { id: id! }) }
}

/**
 * Earlier reasoning as `reasoning_details`. Unsigned entries get the format of the signed ones, since they came in one
 * response.
 */
export function writeEntries(parts: readonly ReasoningPart[]): Json[] {
  const entries = parts.map(({ signature }) => (signature === undefined ? undefined : entryOf(signature.data)))
  const format = entries.find((entry) => entry?.format !== undefined)?.format
  return parts.flatMap((part, index): Json[] => {
    const entry = entries[index]
    const id = entry?.id ?? part.id
    const rest = {
      ...(format === undefined ? {} : { format: entry?.format ?? format }),
      index,
      ...(id === undefined ? {} : { id }),
    }
    if (part.redacted !== true && part.form !== 'summary')
      return [
        { type: 'reasoning.text', text: part.text, ...(entry === undefined ? {} : { signature: entry.data }), ...rest },
      ]
    return [
      ...(part.text === '' ? [] : [{ type: 'reasoning.summary', summary: part.text, ...rest }]),
      ...(entry === undefined ? [] : [{ type: 'reasoning.encrypted', data: entry.data, ...rest }]),
    ]
  })
}

/** The member of a call in which Google's compatible endpoint keeps its signature. */
export const callSignature = (signature: string): Json => ({ google: { thought_signature: signature } })
