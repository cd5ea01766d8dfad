import type { Citation } from '../../generation/request.ts'
import { arrayOf, isObject } from '../../json/parse.ts'
import { TextOffsets } from '../offsets.ts'

type Range = { start: number; end: number }

/** Collects the sources and grounding metadata of one response. They are read when the text is complete. */
export class CitationReader {
  #metadata: Record<string, unknown> = {}
  #chunks: unknown[] = []
  readonly #supports = new Map<string, Record<string, unknown>>()
  readonly #sources = new Map<string, Record<string, unknown>>()
  readonly #queries = new Set<string>()

  /** The number of web searches so far. Google charges each query once, and none without text. */
  get searches(): number {
    return this.#queries.size
  }

  /**
   * The metadata that citations do not have, which only Google's protocol has fields for, with its names. `hasText`:
   * the response has text, so that its sources are citations.
   */
  metadata(hasText: boolean): [name: string, value: unknown][] {
    const uncited = {
      groundingChunks: this.#chunks.filter((chunk) => !hasText || readSource(chunk) === undefined),
      citationMetadata: hasText ? [] : [...this.#sources.values()],
    }
    return Object.entries({ ...this.#metadata, ...uncited }).filter(([, value]) =>
      isObject(value)
        ? Object.keys(value).length > 0
        : Array.isArray(value)
          ? value.length > 0
          : typeof value === 'string',
    )
  }

  record({ groundingMetadata, urlContextMetadata, citationMetadata }: Record<string, unknown>): void {
    if (isObject(groundingMetadata)) this.#recordGrounding(groundingMetadata)
    if (isObject(urlContextMetadata)) this.#metadata.urlContextMetadata = urlContextMetadata
    if (!isObject(citationMetadata)) return
    for (const source of [...arrayOf(citationMetadata.citations), ...arrayOf(citationMetadata.citationSources)])
      if (isObject(source)) this.#sources.set(JSON.stringify(source), source)
  }

  /** Metadata may be repeated, and may be empty in a later chunk. */
  #recordGrounding({ groundingChunks, groundingSupports, ...others }: Record<string, unknown>): void {
    Object.assign(this.#metadata, others)
    const chunks = arrayOf(groundingChunks)
    // Google documents that a stream sends only new sources; a server that repeats them sends the known ones first.
    const repeated = this.#chunks.every((known, index) => Bun.deepEquals(known, chunks[index]))
    this.#chunks = repeated ? chunks : [...this.#chunks, ...chunks]
    for (const support of arrayOf(groundingSupports))
      if (isObject(support)) this.#supports.set(JSON.stringify(support), support)
    for (const kind of ['webSearchQueries', 'imageSearchQueries'])
      for (const query of arrayOf(others[kind]))
        if (typeof query === 'string' && query !== '') this.#queries.add(`${kind} ${query}`)
  }

  /**
   * The citations of the last text part, which begins at `base` in the text of the response. Citations of earlier parts
   * come without a range. `partStarts`: where in the text each part that the provider sent begins.
   */
  read(text: string, base: number, partStarts: readonly number[]): Citation[] {
    if (this.#chunks.length + this.#sources.size === 0) return []
    const offsets = new TextOffsets(text, 'bytes')
    const rangeOf = (segment: Record<string, unknown>): Partial<Range> => {
      const range = findSegment(segment, text, offsets, partStarts)
      return range === undefined || range.start < base ? {} : { start: range.start - base, end: range.end - base }
    }
    const citations: Citation[] = [...this.#sources.values()].map(({ uri, title, startIndex, endIndex }) => ({
      ...urlAndTitle(uri, title),
      ...rangeOf({ startIndex, endIndex }),
    }))
    const sources = this.#chunks.map(readSource)
    const used = new Set<number>()
    for (const { segment, groundingChunkIndices } of this.#supports.values()) {
      if (!isObject(segment)) continue
      for (const index of arrayOf(groundingChunkIndices)) {
        const source = typeof index === 'number' ? sources[index] : undefined
        if (source === undefined) continue
        used.add(index as number)
        citations.push({ ...source, ...rangeOf(segment) })
      }
    }
    for (const [index, source] of sources.entries())
      if (source !== undefined && !used.has(index)) citations.push(source)
    return citations
  }
}

/** The distance from its offsets at which the text of a segment is searched, in UTF-16 units. */
const SEARCH_DISTANCE = 20_000

/**
 * The range of a segment. Google counts its offsets in the part or in the whole text. Its text takes precedence, since
 * the offsets are wrong in responses whose URLs Google replaced.
 */
function findSegment(
  { startIndex = 0, endIndex, partIndex = 0, text: segmentText }: Record<string, unknown>,
  text: string,
  offsets: TextOffsets,
  partStarts: readonly number[],
): Range | undefined {
  const before = offsets.toProtocol(typeof partIndex === 'number' ? (partStarts[partIndex] ?? 0) : 0)
  const inPart =
    typeof startIndex === 'number' && typeof endIndex === 'number'
      ? offsets.fromProtocol(before + startIndex, before + endIndex)
      : undefined
  if (typeof segmentText !== 'string' || segmentText === '') return inPart
  const ranges = [inPart, offsets.fromProtocol(startIndex, endIndex)].filter((range) => range !== undefined)
  return (
    ranges.find(({ start, end }) => text.slice(start, end) === segmentText) ??
    findNear(text, segmentText, ranges[0]?.start ?? 0)
  )
}

/** The occurrence of a segment's text that is nearest to an offset. */
function findNear(text: string, segmentText: string, offset: number): Range | undefined {
  const from = Math.max(offset - SEARCH_DISTANCE, 0)
  const window = text.slice(from, offset + segmentText.length + SEARCH_DISTANCE)
  const start = [window.lastIndexOf(segmentText, offset - from), window.indexOf(segmentText, offset - from)]
    .filter((index) => index >= 0)
    .map((index) => from + index)
    .toSorted((a, b) => Math.abs(a - offset) - Math.abs(b - offset))[0]
  return start === undefined ? undefined : { start, end: start + segmentText.length }
}

function readSource(chunk: unknown): Citation | undefined {
  if (!isObject(chunk)) return undefined
  const source = [chunk.web, chunk.retrievedContext, chunk.maps, chunk.image].find(isObject)
  return source === undefined
    ? undefined
    : {
        ...urlAndTitle(source.uri ?? source.sourceUri, source.title),
        ...(typeof source.text === 'string' ? { citedText: source.text } : {}),
      }
}

const urlAndTitle = (url: unknown, title: unknown): Citation => ({
  ...(typeof url === 'string' && url !== '' ? { url } : {}),
  ...(typeof title === 'string' && title !== '' ? { title } : {}),
})
