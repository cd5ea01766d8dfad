import fc from 'fast-check'
import type {
  ConversationName,
  GenerationRequest,
  MediaPart,
  Part,
  TextPart,
  Tool,
  ToolCallPart,
  ToolResultPart,
  Turn,
} from '../../src/generation/request.ts'
import type { Target } from '../../src/protocols/protocol.ts'
import { argumentsText, present, signature, nonEmptyText } from './answers.ts'
import { IDENTITY, ISSUER, NAMES } from './protocol-pairs.ts'

/** Generation requests of every kind. */

/** Optional content of a conversation. A protocol that represents it in another form leaves it out of a comparison. */
export type Scope = {
  systemTurns: boolean
  resultMedia: boolean
  /** Media with a URL in results. */
  resultUrls: boolean
  customTools: boolean
  failedResults: boolean
  audio: boolean
  video: boolean
  refusals: boolean
  textBesideCalls: boolean
}

const ALL: Scope = {
  systemTurns: true,
  resultMedia: true,
  resultUrls: true,
  customTools: true,
  failedResults: true,
  audio: true,
  video: true,
  refusals: true,
  textBesideCalls: true,
}
const SCOPES: Record<ConversationName, Scope> = {
  'chat.completions': { ...ALL, resultMedia: false, failedResults: false, video: false },
  responses: { ...ALL, failedResults: false, video: false },
  messages: { ...ALL, audio: false, video: false, customTools: false, refusals: false },
  generateContent: { ...ALL, resultUrls: false, systemTurns: false, customTools: false, refusals: false },
}

/** The content that all of these protocols have. */
export const scopeOf = (...protocols: ConversationName[]): Scope =>
  Object.fromEntries(
    Object.keys(ALL).map((name) => [name, protocols.every((protocol) => SCOPES[protocol][name as keyof Scope])]),
  ) as Scope

/** A model that accepts every field of its protocol. It issued the signatures of the requests. */
export const TARGETS: Record<ConversationName, Target> = {
  'chat.completions': {
    ...ISSUER,
    model: IDENTITY.model,
    quirks: { customTools: true, reasoningField: 'reasoning_details', effortField: 'reasoning' },
    capabilities: {},
  },
  responses: { ...ISSUER, model: IDENTITY.model, quirks: {}, capabilities: {} },
  messages: {
    ...ISSUER,
    model: IDENTITY.model,
    quirks: {},
    capabilities: { systemTurns: true, reasoning: 'budget', maxOutputTokens: 100_000 },
  },
  generateContent: { ...ISSUER, model: IDENTITY.model, quirks: {}, capabilities: { reasoning: 'level' } },
}

const some = <T>(of: fc.Arbitrary<T>): fc.Arbitrary<T | undefined> => fc.option(of, { nil: undefined, freq: 2 })
const rarely = <T>(of: fc.Arbitrary<T>): fc.Arbitrary<T | undefined> =>
  fc.oneof({ weight: 2, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary: of })

const cache = rarely(fc.constantFrom({}, { ttl: '5m' as const }, { ttl: '1h' as const }))
const textPart: fc.Arbitrary<TextPart> = fc
  .tuple(nonEmptyText, cache)
  .map(([text, cacheBreakpoint]) => present({ type: 'text' as const, text, cache: cacheBreakpoint }))
const base64 = fc.uint8Array({ minLength: 1, maxLength: 9 }).map((bytes) => Buffer.from(bytes).toString('base64'))
const image: fc.Arbitrary<MediaPart> = fc
  .oneof(
    fc
      .tuple(fc.constantFrom('image/png', 'image/jpeg'), base64)
      .map(([mediaType, data]): MediaPart => ({ type: 'image', source: { type: 'data', mediaType, data } })),
    fc
      .constantFrom('https://example.com/a.png', 'https://example.com/b.jpg?c=ü')
      .map((url): MediaPart => ({ type: 'image', source: { type: 'url', url } })),
  )
  .chain((part) => rarely(fc.constantFrom('low', 'high')).map((detail) => present({ ...part, detail })))
const withData = (part: MediaPart): MediaPart =>
  part.source.type === 'url' ? { ...part, source: { type: 'data', mediaType: 'image/png', data: 'AAAA' } } : part
const pdf: fc.Arbitrary<MediaPart> = base64.map((data) => ({
  type: 'file',
  source: { type: 'data', mediaType: 'application/pdf', data },
  filename: 'a.pdf',
}))
const audio: fc.Arbitrary<MediaPart> = base64.map((data) => ({
  type: 'audio',
  source: { type: 'data', mediaType: 'audio/wav', data },
}))
const video: fc.Arbitrary<MediaPart> = base64.map((data) => ({
  type: 'video',
  source: { type: 'data', mediaType: 'video/mp4', data },
}))

const userParts = (scope: Scope): fc.Arbitrary<Part[]> =>
  fc.array(
    fc.oneof<fc.Arbitrary<Part>[]>(
      textPart,
      textPart,
      textPart,
      image,
      pdf,
      ...(scope.audio ? [audio] : []),
      ...(scope.video ? [video] : []),
    ),
    { minLength: 1, maxLength: 3 },
  )

const reasoningPart: fc.Arbitrary<Part> = fc.oneof(
  fc
    .tuple(
      nonEmptyText,
      signature,
      fc.boolean(),
      fc.constantFrom({}, { form: 'raw' as const }, { form: 'summary' as const }),
    )
    .map(
      ([text, data, ours, form]): Part => ({
        type: 'reasoning',
        text,
        ...form,
        signature: { data, issuer: ours ? { ...ISSUER, model: IDENTITY.model } : { provider: 'another', model: 'm' } },
      }),
    ),
  nonEmptyText.map((text): Part => ({ type: 'reasoning', text })),
  signature.map(
    (data): Part => ({
      type: 'reasoning',
      text: '',
      redacted: true,
      signature: { data, issuer: { ...ISSUER, model: IDENTITY.model } },
    }),
  ),
)

type ToolCall = {
  name: string
  form: 'function' | 'custom'
  text: string
  result: (TextPart | MediaPart)[]
  failed: boolean
  cacheBreakpoint: TextPart['cache'] | undefined
}
const toolCall = (scope: Scope): fc.Arbitrary<ToolCall> =>
  fc
    .record({
      kind: fc.constantFrom<[string, 'function' | 'custom'][]>(
        ['look_up', 'function'],
        ['say', 'function'],
        ...(scope.customTools ? [['draw', 'custom'] as [string, 'custom']] : []),
      ),
      args: argumentsText,
      input: nonEmptyText,
      result: fc.oneof<fc.Arbitrary<(TextPart | MediaPart)[]>[]>(
        nonEmptyText.map((text) => [{ type: 'text', text }]),
        argumentsText.map((text) => [{ type: 'text', text }]),
        fc.constantFrom('1.0', '-0', '[1]', 'null').map((text) => [{ type: 'text', text }]),
        ...(scope.resultMedia
          ? [
              fc
                .tuple(nonEmptyText, scope.resultUrls ? image : image.map(withData))
                .map(([text, part]): (TextPart | MediaPart)[] => [{ type: 'text', text }, part]),
            ]
          : []),
      ),
      failed: scope.failedResults ? fc.boolean() : fc.constant(false),
      cacheBreakpoint: cache,
    })
    .map(({ kind: [name, form], args, input, result, failed, cacheBreakpoint }) => ({
      name,
      form,
      text: form === 'custom' ? input : args,
      result,
      failed,
      cacheBreakpoint,
    }))

type Round = {
  user: Part[]
  name: string | undefined
  reasoningParts: Part[]
  beside: string | undefined
  calls: ToolCall[]
  instruction: [Turn['role'], string] | undefined
  answer: Part
}

const round = (scope: Scope): fc.Arbitrary<Round> =>
  fc.record({
    user: userParts(scope),
    name: rarely(fc.constant('ada')),
    reasoningParts: fc.array(reasoningPart, { maxLength: 1 }),
    beside: scope.textBesideCalls ? some(nonEmptyText) : fc.constant(undefined),
    calls: fc.array(toolCall(scope), { maxLength: 3 }),
    instruction: scope.systemTurns
      ? rarely(fc.tuple(fc.constantFrom<Turn['role'][]>('system'), nonEmptyText))
      : fc.constant(undefined),
    answer: fc.oneof<fc.Arbitrary<Part>[]>(
      textPart.map(({ text }): Part => ({ type: 'text', text })),
      ...(scope.refusals ? [nonEmptyText.map((text): Part => ({ type: 'refusal', text }))] : []),
    ),
  })

/** The turns of a user, of the model with tool calls, of the results, and of the model with its response. */
function turnsOf({ user, name, reasoningParts, beside, calls, instruction, answer }: Round, number: number): Turn[] {
  const ids = calls.map((_, index) => `call_${number}_${index}`)
  const toolCalls = calls.map(
    (call, index): ToolCallPart => ({
      type: 'tool-call',
      id: ids[index]!,
      name: call.name,
      arguments: call.text,
      form: call.form,
    }),
  )
  const results = calls.map(
    (call, index): ToolResultPart =>
      present({
        type: 'tool-result' as const,
        callId: ids[index]!,
        name: call.name,
        content: call.result,
        isError: call.failed ? true : undefined,
        form: call.form,
        cache: call.cacheBreakpoint,
      }),
  )
  return [
    present({ role: 'user' as const, parts: user, name }),
    ...(calls.length === 0
      ? []
      : [
          {
            role: 'assistant' as const,
            parts: [
              ...reasoningParts,
              ...(beside === undefined ? [] : [{ type: 'text' as const, text: beside }]),
              ...toolCalls,
            ],
          },
          { role: 'tool' as const, parts: results },
        ]),
    { role: 'assistant', parts: [...(calls.length === 0 ? reasoningParts : []), answer] },
    ...(instruction === undefined
      ? []
      : [{ role: instruction[0], parts: [{ type: 'text' as const, text: instruction[1] }] }]),
  ]
}

const SCHEMA = {
  type: 'object',
  properties: { city: { type: 'string' } },
  required: ['city'],
  additionalProperties: false,
}
/** Requests with calls of a free-text tool list that tool. */
const tools = (scope: Scope): fc.Arbitrary<Tool[]> =>
  fc
    .subarray<Tool>([
      { type: 'function', name: 'look_up', description: 'Looks up', parameters: SCHEMA },
      {
        type: 'function',
        name: 'say',
        parameters: { type: 'object', properties: {}, additionalProperties: false },
        strict: true,
      },
      { type: 'function', name: 'marked', parameters: SCHEMA, cache: {} },
    ])
    .map((functions) => [
      ...functions,
      ...(scope.customTools
        ? [{ type: 'custom' as const, name: 'draw', description: 'Draws', format: { type: 'text' } }]
        : []),
    ])
const choice = fc.constantFrom<NonNullable<GenerationRequest['toolChoice']>[]>(
  { type: 'auto' },
  { type: 'none' },
  { type: 'required' },
  { type: 'tool', name: 'look_up' },
  { type: 'allowed', names: ['look_up', 'say'], required: true },
  { type: 'allowed', names: ['look_up'], required: false },
)

const sampling = fc
  .record({
    temperature: some(fc.constantFrom(0, 0.2, 1, 1.7)),
    topP: some(fc.constantFrom(0, 0.5, 0.99)),
    topK: some(fc.integer({ min: 1, max: 100 })),
    frequencyPenalty: rarely(fc.constantFrom(-2, 0.5, 2)),
    presencePenalty: rarely(fc.constantFrom(-2, 0.5, 2)),
    seed: rarely(fc.oneof(fc.integer({ min: 0, max: 2 ** 31 - 1 }), fc.constant(2 ** 40))),
    stop: rarely(fc.array(nonEmptyText, { minLength: 1, maxLength: 4 })),
    logitBias: rarely(fc.constant({ 5: 1, 70: -100 })),
    scored: rarely(fc.constantFrom(undefined, 1, 5)),
    isScored: fc.integer({ min: 0, max: 3 }),
  })
  .map(({ scored, isScored, ...rest }) =>
    present({ ...rest, ...(isScored === 0 ? { logprobs: true, topLogprobs: scored } : {}) }),
  )
  .map(present)

const reasoning = fc
  .oneof(
    fc
      .constantFrom('none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max')
      .map((effort) => ({ effort: effort as 'low' })),
    fc.constantFrom(1024, 5000, 20_000, -1).map((budgetTokens) => ({ budgetTokens })),
    fc.constant({ adaptive: true }),
  )
  .chain((amount) => some(fc.boolean()).map((visible) => present({ ...amount, visible })))
const format = fc.constantFrom<NonNullable<GenerationRequest['outputFormat']>[]>(
  { type: 'text' },
  { type: 'json' },
  { type: 'schema', schema: SCHEMA, name: 'answer', strict: true },
  { type: 'schema', schema: SCHEMA, name: 'answer' },
)

/** Any request within the scope. It ends with a user turn, and every call has a result. */
export const requests = (scope: Scope): fc.Arbitrary<GenerationRequest> =>
  fc
    .record({
      system: fc.array(textPart, { maxLength: 2 }),
      rounds: fc.array(round(scope), { maxLength: 3 }),
      last: userParts(scope),
      tools: tools(scope),
      toolChoice: some(choice),
      parallelTools: rarely(fc.constant(false)),
      sampling,
      maxOutputTokens: some(fc.integer({ min: 1, max: 90_000 })),
      reasoning: some(reasoning),
      outputFormat: rarely(format),
      verbosity: rarely(fc.constantFrom('low' as const, 'high' as const)),
      user: rarely(nonEmptyText),
      metadata: rarely(fc.constant({ a: 'b', c: 'd' })),
      serviceTier: rarely(fc.constantFrom('auto', 'flex', 'odd')),
      cacheKey: rarely(nonEmptyText),
      stream: fc.boolean(),
    })
    .map(
      ({ rounds, last, ...rest }): GenerationRequest => ({
        model: IDENTITY.model,
        ...present({
          ...rest,
          toolChoice:
            rest.tools.some((tool) => tool.type !== 'native' && tool.name === 'look_up') && rest.tools.length > 1
              ? rest.toolChoice
              : undefined,
        }),
        turns: [...rounds.flatMap(turnsOf), { role: 'user', parts: last }],
        protocol: 'images',
        extras: {},
      }),
    )

export const PAIRS = NAMES.flatMap((one) => NAMES.map((other): [ConversationName, ConversationName] => [one, other]))
