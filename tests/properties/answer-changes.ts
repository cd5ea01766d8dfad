import type { Answer, FinishReason } from '../../src/generation/event.ts'
import { parseExact } from '../../src/json/exact.ts'
import type { Citation, ConversationName, Part, TextPart } from '../../src/generation/request.ts'
import { NATIVE_KINDS, present } from './answers.ts'
import { IDENTITY, type Way } from './protocol-pairs.ts'

/**
 * What each protocol makes of an answer: nothing but these changes, in this order. `told`: the field under which the
 * report names it
 * whenever it changes anything; absent: the same is said in another form, or the provider's own bookkeeping is left
 * behind.
 */
export type Change = { name: string; told?: string; make(answer: Answer): Answer }

type By = Record<ConversationName, Change[]>

const parts =
  (change: (part: Part, place: number, all: Part[]) => Part[]) =>
  (answer: Answer): Answer => ({ ...answer, parts: answer.parts.flatMap(change) })
const texts = (change: (part: TextPart, place: number, all: Part[]) => Part[]) =>
  parts((part, place, all) => (part.type === 'text' ? change(part, place, all) : [part]))
const citations = (change: (citation: Citation, of: TextPart) => Citation[]) =>
  texts((part) => {
    const { citations: cited = [], ...rest } = part
    const kept = cited.flatMap((one) => change(one, part))
    return [kept.length === 0 ? rest : { ...rest, citations: kept }]
  })
const usage =
  (change: (usage: Answer['usage']) => Partial<Answer['usage']>) =>
  (answer: Answer): Answer =>
    answer.metered ? { ...answer, usage: { ...answer.usage, ...change(answer.usage) } } : answer
const finish =
  (words: Partial<Record<FinishReason, FinishReason>>) =>
  (answer: Answer): Answer => ({
    ...answer,
    finish: { ...answer.finish, reason: words[answer.finish.reason] ?? answer.finish.reason },
  })
const isRefused = ({ parts: all }: Answer): boolean => all.some(({ type }) => type === 'refusal')

/** Names by which a provider knows its answers are not told: the client knows ours. */
const labelled: Change = { name: 'labelled', make: (answer) => ({ ...answer, id: IDENTITY.id, model: IDENTITY.model }) }

/**
 * What is compared: without the ids of thoughts, a protocol's own form of a citation and its words for an ending, which
 * are its bookkeeping.
 */
export const comparable = (answer: Answer): Answer => ({
  ...citations(({ native: _, ...rest }) => [rest])(
    parts((part) => {
      if (part.type !== 'reasoning') return [part]
      const { id: _, ...rest } = part
      return [rest]
    })(answer),
  ),
  finish: present({ ...answer.finish, raw: '', details: undefined }),
})

const withoutNative = (own?: ConversationName): Change[] =>
  Object.values(NATIVE_KINDS).map((kind) => ({
    name: 'without what only others know',
    told: `response.${kind}`,
    make: parts((part) => (part.type === 'native' && part.kind === kind && part.protocol !== own ? [] : [part])),
  }))

/** Texts of no character are no message. */
const withoutEmpty: Change = {
  name: 'without empty texts',
  make: parts((part) => (part.type === 'text' && part.text === '' && part.logprobs === undefined ? [] : [part])),
}

/** A call without arguments has an empty object of them. */
const emptyArguments: Change = {
  name: 'empty arguments are an object',
  make: parts((part) => [
    part.type === 'tool-call' && part.form === 'function' && part.arguments === ''
      ? { ...part, arguments: '{}' }
      : part,
  ]),
}

/** The text of an object, compact; a number may be an object too, as long as it is only passed on. */
const objectText = (text: string): string | undefined => {
  try {
    const compact = JSON.stringify(parseExact(text))
    return compact.startsWith('{') ? compact : undefined
  } catch {
    return undefined
  }
}

/** Where arguments are an object on the wire, spaces between members are nobody's. */
const argumentsAsObjects: Change[] = [
  {
    name: 'no half arguments',
    told: 'response.tool_calls.arguments',
    make: parts((part) => [
      part.type === 'tool-call' && part.form === 'function' && objectText(part.arguments) === undefined
        ? { ...part, arguments: '{}' }
        : part,
    ]),
  },
  {
    name: 'compact arguments',
    make: parts((part) => [
      part.type === 'tool-call' && part.form === 'function'
        ? { ...part, arguments: objectText(part.arguments)! }
        : part,
    ]),
  },
]

/** Neighbouring pieces of one kind are one text where the protocol has no border between them. */
const joined = (borders: (before: Part, part: Part) => boolean): Change => ({
  name: 'joined',
  make: (answer) => ({
    ...answer,
    parts: answer.parts.reduce<Part[]>((all, part) => {
      const before = all.at(-1)
      return before !== undefined && before.type === part.type && !borders(before, part)
        ? [...all.slice(0, -1), together(before, part)]
        : [...all, part]
    }, []),
  }),
})

function together(before: Part, part: Part): Part {
  if (before.type === 'reasoning' && part.type === 'reasoning') return { ...part, text: before.text + part.text }
  if (before.type === 'refusal' && part.type === 'refusal') return { type: 'refusal', text: before.text + part.text }
  if (before.type !== 'text' || part.type !== 'text') return part
  const shift = before.text.length
  const cited = [
    ...(before.citations ?? []),
    ...(part.citations ?? []).map((one) =>
      one.start === undefined ? one : { ...one, start: one.start + shift, end: one.end! + shift },
    ),
  ]
  const scored = [...(before.logprobs ?? []), ...(part.logprobs ?? [])]
  return {
    type: 'text',
    text: before.text + part.text,
    ...(cited.length === 0 ? {} : { citations: cited }),
    ...(scored.length === 0 ? {} : { logprobs: scored }),
  }
}

const onlyTexts = (before: Part, part: Part): boolean =>
  before.type !== part.type || (part.type !== 'text' && part.type !== 'refusal')

/** A message has a place for each kind of content. */
const inPlaces = (...order: Part['type'][]): Change => ({
  name: 'in places',
  make: (answer) => ({
    ...answer,
    parts: answer.parts.toSorted((a, b) => order.indexOf(a.type) - order.indexOf(b.type)),
  }),
})

/**
 * Google's citations follow the whole answer: those of an earlier text are known by what they rest on, and not by their
 * place.
 */
const citedAtTheEnd: Change = {
  name: 'cited at the end',
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

const withoutAddressless: Change = {
  name: 'only addresses are cited',
  told: 'response.citations',
  make: citations((one) => (one.url === undefined ? [] : [one])),
}
const citedSomewhere: Change = {
  name: 'without a place it is of all before it',
  told: 'response.citations',
  make: citations((one, of) => [
    one.url !== undefined && one.start === undefined ? { ...one, start: 0, end: of.text.length } : one,
  ]),
}
const withoutPassages: Change = {
  name: "without the source's words",
  make: citations(({ citedText: _, ...rest }) => [rest]),
}
const filesWithoutPlace: Change = {
  name: 'a source without an address is a file',
  told: 'response.citations',
  make: citations((one) => {
    const { start: _start, end: _end, ...rest } = one
    return [one.url === undefined ? rest : one]
  }),
}

const noLifetimes: Change = {
  name: 'one sum of all lifetimes',
  told: 'response.usage',
  make: usage((one) => ({
    cacheWrite5mTokens: one.cacheWrite5mTokens + one.cacheWrite1hTokens,
    cacheWrite1hTokens: 0,
  })),
}
/** Tokens of kinds that the protocol does not count apart are counted with the others. */
const noAudioInput: Change = {
  name: 'audio counts as input',
  make: usage((one) => ({ inputTokens: one.inputTokens + one.inputAudioTokens, inputAudioTokens: 0 })),
}
const noMediaOutput: Change = {
  name: 'media count as output',
  make: usage((one) => ({
    outputTokens: one.outputTokens + one.outputAudioTokens + one.outputImageTokens,
    outputAudioTokens: 0,
    outputImageTokens: 0,
  })),
}

const noStopSequence: Change = {
  name: 'which stop sequence',
  told: 'response.stop_sequence',
  make: ({ finish: { stopSequence: _, ...rest }, ...answer }) => ({ ...answer, finish: rest }),
}
/** Of a call the ending is told by the call, of a refusal in words by the words. */
const toldByContent = (words: Partial<Record<FinishReason, FinishReason>>): Change => ({
  name: 'endings told by content',
  make: (answer) =>
    answer.parts.some(({ type }) => type === 'tool-call') || isRefused(answer) ? answer : finish(words)(answer),
})

const forms = (change: (form: 'raw' | 'summary' | undefined) => 'raw' | 'summary' | undefined): Change => ({
  name: 'whose words the thoughts are',
  make: parts((part) => {
    if (part.type !== 'reasoning' || part.redacted === true) return [part]
    const { form, ...rest } = part
    const known = change(form)
    return [known === undefined ? rest : { ...rest, form: known }]
  }),
})

/** An encrypted entry stands behind the summary that it proves. */
const proofBehindSummary: Change = {
  name: 'proofs of summaries',
  make: parts((part) => {
    if (part.type !== 'reasoning' || part.form !== 'summary' || part.signature === undefined) return [part]
    const { signature, ...rest } = part
    return [rest, { type: 'reasoning', text: '', redacted: true, signature }]
  }),
}

const scores = (
  change: (one: NonNullable<TextPart['logprobs']>[number]) => NonNullable<TextPart['logprobs']>[number],
) => texts((part) => [part.logprobs === undefined ? part : { ...part, logprobs: part.logprobs.map(change) }])
const nullBytes: Change = {
  name: 'bytes nobody told are null',
  make: scores((one) => ({
    ...one,
    bytes: one.bytes ?? null,
    ...(one.top === undefined ? {} : { top: one.top.map((other) => ({ ...other, bytes: other.bytes ?? null })) }),
  })),
}
const textBytes: Change = {
  name: "bytes nobody told are the token's",
  make: scores((one) => ({
    ...one,
    bytes: one.bytes ?? [...Buffer.from(one.token)],
    top: (one.top ?? []).map((other) => ({ ...other, bytes: other.bytes ?? [...Buffer.from(other.token)] })),
  })),
}
const noBytes: Change = {
  name: 'no bytes of tokens',
  told: 'response.logprobs',
  make: scores(({ bytes: _, ...one }) => one),
}
const listedTop: Change = { name: 'alternatives are a list', make: scores((one) => ({ ...one, top: one.top ?? [] })) }
const noScores: Change = {
  name: 'no log probabilities',
  told: 'response.logprobs',
  make: texts(({ logprobs: _, ...part }) => [part]),
}

const replaced = (kind: 'image' | 'audio'): Change => ({
  name: `${kind} in words`,
  told: `response.${kind}`,
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
  told: 'response.audio',
  make: parts((part) => (part.type === 'audio' ? [] : [part])),
}

/** Sound and its transcript come mixed: the sound waits for the end. */
const audioLast: Change = {
  name: 'audio last',
  make: ({ parts: all, ...answer }) => ({
    ...answer,
    parts: [...all.filter(({ type }) => type !== 'audio'), ...all.filter(({ type }) => type === 'audio')],
  }),
}

const BEGIN = [labelled]

const CHAT = (way: Way): Change[] => [
  ...BEGIN,
  ...withoutNative(),
  emptyArguments,
  withoutAddressless,
  withoutPassages,
  forms((form) => (form === 'raw' ? undefined : form)),
  proofBehindSummary,
  withoutEmpty,
  ...(way === 'streamed'
    ? [audioLast, joined(onlyTexts)]
    : [inPlaces('reasoning', 'text', 'refusal', 'image', 'tool-call', 'audio'), joined(onlyTexts)]),
  nullBytes,
  noLifetimes,
  noStopSequence,
  toldByContent({ 'stop-sequence': 'stop', refusal: 'content-filter', pause: 'stop', other: 'stop' }),
]

const RESPONSES: Change[] = [
  ...BEGIN,
  ...withoutNative('responses'),
  emptyArguments,
  withoutAudio,
  forms((form) => form ?? 'summary'),
  withoutEmpty,
  textBytes,
  filesWithoutPlace,
  citedSomewhere,
  withoutPassages,
  noLifetimes,
  noAudioInput,
  noMediaOutput,
  noStopSequence,
  {
    name: 'refusals without words',
    told: 'response.finish_reason',
    make: (answer) =>
      isRefused(answer) ? answer : finish({ refusal: 'content-filter', pause: 'stop', other: 'stop' })(answer),
  },
  toldByContent({ 'stop-sequence': 'stop' }),
]

/**
 * A whole text is cut where what is cited begins and ends; what overlaps stays together, what has no place is of the
 * end.
 */
const inBlocks: Change = {
  name: 'in blocks',
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
      const here = [...own, ...(last ? cited.filter((one) => one.start === undefined) : [])]
      return { ...rest, text: text.slice(start, end), ...(here.length === 0 ? {} : { citations: here }) }
    })
  }),
}

const MESSAGES = (way: Way): Change[] => [
  ...BEGIN,
  ...withoutNative('messages'),
  emptyArguments,
  forms(() => undefined),
  noScores,
  replaced('image'),
  replaced('audio'),
  withoutEmpty,
  ...(way === 'whole' ? argumentsAsObjects : []),
  {
    name: 'a refusal is a text',
    make: parts((part) => [part.type === 'refusal' ? { type: 'text', text: part.text } : part]),
  },
  ...(way === 'whole' ? [inBlocks] : []),
  {
    name: 'only addresses are cited',
    told: 'response.citations',
    make: citations((one) => (one.url === undefined ? [] : [one])),
  },
  {
    name: 'citations of whole blocks',
    told: 'response.citations',
    make: citations((one, of) => [{ ...one, start: 0, end: of.text.length }]),
  },
  { name: 'words of the source, or none', make: citations((one) => [{ ...one, citedText: one.citedText ?? '' }]) },
  noAudioInput,
  noMediaOutput,
  { name: 'always metered', make: (answer) => ({ ...answer, metered: true }) },
  { name: 'endings', told: 'response.finish_reason', make: finish({ 'content-filter': 'refusal', other: 'stop' }) },
]

const readAnew: Change = {
  name: 'writes to caches are read anew',
  told: 'response.usage',
  make: usage((one) => ({
    inputTokens: one.inputTokens + one.cacheWrite5mTokens + one.cacheWrite1hTokens,
    cacheWrite5mTokens: 0,
    cacheWrite1hTokens: 0,
  })),
}
const noSearches: Change = {
  name: 'no number of searches',
  told: 'response.usage',
  make: usage(() => ({ webSearches: 0 })),
}

const passages: Change = {
  name: "without an address's words",
  told: 'response.citations',
  make: citations(({ citedText, ...one }) => [
    one.url === undefined && citedText !== undefined ? { ...one, citedText } : one,
  ]),
}
/** Sources are told once: one without a place only where it has no other. */
const sourcesOnce: Change = {
  name: 'sources once',
  make: (answer) => {
    const source = (one: Citation): string => JSON.stringify([one.url, one.title, one.citedText])
    const written = answer.parts.filter((part): part is TextPart => part.type === 'text')
    const cited = written.flatMap((part) => (part.citations ?? []).map((one) => ({ one, part })))
    const ranged = cited.filter(({ one }) => one.start !== undefined)
    const bare = cited.filter(
      ({ one }, place) =>
        one.start === undefined &&
        !ranged.some((other) => source(other.one) === source(one)) &&
        cited.findIndex((other) => source(other.one) === source(one)) === place,
    )
    return texts((part) => {
      const { citations: _, ...rest } = part
      const own = [...ranged, ...bare.map(({ one }) => ({ one, part: written.at(-1) }))]
        .filter((other) => other.part === part)
        .map(({ one }) => one)
      return [own.length === 0 ? rest : { ...rest, citations: own }]
    })(answer)
  },
}

/** Google's own streams end a thought with an empty piece that bears its signature. */
const proofBehindThoughts: Change = {
  name: 'a proof is of the thoughts before it',
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

/** A candidate has one list of log probabilities, of all its text. */
const scoredTogether: Change = {
  name: 'scored together',
  make: (answer) => {
    const all = answer.parts.flatMap((part) => (part.type === 'text' ? (part.logprobs ?? []) : []))
    const first = answer.parts.find(({ type }) => type === 'text')
    return texts(({ logprobs: _, ...part }, place) => [
      answer.parts[place] === first && all.length > 0 ? { ...part, logprobs: all } : part,
    ])(answer)
  },
}

const isSigned = (part: Part): boolean => 'signature' in part && part.signature !== undefined

const GEMINI = (way: Way): Change[] => [
  ...BEGIN,
  ...withoutNative('generateContent'),
  emptyArguments,
  ...argumentsAsObjects,
  noBytes,
  listedTop,
  {
    name: 'a refusal is a text',
    told: 'response.refusal',
    make: parts((part) => [part.type === 'refusal' ? { type: 'text', text: part.text } : part]),
  },
  forms(() => 'summary'),
  withoutEmpty,
  passages,
  proofBehindThoughts,
  joined(
    (before, part) =>
      isSigned(before) || (part.type !== 'text' && !(part.type === 'reasoning' && part.redacted !== true)),
  ),
  ...(way === 'whole' ? [scoredTogether] : []),
  sourcesOnce,
  citedAtTheEnd,
  readAnew,
  noSearches,
  noAudioInput,
  noStopSequence,
  { name: 'endings', told: 'response.finish_reason', make: finish({ refusal: 'content-filter' }) },
  toldByContent({ 'stop-sequence': 'stop', pause: 'other' }),
]

export const changesOf = (protocol: ConversationName, way: Way): Change[] =>
  (
    ({
      'chat.completions': CHAT(way),
      responses: RESPONSES,
      messages: MESSAGES(way),
      generateContent: GEMINI(way),
    }) satisfies By
  )[protocol]
