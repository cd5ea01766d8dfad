import type { Citation } from '../../generation/request.ts'
import { isObject } from '../fields.ts'
import { Offsets } from '../offsets.ts'

/**
 * What Google says of sources, as it comes in over a stream; read when the text is complete. Lives as long as one
 * answer.
 */
export class CitationReader {
  #grounding: Record<string, unknown> = {}
  #chunks: unknown[] = []
  readonly #supports = new Map<string, Record<string, unknown>>()
  readonly #sources = new Map<string, Record<string, unknown>>()
  readonly #queries = new Set<string>()

  /** Searches made so far. */
  get searches(): number {
    return this.#queries.size
  }

  /**
   * What more is said of the searches; a client of Google's shows it, and nobody else has a place for it. `cited`:
   * there is a text, for which the sources were read.
   */
  more(cited: boolean): [name: string, value: unknown][] {
    const unread = {
      groundingChunks: this.#chunks.filter((chunk) => !cited || sourceOf(chunk) === undefined),
      citationMetadata: cited ? [] : [...this.#sources.values()],
    }
    return Object.entries({ ...this.#grounding, ...unread }).filter(([, value]) =>
      isObject(value)
        ? Object.keys(value).length > 0
        : Array.isArray(value)
          ? value.length > 0
          : typeof value === 'string',
    )
  }

  record(candidate: Record<string, unknown>): void {
    const grounding = candidate['groundingMetadata']
    if (isObject(grounding)) this.#hearGrounding(grounding)
    const { urlContextMetadata } = candidate
    if (isObject(urlContextMetadata)) this.#grounding['urlContextMetadata'] = urlContextMetadata
    const citing = candidate['citationMetadata']
    if (!isObject(citing)) return
    for (const source of [...list(citing['citations']), ...list(citing['citationSources'])])
      if (isObject(source)) this.#sources.set(JSON.stringify(source), source)
  }

  /** Empty metadata may follow or go before the ones that say something. */
  #hearGrounding({ groundingChunks, groundingSupports, ...more }: Record<string, unknown>): void {
    Object.assign(this.#grounding, more)
    const chunks = list(groundingChunks)
    // Google's document has a stream tell only sources that are new; a server that tells them all again tells the old
    // ones first.
    const again = this.#chunks.every((known, index) => Bun.deepEquals(known, chunks[index]))
    this.#chunks = again ? chunks : [...this.#chunks, ...chunks]
    for (const support of list(groundingSupports))
      if (isObject(support)) this.#supports.set(JSON.stringify(support), support)
    for (const query of list(more['webSearchQueries'])) if (typeof query === 'string') this.#queries.add(query)
  }

  /**
   * Citations in the text from `base` on, which is the last text part's; those of earlier parts lose their place.
   * `parts`: where in the text each part of the wire begins.
   */
  read(text: string, base: number, parts: readonly number[]): Citation[] {
    if (this.#chunks.length + this.#sources.size === 0) return []
    const offsets = new Offsets(text, 'bytes')
    const placed = (segment: Record<string, unknown>): Pick<Citation, 'start' | 'end'> => {
      const range = find(segment, text, offsets, parts)
      return range === undefined || range.start < base ? {} : { start: range.start - base, end: range.end - base }
    }
    const citations: Citation[] = [...this.#sources.values()].map((source) => ({
      ...named(source['uri'], source['title']),
      ...placed({ startIndex: source['startIndex'], endIndex: source['endIndex'] }),
    }))
    const chunks = this.#chunks.map(sourceOf)
    const used = new Set<number>()
    for (const { segment, groundingChunkIndices } of this.#supports.values()) {
      if (!isObject(segment)) continue
      for (const index of list(groundingChunkIndices)) {
        const source = typeof index === 'number' ? chunks[index] : undefined
        if (source === undefined) continue
        used.add(index as number)
        citations.push({ ...source, ...placed(segment) })
      }
    }
    for (const [index, source] of chunks.entries()) if (source !== undefined && !used.has(index)) citations.push(source)
    return citations
  }
}

/** How far from its numbers a passage is looked for. */
const REACH = 20_000

/**
 * Where a passage stands. Google counts it in its part or in the whole text; its words of it win over its numbers,
 * which are off where it has read addresses.
 */
function find(
  { startIndex = 0, endIndex, partIndex = 0, text: words }: Record<string, unknown>,
  text: string,
  offsets: Offsets,
  parts: readonly number[],
): { start: number; end: number } | undefined {
  const before = offsets.written(typeof partIndex === 'number' ? (parts[partIndex] ?? 0) : 0)
  const inPart =
    typeof startIndex === 'number' && typeof endIndex === 'number'
      ? offsets.read(before + startIndex, before + endIndex)
      : undefined
  if (typeof words !== 'string' || words === '') return inPart
  const ranges = [inPart, offsets.read(startIndex, endIndex)].filter((range) => range !== undefined)
  const told = ranges.find(({ start, end }) => text.slice(start, end) === words)
  if (told !== undefined) return told
  const near = ranges[0]?.start ?? 0
  const from = Math.max(near - REACH, 0),
    within = text.slice(from, near + words.length + REACH)
  const found = [within.lastIndexOf(words, near - from), within.indexOf(words, near - from)]
    .filter((start) => start >= 0)
    .map((start) => from + start)
    .toSorted((a, b) => Math.abs(a - near) - Math.abs(b - near))[0]
  return found === undefined ? undefined : { start: found, end: found + words.length }
}

function sourceOf(chunk: unknown): Citation | undefined {
  if (!isObject(chunk)) return undefined
  const source = [chunk['web'], chunk['retrievedContext'], chunk['maps'], chunk['image']].find(isObject)
  return source === undefined
    ? undefined
    : {
        ...named(source['uri'] ?? source['sourceUri'], source['title']),
        ...(typeof source['text'] === 'string' ? { citedText: source['text'] } : {}),
      }
}

const named = (url: unknown, title: unknown): Citation => ({
  ...(typeof url === 'string' && url !== '' ? { url } : {}),
  ...(typeof title === 'string' && title !== '' ? { title } : {}),
})

const list = (value: unknown): unknown[] => (Array.isArray(value) ? value : [])
