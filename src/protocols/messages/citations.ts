import type { Citation } from '../../generation/request.ts'
import type { Json } from './shapes.ts'

const KINDS: readonly unknown[] = ['char_location', 'page_location', 'content_block_location', 'web_search_result_location', 'search_result_location']

/** A citation of a text block. It covers the block's whole text, whose length the reader knows once the block is complete. */
export function readCitation(native: Json, length?: number): Citation {
  const text = (...names: string[]): string | undefined => names.map((name) => native[name]).find((value) => typeof value === 'string')
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
 * The wire's citation; undefined where this protocol has no form for it (no address). One of another protocol becomes a web search
 * result without the index that Anthropic's own search would give (`encrypted_index` empty).
 */
export function writeCitation(citation: Citation): Json | undefined {
  const { native } = citation
  if (typeof native === 'object' && native !== null && 'type' in native && KINDS.includes(native.type)) return native as Json
  if (citation.url === undefined) return undefined
  return { type: 'web_search_result_location', url: citation.url, title: citation.title ?? null, cited_text: citation.citedText ?? '', encrypted_index: '' }
}
