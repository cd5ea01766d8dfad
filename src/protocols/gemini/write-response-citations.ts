import type { Citation } from '../../generation/request.ts'
import { lose } from '../losses.ts'
import { TextOffsets } from '../offsets.ts'
import type { ResponseContext } from '../protocol.ts'

/**
 * A citation and the text in which Google counts its range: the part at `partIndex`, or, in a stream, all visible text.
 * `base`: where the cited part begins in it, in UTF-16 units.
 */
export type CitedText = { citation: Citation; text: string; base: number; partIndex?: number }

/** Nested segments repeat their text; beyond this number of UTF-16 units they are written without it. */
const MAX_SEGMENT_TEXT = 1_000_000

/** Without any of these a client could not recognize the source. */
const hasSource = ({ url, title, citedText }: Citation): boolean => (url ?? title ?? citedText) !== undefined

/**
 * Citations as `groundingMetadata`: each source once, and the segments that rest on it, in bytes of UTF-8. `native`:
 * metadata of a provider of this protocol by name, which citations do not have.
 */
export function writeGrounding(
  cited: readonly CitedText[],
  { urlContextMetadata, citationMetadata, groundingChunks, ...native }: Record<string, unknown> = {},
): Record<string, unknown> {
  const { chunks, supports } = writeSources(cited)
  const allChunks = Array.isArray(groundingChunks) ? [...chunks, ...(groundingChunks as unknown[])] : chunks
  const grounding = {
    ...(allChunks.length === 0 ? {} : { groundingChunks: allChunks }),
    ...(supports.length === 0 ? {} : { groundingSupports: supports }),
    ...native,
  }
  return {
    ...(Object.keys(grounding).length === 0 ? {} : { groundingMetadata: grounding }),
    ...(urlContextMetadata === undefined ? {} : { urlContextMetadata }),
    ...(citationMetadata === undefined ? {} : { citationMetadata: { citations: citationMetadata } }),
  }
}

function writeSources(cited: readonly CitedText[]): { chunks: unknown[]; supports: unknown[] } {
  const chunks: unknown[] = []
  const supports: unknown[] = []
  const indexes = new Map<string, number>()
  const offsetsOf = new Map<string, TextOffsets>()
  let segmentText = 0
  for (const { citation, text, base, partIndex } of cited) {
    if (!hasSource(citation)) continue
    const source = writeSource(citation)
    const key = JSON.stringify(source)
    const index = indexes.get(key) ?? chunks.push(source) - 1
    indexes.set(key, index)
    if (citation.start === undefined || citation.end === undefined) continue
    const [start, end] = [base + citation.start, base + citation.end]
    const offsets = offsetsOf.get(text) ?? new TextOffsets(text, 'bytes')
    offsetsOf.set(text, offsets)
    segmentText += end - start
    const segment = {
      ...(partIndex === undefined ? {} : { partIndex }),
      startIndex: offsets.toProtocol(start),
      endIndex: offsets.toProtocol(end),
      ...(segmentText > MAX_SEGMENT_TEXT ? {} : { text: text.slice(start, end) }),
    }
    supports.push({ segment, groundingChunkIndices: [index] })
  }
  return { chunks, supports }
}

const writeSource = ({ url, title, citedText }: Citation): Record<string, unknown> =>
  url === undefined
    ? {
        retrievedContext: {
          ...(title === undefined ? {} : { title }),
          ...(citedText === undefined ? {} : { text: citedText }),
        },
      }
    : { web: { uri: url, ...(title === undefined ? {} : { title }) } }

/** Reports what grounding metadata loses of a citation. One without a range is a source of the whole response. */
export function loseCitation(context: ResponseContext, citation: Citation): void {
  const { url, citedText, native } = citation
  if (!hasSource(citation)) lose(context, 'response_citation_dropped', 'citations', 'it has neither a URL nor a title')
  else if (url === undefined && native !== undefined)
    lose(context, 'response_citation_adjusted', 'citations', 'there is no field for the position in the source')
  else if (url !== undefined && citedText !== undefined)
    lose(context, 'response_citation_adjusted', 'citations', 'there is no field for the cited text')
}
