import type { ReasoningPart } from '../../generation/request.ts'
import { FORMAT, nonEmpty, type Json } from './shapes.ts'

/** An encrypted entry, and what the text before it is. */
type Encrypted = 'encrypted' | 'summary'

/**
 * A signature with the format and id of its OpenRouter entry, which other protocols have no fields for. `encrypted`: it
 * is an entry of its own.
 */
export const withEntry = (data: string, { format, id }: Json, encrypted?: Encrypted): string =>
  nonEmpty(format) === undefined || format === FORMAT
    ? data
    : `${format as string}${encrypted === undefined ? '' : `;${encrypted}`}\0${nonEmpty(id) ?? ''}\0${data}`

type Entry = { data: string; format?: string; id?: string; encrypted?: Encrypted }

/** Undoes `withEntry`. */
function entryOf(signature: string): Entry {
  const [head, id, ...data] = signature.split('\0')
  if (data.length === 0) return { data: signature }
  const [, format, encrypted] = /^(.*?)(?:;(encrypted|summary))?$/s.exec(head!)!
  return {
    data: data.join('\0'),
    format: format!,
    ...(id === '' ? {} : { id: id! }),
    ...(encrypted === undefined ? {} : { encrypted: encrypted as Encrypted }),
  }
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
    const isSummary = part.form === 'summary' || signing(entries, index)?.encrypted === 'summary'
    if (!isSummary && part.redacted !== true && entry?.encrypted === undefined)
      return [
        { type: 'reasoning.text', text: part.text, ...(entry === undefined ? {} : { signature: entry.data }), ...rest },
      ]
    const text = isSummary
      ? { type: 'reasoning.summary', summary: part.text }
      : { type: 'reasoning.text', text: part.text }
    return [
      ...(part.text === '' ? [] : [{ ...text, ...rest }]),
      ...(entry === undefined ? [] : [{ type: 'reasoning.encrypted', data: entry.data, ...rest }]),
    ]
  })
}

/** The signature of a part or, where it has none, of the next part that has one. */
const signing = (entries: readonly (Entry | undefined)[], index: number): Entry | undefined =>
  entries.slice(index).find((entry) => entry !== undefined)

/** The member of a call in which Google's compatible endpoint keeps its signature. */
export const callSignature = (signature: string): Json => ({ google: { thought_signature: signature } })
