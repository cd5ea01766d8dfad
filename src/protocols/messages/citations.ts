import type { Citation } from '../../generation/request.ts'
import type { Json } from './shapes.ts'

const KINDS: readonly unknown[] = [
  'char_location',
  'page_location',
  'content_block_location',
  'web_search_result_location',
  'search_result_location',
]

/**
 * A citation of a text block. It covers the block's whole text, whose length the reader knows once the block is
 * complete.
 */
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
 * The wire's citation; undefined where this protocol has no form for it (no address). One of another protocol becomes a
 * web search
 * result without the index that Anthropic's own search would give (`encrypted_index` empty).
 */
export function writeCitation(citation: Citation): Json | undefined {
  const { native } = citation
  if (typeof native === 'object' && native !== null && 'type' in native && KINDS.includes(native.type))
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

/** A piece of a text with its citations. `whole`: they stand at more than they cite. */
export type Piece = { text: string; citations: Citation[]; whole: boolean }

/**
 * Cuts a text where what is cited begins and ends. Ranges that overlap without being the same are one piece; what names
 * no place stands at the last.
 */
export function piecesOf(text: string, citations: readonly Citation[]): Piece[] {
  const pieces: Piece[] = []
  let told = 0
  const tell = (end: number, cited: Citation[] = [], whole = false): void => {
    if (end > told) pieces.push({ text: text.slice(told, end), citations: cited, whole })
    told = Math.max(told, end)
  }
  for (const { start, end, citations: cited, whole } of rangesOf(citations)) {
    tell(start)
    tell(end, cited, whole)
  }
  tell(text.length)
  const unplaced = citations.filter((citation) => citation.start === undefined)
  const last = pieces.at(-1)
  if (last !== undefined && unplaced.length > 0)
    Object.assign(last, { citations: [...last.citations, ...unplaced], whole: true })
  return pieces
}

/** What is cited, in order. */
function rangesOf(
  citations: readonly Citation[],
): { start: number; end: number; citations: Citation[]; whole: boolean }[] {
  const ranges: ReturnType<typeof rangesOf> = []
  for (const citation of citations.toSorted((a, b) => (a.start ?? 0) - (b.start ?? 0))) {
    const { start, end } = citation
    if (start === undefined || end === undefined) continue
    const last = ranges.at(-1)
    if (last === undefined || start >= last.end) {
      ranges.push({ start, end, citations: [citation], whole: false })
      continue
    }
    last.whole ||= start !== last.start || end !== last.end
    last.end = Math.max(last.end, end)
    last.citations.push(citation)
  }
  return ranges
}
