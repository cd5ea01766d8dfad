import type { Citation } from '../../generation/request.ts'
import { isObject } from '../fields.ts'

/** What Google says of sources, as it comes in over a stream; read when the text is complete. Lives as long as one answer. */
export class CitationReader {
  #grounding: Record<string, unknown> | undefined
  readonly #sources = new Map<string, Record<string, unknown>>()
  readonly #queries = new Set<string>()

  /** Searches made so far. */
  get searches(): number {
    return this.#queries.size
  }

  hear(candidate: Record<string, unknown>): void {
    const grounding = candidate['groundingMetadata']
    // Empty metadata may follow or go before the ones that say something.
    if (isObject(grounding)) this.#grounding = { ...this.#grounding, ...grounding }
    for (const query of list(isObject(grounding) ? grounding['webSearchQueries'] : undefined)) if (typeof query === 'string') this.#queries.add(query)
    const citing = candidate['citationMetadata']
    if (!isObject(citing)) return
    for (const source of [...list(citing['citations']), ...list(citing['citationSources'])]) if (isObject(source)) this.#sources.set(JSON.stringify(source), source)
  }

  /** Citations in the text from `base` on, which is the last text part's; those of earlier parts keep their passage but lose their place. */
  read(text: string, base: number): Citation[] {
    const bytes = Buffer.from(text)
    const placed = (start: unknown, end: unknown, passage?: unknown): Pick<Citation, 'start' | 'end' | 'citedText'> => place(text, bytes, base, number(start) ?? 0, number(end), passage)
    const citations: Citation[] = []
    for (const source of this.#sources.values()) {
      citations.push({ ...named(source['uri'], source['title']), ...placed(source['startIndex'], source['endIndex']) })
    }
    const chunks = list(this.#grounding?.['groundingChunks']).map(sourceOf)
    const used = new Set<number>()
    for (const support of list(this.#grounding?.['groundingSupports'])) {
      if (!isObject(support) || !isObject(support['segment'])) continue
      const { segment } = support
      for (const index of list(support['groundingChunkIndices'])) {
        const source = typeof index === 'number' ? chunks[index] : undefined
        if (source === undefined) continue
        used.add(index as number)
        citations.push({ ...source, ...placed(segment['startIndex'], segment['endIndex'], segment['text']) })
      }
    }
    for (const [index, source] of chunks.entries()) if (source !== undefined && !used.has(index)) citations.push(source)
    return citations
  }
}

/** A byte range -> UTF-16 units of the last text part. Google's own words of the passage win over its numbers, which are off where an answer has several parts. */
function place(text: string, bytes: Buffer, base: number, startByte: number, endByte: number | undefined, passage: unknown): Pick<Citation, 'start' | 'end' | 'citedText'> {
  if (endByte === undefined && typeof passage !== 'string') return {}
  let start = bytes.subarray(0, startByte).toString().length
  let end = endByte === undefined ? start : bytes.subarray(0, endByte).toString().length
  if (typeof passage === 'string' && text.slice(start, end) !== passage) {
    start = text.indexOf(passage)
    end = start + passage.length
    if (start < 0) return { citedText: passage }
  }
  if (end > text.length || start >= end) return {}
  const citedText = text.slice(start, end)
  return start < base ? { citedText } : { start: start - base, end: end - base, citedText }
}

function sourceOf(chunk: unknown): Citation | undefined {
  if (!isObject(chunk)) return undefined
  const source = [chunk['web'], chunk['retrievedContext'], chunk['maps']].find(isObject)
  return source === undefined ? undefined : named(source['uri'], source['title'])
}

const named = (url: unknown, title: unknown): Citation =>
  ({ ...(typeof url === 'string' && url !== '' ? { url } : {}), ...(typeof title === 'string' && title !== '' ? { title } : {}) })

const list = (value: unknown): unknown[] => Array.isArray(value) ? value : []
const number = (value: unknown): number | undefined => typeof value === 'number' && Number.isInteger(value) && value >= 0 ? value : undefined
