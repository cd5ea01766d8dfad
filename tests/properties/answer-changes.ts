import type { FinishReason } from '../../src/generation/event.ts'
import type { ConversationName, Part, TextPart } from '../../src/generation/request.ts'
import { type Change, citations, finish, isRefused, joined, parts, texts } from './answer-edits.ts'
import {
  cacheWritesAsInput,
  noCachedAudio,
  noCacheLifetimes,
  noMediaInput,
  noMediaOutput,
  noSearches,
  noVideoOutput,
} from './usage-changes.ts'
import { NATIVE_KINDS } from './answers.ts'
import {
  citationsAtTheEnd,
  distinctSources,
  filesWithoutRange,
  rangesOfWholeTexts,
  splitAtCitations,
  withoutCitedText,
  withoutCitedTextOfUrls,
  withoutUnlinkedSources,
} from './citation-changes.ts'
import { IDENTITY, type Way } from './protocol-pairs.ts'
import { argumentsAsObjects, compactArguments, emptyArguments, noIncompleteCalls } from './call-changes.ts'

/** The differences that each protocol makes to a response: these and no others, in this order. */

/** The provider's id and model are replaced by Sluice's. */
const identified: Change = {
  name: "Sluice's id and model",
  make: (answer) => ({ ...answer, id: IDENTITY.id, model: IDENTITY.model }),
}

const withoutNative = (own?: ConversationName): Change[] =>
  Object.values(NATIVE_KINDS).map((kind) => ({
    name: 'no content of other protocols',
    loss: ['response_content_native', `response.${kind}`],
    make: parts((part) => (part.type === 'native' && part.kind === kind && part.protocol !== own ? [] : [part])),
  }))

const withoutEmpty: Change = {
  name: 'no empty texts',
  make: parts((part) => (part.type === 'text' && part.text === '' && part.logprobs === undefined ? [] : [part])),
}

const isNoText = (before: Part, part: Part): boolean =>
  before.type !== part.type || (part.type !== 'text' && part.type !== 'refusal')

/** A message has one field for each type of content. */
const byType = (...order: Part['type'][]): Change => ({
  name: 'ordered by type',
  make: (answer) => ({
    ...answer,
    parts: answer.parts.toSorted((a, b) => order.indexOf(a.type) - order.indexOf(b.type)),
  }),
})

/** A message has one field for its parts of a type, before those of these types. */
const before = (type: 'reasoning' | 'text' | 'image', ...later: Part['type'][]): Change => ({
  name: `${type} before ${later.join()}`,
  loss: ['response_field_adjusted', `response.${type}`],
  make: (answer) => {
    const first = answer.parts.findIndex((part) => later.includes(part.type))
    const isAfter = (part: Part, at: number): boolean => first >= 0 && at > first && part.type === type
    const after = answer.parts.filter(isAfter)
    // A signature alone is not seen.
    if (after.every((part) => 'text' in part && part.text === '')) return answer
    return { ...answer, parts: answer.parts.filter((part, at) => !isAfter(part, at)).toSpliced(first, 0, ...after) }
  },
})
const inFieldOrder = [
  before('reasoning', 'text', 'image', 'tool-call'),
  before('text', 'image', 'tool-call'),
  before('image', 'tool-call'),
]

const noStopSequence: Change = {
  name: 'no stop sequence',
  loss: ['response_field_dropped', 'response.stop_sequence'],
  make: ({ finish: { stopSequence: _, ...rest }, ...answer }) => ({ ...answer, finish: rest }),
}
/** Responses with calls or a refusal text keep their finish reason. */
const finishesWithoutCalls = (reasons: Partial<Record<FinishReason, FinishReason>>): Change => ({
  name: 'finish reasons of responses without calls',
  make: (answer) =>
    answer.parts.some(({ type }) => type === 'tool-call') || isRefused(answer) ? answer : finish(reasons)(answer),
})

const reasoningForms = (change: (form: 'raw' | 'summary' | undefined) => 'raw' | 'summary' | undefined): Change => ({
  name: 'summaries and raw reasoning',
  make: parts((part) => {
    if (part.type !== 'reasoning' || part.redacted === true) return [part]
    const { form, ...rest } = part
    const known = change(form)
    return [known === undefined ? rest : { ...rest, form: known }]
  }),
})

/** The encrypted entry follows the summary that it signs. */
const signatureAfterSummary: Change = {
  name: 'signatures of summaries',
  make: parts((part) => {
    if (part.type !== 'reasoning' || part.form !== 'summary' || part.signature === undefined) return [part]
    const { signature, ...rest } = part
    return [rest, { type: 'reasoning', text: '', redacted: true, signature }]
  }),
}

const logprobs = (
  change: (one: NonNullable<TextPart['logprobs']>[number]) => NonNullable<TextPart['logprobs']>[number],
) => texts((part) => [part.logprobs === undefined ? part : { ...part, logprobs: part.logprobs.map(change) }])
const nullBytes: Change = {
  name: 'missing bytes are null',
  make: logprobs((one) => ({
    ...one,
    bytes: one.bytes ?? null,
    ...(one.top === undefined ? {} : { top: one.top.map((other) => ({ ...other, bytes: other.bytes ?? null })) }),
  })),
}
const textBytes: Change = {
  name: "missing bytes are the token's",
  make: logprobs((one) => ({
    ...one,
    bytes: one.bytes ?? [...Buffer.from(one.token)],
    top: (one.top ?? []).map((other) => ({ ...other, bytes: other.bytes ?? [...Buffer.from(other.token)] })),
  })),
}
const noBytes: Change = {
  name: 'no bytes of tokens',
  loss: ['response_field_adjusted', 'response.logprobs'],
  make: logprobs(({ bytes: _, ...one }) => one),
}
const listedTop: Change = { name: 'alternatives are a list', make: logprobs((one) => ({ ...one, top: one.top ?? [] })) }
const noLogprobs: Change = {
  name: 'no log probabilities',
  loss: ['response_field_dropped', 'response.logprobs'],
  make: texts(({ logprobs: _, ...part }) => [part]),
}

const replacedByText = (kind: 'image' | 'audio'): Change => ({
  name: `a text instead of ${kind}`,
  loss: ['response_content_dropped', `response.${kind}`],
  make: parts((part) =>
    part.type === kind && part.source.type === 'data'
      ? [
          {
            type: 'text',
            text: `[${kind}: ${part.source.mediaType}, which an answer of the messages API cannot carry]`,
          },
        ]
      : [part],
  ),
})
const withoutAudio: Change = {
  name: 'no audio',
  loss: ['response_content_dropped', 'response.audio'],
  make: parts((part) => (part.type === 'audio' ? [] : [part])),
}

/** Audio and its transcript are interleaved, so the audio part ends last. */
const audioLast: Change = {
  name: 'audio last',
  make: ({ parts: all, ...answer }) => ({
    ...answer,
    parts: [...all.filter(({ type }) => type !== 'audio'), ...all.filter(({ type }) => type === 'audio')],
  }),
}

const BEGIN = [identified]

const CHAT = (way: Way): Change[] => [
  ...BEGIN,
  ...withoutNative(),
  emptyArguments,
  withoutUnlinkedSources,
  withoutCitedText,
  reasoningForms((form) => (form === 'raw' ? undefined : form)),
  signatureAfterSummary,
  withoutEmpty,
  ...(way === 'streamed'
    ? [audioLast, joined(isNoText), citationsAtTheEnd]
    : [...inFieldOrder, byType('reasoning', 'text', 'refusal', 'image', 'tool-call', 'audio'), joined(isNoText)]),
  nullBytes,
  noCacheLifetimes,
  noCachedAudio,
  noVideoOutput,
  noStopSequence,
  finishesWithoutCalls({ 'stop-sequence': 'stop', refusal: 'content-filter', pause: 'stop', other: 'stop' }),
]

const RESPONSES: Change[] = [
  ...BEGIN,
  ...withoutNative('responses'),
  emptyArguments,
  withoutAudio,
  reasoningForms((form) => form ?? 'summary'),
  withoutEmpty,
  textBytes,
  filesWithoutRange,
  rangesOfWholeTexts,
  withoutCitedText,
  noCacheLifetimes,
  noCachedAudio,
  noMediaInput,
  noMediaOutput,
  noStopSequence,
  {
    name: 'finish reasons of responses without a refusal text',
    loss: ['response_finish_adjusted', 'response.finish_reason'],
    make: (answer) =>
      isRefused(answer) ? answer : finish({ refusal: 'content-filter', pause: 'stop', other: 'stop' })(answer),
  },
  finishesWithoutCalls({ 'stop-sequence': 'stop' }),
]

/** No block is white space alone. In a stream its citations are of the text before, if there is one. */
const noCitationsOfBlanks = (way: Way): Change => ({
  name: 'no citations of white space',
  loss: ['response_citation_dropped', 'response.citations'],
  make: citations((one, of, at, all) =>
    of.text.trim() !== '' || (way === 'streamed' && textBefore(all, at) !== undefined) ? [one] : [],
  ),
})

const blanksInTexts: Change = {
  name: 'white space before the text that follows, or none',
  make: (answer) => {
    let blank = ''
    return parts((part, at, all) => {
      const before = blank
      blank = part.type === 'text' && part.text.trim() === '' ? before + part.text : ''
      if (part.type !== 'text' || blank !== '') return blank === '' ? [part] : []
      const text = before + part.text
      const own = (part.citations ?? []).map((one) =>
        one.start === 0 && one.end === part.text.length ? { ...one, end: text.length } : one,
      )
      const cited = [...own, ...blanksAfter(all, at).flatMap(({ citations: more = [] }) => more)]
      return [{ ...part, text, ...(cited.length === 0 ? {} : { citations: cited }) }]
    })(answer)
  },
}

const isBlank = (part: Part): boolean => part.type === 'text' && part.text.trim() === ''

/** The text with more than white space before the one at this index, with no other part between them. */
function textBefore(all: readonly Part[], at: number): Part | undefined {
  const before = all.slice(0, at).findLast((part) => !isBlank(part))
  return before?.type === 'text' ? before : undefined
}

function blanksAfter(all: readonly Part[], at: number): TextPart[] {
  const after = all.slice(at + 1)
  const end = after.findIndex((part) => !isBlank(part))
  return after.slice(0, end === -1 ? undefined : end).filter((part) => part.type === 'text')
}

const MESSAGES = (way: Way): Change[] => [
  ...BEGIN,
  ...(way === 'streamed' ? [noCitationsOfBlanks(way)] : []),
  ...withoutNative('messages'),
  emptyArguments,
  reasoningForms(() => undefined),
  noLogprobs,
  withoutEmpty,
  ...(way === 'whole' ? argumentsAsObjects : []),
  ...(way === 'whole' ? [splitAtCitations, noCitationsOfBlanks(way)] : []),
  withoutUnlinkedSources,
  replacedByText('image'),
  replacedByText('audio'),
  {
    name: 'a refusal is a text',
    make: parts((part) => [part.type === 'refusal' ? { type: 'text', text: part.text } : part]),
  },
  blanksInTexts,
  {
    name: 'citations of whole blocks',
    loss: ['response_citation_adjusted', 'response.citations'],
    make: citations((one, of) => [{ ...one, start: 0, end: of.text.length }]),
  },
  {
    name: 'a cited text, at least an empty one',
    make: citations((one) => [{ ...one, citedText: one.citedText ?? '' }]),
  },
  noCachedAudio,
  noMediaInput,
  noMediaOutput,
  { name: 'usage is always reported', make: (answer) => ({ ...answer, metered: true }) },
  {
    name: 'finish reasons',
    loss: ['response_finish_adjusted', 'response.finish_reason'],
    make: finish({ 'content-filter': 'refusal', other: 'stop' }),
  },
]

/** Google's streams end reasoning with an empty part that has its signature. */
const signatureAfterReasoning: Change = {
  name: 'a signature belongs to the reasoning before it',
  make: (answer) => ({
    ...answer,
    parts: answer.parts.reduce<Part[]>((all, part) => {
      const before = all.at(-1)
      const proves =
        part.type === 'reasoning' &&
        part.redacted === true &&
        before?.type === 'reasoning' &&
        before.signature === undefined
      return proves ? [...all.slice(0, -1), { ...before, signature: part.signature! }] : [...all, part]
    }, []),
  }),
}

/** A candidate has one list of log probabilities for all of its text. */
const joinedLogprobs: Change = {
  name: 'one list of log probabilities',
  make: (answer) => {
    const all = answer.parts.flatMap((part) => (part.type === 'text' ? (part.logprobs ?? []) : []))
    const first = answer.parts.find(({ type }) => type === 'text')
    return texts(({ logprobs: _, ...part }, index) => [
      answer.parts[index] === first && all.length > 0 ? { ...part, logprobs: all } : part,
    ])(answer)
  },
}

const isSigned = (part: Part): boolean => 'signature' in part && part.signature !== undefined

const GEMINI = (way: Way): Change[] => [
  ...BEGIN,
  ...withoutNative('generateContent'),
  emptyArguments,
  noIncompleteCalls,
  compactArguments,
  noBytes,
  listedTop,
  {
    name: 'a refusal is a text',
    loss: ['response_content_as_text', 'response.refusal'],
    make: parts((part) => [part.type === 'refusal' ? { type: 'text', text: part.text } : part]),
  },
  reasoningForms(() => 'summary'),
  withoutEmpty,
  withoutCitedTextOfUrls,
  signatureAfterReasoning,
  joined(
    (before, part) =>
      isSigned(before) || (part.type !== 'text' && !(part.type === 'reasoning' && part.redacted !== true)),
  ),
  ...(way === 'whole' ? [joinedLogprobs] : []),
  distinctSources,
  citationsAtTheEnd,
  cacheWritesAsInput,
  noSearches,
  noStopSequence,
  {
    name: 'finish reasons',
    loss: ['response_finish_adjusted', 'response.finish_reason'],
    make: finish({ refusal: 'content-filter' }),
  },
  finishesWithoutCalls({ 'stop-sequence': 'stop', pause: 'other' }),
]

export const changesOf = (protocol: ConversationName, way: Way): Change[] =>
  (
    ({
      'chat.completions': CHAT(way),
      responses: RESPONSES,
      messages: MESSAGES(way),
      generateContent: GEMINI(way),
    }) satisfies Record<ConversationName, Change[]>
  )[protocol]
