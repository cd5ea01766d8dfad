import type { Citation, TextPart } from '../../src/generation/request.ts'
import { type Change, citations, texts } from './answer-edits.ts'

/** Differences in citations. */

/**
 * Citations of Google, and in streams of chat completions, follow the whole response: read again, those of an earlier
 * text have a source, but no range.
 */
export const citationsAtTheEnd: Change = {
  name: 'citations at the end of the response',
  make: (answer) => {
    const written = answer.parts.filter((part): part is TextPart => part.type === 'text')
    const last = written.at(-1)
    if (last === undefined) return answer
    const cited = written.flatMap((part) =>
      (part.citations ?? []).map((one) => {
        if (part === last) return one
        const { start: _start, end: _end, ...rest } = one
        return rest
      }),
    )
    return texts((part) => {
      const { citations: _, ...rest } = part
      return [part === last && cited.length > 0 ? { ...rest, citations: cited } : rest]
    })(answer)
  },
}

export const withoutUnlinkedSources: Change = {
  name: 'no sources without a URL',
  loss: ['response_citation_dropped', 'response.citations'],
  make: citations((one) => (one.url === undefined ? [] : [one])),
}
export const rangesOfWholeTexts: Change = {
  name: 'a citation without a range is of the whole text before it',
  loss: ['response_citation_adjusted', 'response.citations'],
  make: citations((one, of) => [
    one.url !== undefined && one.start === undefined ? { ...one, start: 0, end: of.text.length } : one,
  ]),
}
export const withoutCitedText: Change = {
  name: 'no cited text',
  make: citations(({ citedText: _, ...rest }) => [rest]),
}
export const filesWithoutRange: Change = {
  name: 'a source without a URL is a file without a range',
  loss: ['response_citation_adjusted', 'response.citations'],
  make: citations((one) => {
    const { start: _start, end: _end, ...rest } = one
    return [one.url === undefined ? rest : one]
  }),
}

/**
 * A whole text is split at the edges of cited ranges. Overlapping ranges stay together; citations without a range
 * belong to the last block.
 */
export const splitAtCitations: Change = {
  name: 'a block for each cited range',
  make: texts((part) => {
    const { citations: cited = [], text, ...rest } = part
    const inside = (at: number): boolean =>
      cited.some(({ start, end }) => start !== undefined && start < at && at < end!)
    const edges = [
      ...new Set([0, text.length, ...cited.flatMap(({ start, end }) => (start === undefined ? [] : [start, end!]))]),
    ]
      .filter((at) => !inside(at))
      .toSorted((a, b) => a - b)
    return edges.slice(1).map((end, index) => {
      const start = edges[index]!
      const last = end === text.length
      const own = cited
        .filter((one) => one.start !== undefined && one.start >= start && one.end! <= end)
        .toSorted((a, b) => a.start! - b.start!)
        .map((one) => ({ ...one, start: one.start! - start, end: one.end! - start }))
      const inBlock = [...own, ...(last ? cited.filter((one) => one.start === undefined) : [])]
      return { ...rest, text: text.slice(start, end), ...(inBlock.length === 0 ? {} : { citations: inBlock }) }
    })
  }),
}

export const withoutCitedTextOfUrls: Change = {
  name: 'no cited text of URLs',
  loss: ['response_citation_adjusted', 'response.citations'],
  make: citations(({ citedText, ...one }) => [
    one.url === undefined && citedText !== undefined ? { ...one, citedText } : one,
  ]),
}
/** Each source is cited once without a range, and only if it has no range elsewhere. */
export const distinctSources: Change = {
  name: 'each source once',
  make: (answer) => {
    const source = (one: Citation): string => JSON.stringify([one.url, one.title, one.citedText])
    const written = answer.parts.filter((part): part is TextPart => part.type === 'text')
    const cited = written.flatMap((part) => (part.citations ?? []).map((one) => ({ one, part })))
    const ranged = cited.filter(({ one }) => one.start !== undefined)
    const withoutRange = cited.filter(
      ({ one }, index) =>
        one.start === undefined &&
        !ranged.some((other) => source(other.one) === source(one)) &&
        cited.findIndex((other) => source(other.one) === source(one)) === index,
    )
    return texts((part) => {
      const { citations: _, ...rest } = part
      const own = [...ranged, ...withoutRange.map(({ one }) => ({ one, part: written.at(-1) }))]
        .filter((other) => other.part === part)
        .map(({ one }) => one)
      return [own.length === 0 ? rest : { ...rest, citations: own }]
    })(answer)
  },
}
