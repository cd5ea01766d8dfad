import type { Citation } from '../../generation/request.ts'
import type { Json } from './shapes.ts'

const TYPES: readonly unknown[] = [
  'char_location',
  'page_location',
  'content_block_location',
  'web_search_result_location',
  'search_result_location',
]

/** A citation of a text block. `length`: of the text, all of which it covers; known once the block is complete. */
export function readCitation(native: Json, length?: number): Citation {
  const text = (...names: string[]): string | undefined =>
    names.map((name) => native[name]).find((value) => typeof value === 'string')
  const url = text('url', 'source')
  const title = text('title', 'document_title')
  const citedText = text('cited_text')
  return {
    ...(url === undefined ? {} : { url }),
    ...(title === undefined ? {} : { title }),
    ...(citedText === undefined ? {} : { citedText }),
    ...(length === undefined ? {} : { start: 0, end: length }),
    native,
  }
}

/**
 * The citation object; undefined for a citation without a URL, which this protocol cannot represent. One of another
 * protocol becomes a web search result without the index of Anthropic's own search (`encrypted_index` is empty).
 */
export function writeCitation(citation: Citation): Json | undefined {
  const { native } = citation
  if (typeof native === 'object' && native !== null && 'type' in native && TYPES.includes(native.type))
    return native as Json
  if (citation.url === undefined) return undefined
  return {
    type: 'web_search_result_location',
    url: citation.url,
    title: citation.title ?? null,
    cited_text: citation.citedText ?? '',
    encrypted_index: '',
  }
}

/** A piece of a text with its citations. `isWider`: it is longer than what they cite. */
type Passage = { text: string; citations: Citation[]; isWider: boolean }

/**
 * A text cut where cited passages begin and end. Ranges that overlap without being the same are one passage; citations
 * without a range belong to the last.
 */
export function passagesOf(text: string, citations: readonly Citation[]): Passage[] {
  const passages: Passage[] = []
  let position = 0
  const cut = (end: number, cited: Citation[] = [], isWider = false): void => {
    if (end > position) passages.push({ text: text.slice(position, end), citations: cited, isWider })
    position = Math.max(position, end)
  }
  for (const { start, end, citations: cited, isWider } of rangesOf(citations)) {
    cut(start)
    cut(end, cited, isWider)
  }
  cut(text.length)
  const withoutRange = citations.filter(({ start }) => start === undefined)
  const last = passages.at(-1)
  if (last !== undefined && withoutRange.length > 0)
    Object.assign(last, { citations: [...last.citations, ...withoutRange], isWider: true })
  return passages
}

type CitedRange = { start: number; end: number; citations: Citation[]; isWider: boolean }

/** The cited ranges in order; overlapping ones are joined. */
function rangesOf(citations: readonly Citation[]): CitedRange[] {
  const ranges: CitedRange[] = []
  for (const citation of citations.toSorted((a, b) => (a.start ?? 0) - (b.start ?? 0))) {
    const { start, end } = citation
    if (start === undefined || end === undefined) continue
    const last = ranges.at(-1)
    if (last === undefined || start >= last.end) {
      ranges.push({ start, end, citations: [citation], isWider: false })
      continue
    }
    last.isWider ||= start !== last.start || end !== last.end
    last.end = Math.max(last.end, end)
    last.citations.push(citation)
  }
  return ranges
}
