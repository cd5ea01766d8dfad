import fc from 'fast-check'
import { unfold, type GenerationResponse, type FinishReason, type GenerationEvent } from '../../src/generation/event.ts'
import type { Citation, Part, TextPart, TokenLogprob } from '../../src/generation/request.ts'
import { IMAGE_TOOL_BUCKETS, noUsage, type Usage } from '../../src/generation/usage.ts'
import { NAMES } from './protocol-pairs.ts'

/** Responses of every kind, and the streams of events in which they may arrive. */

const ODD = [
  '\r\n',
  '\n\ndata: {"x":1}\n\n',
  'data: [DONE]',
  '[DONE]',
  '"\\',
  '\u2028\u2029',
  '\0\u001b',
  '😀😀',
  'e\u0301',
  '\ufeff',
  '</think>',
  '{"input":"x"}',
  '  ',
  '1e400',
  '__proto__',
  'Ünïcödé 漢字',
]
export const text: fc.Arbitrary<string> = fc.oneof(
  { weight: 4, arbitrary: fc.string({ unit: 'grapheme', maxLength: 12 }) },
  {
    weight: 2,
    arbitrary: fc.tuple(fc.constantFrom(...ODD), fc.string({ maxLength: 3 })).map(([odd, rest]) => odd + rest),
  },
)
export const nonEmptyText = text.filter((one) => one.trim() !== '')
const base64 = fc.uint8Array({ minLength: 1, maxLength: 9 }).map((bytes) => Buffer.from(bytes).toString('base64'))
/** Signatures of providers: opaque, often base64. */
export const signature = fc.oneof(base64, fc.constantFrom('a+b/c==', 'sig-1', 'Ä'))

/**
 * JSON objects as models write them: numbers that a double cannot represent, white space, and names that are special in
 * JavaScript.
 */
export const argumentsText = fc.oneof(
  fc
    .dictionary(
      fc.oneof(fc.constantFrom('city', 'b', 'a', '__proto__', 'toString', 'input', 'args'), text),
      fc.oneof(
        text,
        fc.integer(),
        fc.boolean(),
        fc.constant(null),
        fc.array(fc.nat(9), { maxLength: 2 }),
        fc.constant({ inner: [{}] }),
      ),
      { maxKeys: 3, noNullPrototype: true },
    )
    .map((value) => JSON.stringify(value)),
  fc.constantFrom(
    '{"n":12345678901234567890,"m":0.10,"k":1e2}',
    '{ "city" : "Paris" }',
    '{}',
    '{"args":{"args":1.0}}',
    '{"input":-0}',
    '{"a":"\\"}","b":"\\\\"}',
  ),
)
const cutArguments = fc.constantFrom('{"city":"Par', '{"a":[1,', '"text"', '{"a":1}}', '5', '1.0')

const token: fc.Arbitrary<TokenLogprob> = fc
  .record({
    token: nonEmptyText,
    logprob: fc.integer({ min: -9, max: 0 }),
    bytes: fc.option(fc.array(fc.nat(255), { minLength: 1, maxLength: 3 }), { nil: undefined }),
    top: fc.option(
      fc.array(fc.record({ token: nonEmptyText, logprob: fc.integer({ min: -9, max: 0 }) }), {
        minLength: 1,
        maxLength: 2,
      }),
      { nil: undefined },
    ),
  })
  .map(present)

const citation = (of: string): fc.Arbitrary<Citation> =>
  fc
    .record({
      url: fc.option(fc.webUrl(), { nil: undefined, freq: 6 }),
      title: fc.option(nonEmptyText, { nil: undefined }),
      citedText: fc.option(nonEmptyText, { nil: undefined, freq: 2 }),
      range: fc.option(fc.tuple(fc.nat(20), fc.nat(20)), { nil: undefined, freq: 4 }),
    })
    .map(({ range, url, ...rest }) =>
      present({ ...rest, ...(url === undefined ? { title: rest.title ?? 'a.pdf' } : { url }), ...rangeIn(of, range) }),
    )

/** A range that splits no character. */
function rangeIn(of: string, range: [number, number] | undefined): { start?: number; end?: number } {
  const edges = [...of].reduce((found, character) => [...found, found.at(-1)! + character.length], [0])
  if (range === undefined || edges.length < 2) return {}
  const start = range[0] % (edges.length - 1)
  return { start: edges[start]!, end: edges[start + 1 + (range[1] % (edges.length - 1 - start))]! }
}

const plainText: fc.Arbitrary<TextPart> = text.chain((one) =>
  fc
    .array(citation(one), { maxLength: one === '' ? 0 : 2 })
    .map((citations) => ({ type: 'text', text: one, ...(citations.length === 0 ? {} : { citations }) })),
)
const scoredText: fc.Arbitrary<TextPart> = fc
  .array(token, { minLength: 1, maxLength: 3 })
  .map((logprobs) => ({ type: 'text', text: logprobs.map((one) => one.token).join(''), logprobs }))
const reasoning: fc.Arbitrary<Part> = fc
  .oneof(
    fc.record({
      type: fc.constant('reasoning' as const),
      text: nonEmptyText,
      form: fc.constantFrom(undefined, 'raw' as const, 'summary' as const),
      signature: fc.option(
        signature.map((data) => ({ data })),
        { nil: undefined },
      ),
      id: fc.constantFrom(undefined, 'rs_1'),
    }),
    signature.map((data): Part => ({ type: 'reasoning', text: '', redacted: true, signature: { data } })),
  )
  .map(present)
const call: fc.Arbitrary<Part> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc
      .tuple(
        fc.constantFrom('look_up', 'say'),
        fc.oneof(
          { weight: 8, arbitrary: argumentsText },
          { weight: 1, arbitrary: fc.constant('') },
          { weight: 1, arbitrary: cutArguments },
        ),
      )
      .map(([name, args]): Part => ({ type: 'tool-call', id: 'call', name, arguments: args, form: 'function' })),
  },
  {
    weight: 1,
    arbitrary: text.map(
      (input): Part => ({ type: 'tool-call', id: 'call', name: 'draw', arguments: input, form: 'custom' }),
    ),
  },
)
const image: fc.Arbitrary<Part> = fc
  .tuple(fc.constantFrom('image/png', 'image/jpeg', 'image/webp'), base64)
  .map(([mediaType, data]) => ({ type: 'image', source: { type: 'data', mediaType, data } }))
const audio: fc.Arbitrary<Part> = base64.map((data) => ({
  type: 'audio',
  source: { type: 'data', mediaType: 'audio/wav', data },
}))
const native: fc.Arbitrary<Part> = fc
  .constantFrom(...NAMES)
  .map((protocol) => ({ type: 'native', protocol, kind: NATIVE_KINDS[protocol], value: NATIVE_VALUES[protocol] }))
export const NATIVE_KINDS = {
  'chat.completions': 'image_url',
  responses: 'web_search_call',
  messages: 'server_tool_use',
  generateContent: 'executableCode',
}
const NATIVE_VALUES = {
  'chat.completions': { type: 'image_url', image_url: { url: 'https://example.com/a.png' } },
  responses: {
    type: 'web_search_call',
    id: 'ws_1',
    status: 'completed',
    action: { type: 'open_page', url: 'https://example.com' },
  },
  messages: { type: 'server_tool_use', id: 'srvtoolu_1', name: 'code_execution', input: { code: '1' } },
  generateContent: { executableCode: { language: 'PYTHON', code: '1' } },
}

const part = fc.oneof(
  { weight: 5, arbitrary: plainText },
  { weight: 2, arbitrary: scoredText },
  { weight: 4, arbitrary: reasoning },
  { weight: 1, arbitrary: nonEmptyText.map((one): Part => ({ type: 'refusal', text: one })) },
  { weight: 4, arbitrary: call },
  { weight: 1, arbitrary: image },
  { weight: 1, arbitrary: audio },
  { weight: 1, arbitrary: native },
)

const REASONS: FinishReason[] = [
  'stop',
  'stop',
  'stop-sequence',
  'length',
  'content-filter',
  'refusal',
  'pause',
  'other',
]

const tokens = fc.oneof(fc.constant(0), fc.nat(100_000))
/** Usage of one model: no protocol reports to its clients what a tool's image model used. */
const usage: fc.Arbitrary<Usage> = fc.tuple(...Object.keys(noUsage()).map(() => tokens)).map((counts) => ({
  ...(Object.fromEntries(Object.keys(noUsage()).map((bucket, index) => [bucket, counts[index]])) as Usage),
  ...Object.fromEntries(IMAGE_TOOL_BUCKETS.map((bucket) => [bucket, 0])),
  inputTokens: counts[0]! + 1,
  webSearches: counts[9]! % 5,
  images: 0,
}))

/** Any response, with distinct ids of calls, at most one audio part, and a finish reason that fits the content. */
export const answers: fc.Arbitrary<GenerationResponse> = fc
  .tuple(fc.array(part, { maxLength: 6 }), fc.nat(20), usage, fc.nat(5), fc.option(nonEmptyText, { nil: undefined }))
  .map(([drawn, ending, counted, metered, stopSequence]) => {
    const audioParts = drawn.filter(({ type }) => type === 'audio')
    const parts = drawn
      .filter((one) => one.type !== 'audio' || one === audioParts[0])
      .map((one, index): Part => (one.type === 'tool-call' ? { ...one, id: `call_${index}` } : one))
    const called = parts.some(({ type }) => type === 'tool-call'),
      refused = parts.some(({ type }) => type === 'refusal')
    const requested = REASONS[ending % REASONS.length]!
    const reason = called
      ? requested === 'length'
        ? requested
        : 'tool-calls'
      : refused
        ? requested === 'length'
          ? requested
          : 'refusal'
        : requested
    return {
      id: 'theirs-1',
      model: 'their-model',
      parts,
      usage: metered === 0 ? noUsage() : counted,
      metered: metered > 0,
      finish: {
        reason,
        raw: `raw ${reason}`,
        ...(reason === 'stop-sequence' && stopSequence !== undefined ? { stopSequence } : {}),
      },
    }
  })

/** The cuts of the deltas of a stream, and the number of events after which usage is first reported. */
export type Pace = { cuts: number[]; early: number }
export const paces: fc.Arbitrary<Pace> = fc.record({ cuts: fc.array(fc.nat(30), { maxLength: 6 }), early: fc.nat(12) })

/**
 * The response as a stream: deltas are cut anywhere (media at whole bytes, text with log probabilities at its tokens),
 * and usage may also come early.
 */
export function eventsOf(answer: GenerationResponse, { cuts, early }: Pace): GenerationEvent[] {
  let media = false
  let cut = 0
  const events = [...unfold(answer)].flatMap((event): GenerationEvent[] => {
    if (event.type === 'part-start') media = event.head.type === 'image' || event.head.type === 'audio'
    if (event.type !== 'part-delta') return [event]
    if (event.logprobs !== undefined)
      return event.logprobs.map((one) => ({ ...event, text: one.token, logprobs: [one] }))
    return cutAt(event.text, cuts.slice(0, 1 + (cut++ % 3)), media ? 4 : 1).map((piece) => ({
      ...event,
      text: piece,
    }))
  })
  const at = early % (events.length + 1)
  return answer.metered && at > 0 && at < events.length - 1
    ? [...events.slice(0, at), { type: 'usage', usage: { inputTokens: 7, outputTokens: 1 } }, ...events.slice(at)]
    : events
}

function cutAt(whole: string, cuts: readonly number[], step: number): string[] {
  const edges = [...new Set([0, ...cuts.map((cut) => (cut * step) % (whole.length + 1)), whole.length])]
    .filter((edge) => edge % step === 0 || edge === whole.length)
    .sort((a, b) => a - b)
  return edges.slice(1).map((edge, index) => whole.slice(edges[index], edge))
}

export function present<T extends object>(value: T): T {
  return Object.fromEntries(Object.entries(value).filter(([, member]) => member !== undefined)) as T
}
