import { parseExact } from '../../src/json/text.ts'
import type {
  ConversationName,
  GenerationRequest,
  Part,
  TextPart,
  ToolResultPart,
} from '../../src/generation/request.ts'

/** Differences between a request and the same request read again: reported losses, and other forms of the same. */

type Request = GenerationRequest
type Edit = (request: Request) => Request

const everyPart =
  (change: (part: Part) => Part[]): Edit =>
  (request) => {
    const parts = (all: Part[]): Part[] =>
      all
        .flatMap(change)
        .map((part) =>
          part.type === 'tool-result'
            ? { ...part, content: part.content.flatMap(change) as ToolResultPart['content'] }
            : part,
        )
    return {
      ...request,
      system: parts(request.system),
      turns: request.turns.map((turn) => ({ ...turn, parts: parts(turn.parts) })),
    }
  }
const without = <T extends object>(value: T, ...names: string[]): T =>
  Object.fromEntries(Object.entries(value).filter(([name]) => !names.includes(name))) as T
const leave =
  (...names: (keyof Request)[]): Edit =>
  (request) =>
    without(request, ...names)
const leaveSampling =
  (...names: string[]): Edit =>
  (request) => ({ ...request, sampling: without(request.sampling, ...names) })
const leaveOfParts = (...names: string[]): Edit => everyPart((part) => [without(part, ...names)])
const leaveOfTools =
  (...names: string[]): Edit =>
  (request) => ({ ...request, tools: request.tools.map((tool) => without(tool, ...names)) })
const leaveOfReasoning =
  (...names: string[]): Edit =>
  (request) =>
    request.reasoning === undefined ? request : { ...request, reasoning: without(request.reasoning, ...names) }
const leaveDepth = leaveOfReasoning('effort', 'budgetTokens', 'adaptive')
const all =
  (...edits: Edit[]): Edit =>
  (request) =>
    edits.reduce((edited, edit) => edit(edited), request)

/** The part of the comparison that a loss excludes: as little as its name says. */
const LOST: Partial<Record<string, Edit>> = {
  name: (request) => ({ ...request, turns: request.turns.map((turn) => without(turn, 'name')) }),
  detail: leaveOfParts('detail'),
  filename: leaveOfParts('filename'),
  cache: all(leaveOfParts('cache'), leaveOfTools('cache')),
  'tool.cache': leaveOfTools('cache'),
  'request.cache': leave('cache'),
  signature: leaveOfParts('signature'),
  citations: leaveOfParts('citations'),
  'reasoning part': everyPart((part) => (part.type === 'reasoning' ? [] : [part])),
  'tool.strict': leaveOfTools('strict'),
  'tool.format': leaveOfTools('format'),
  toolChoice: (request) => ({ ...without(request, 'toolChoice'), tools: [] }),
  parallelTools: leave('parallelTools'),
  temperature: leaveSampling('temperature'),
  topP: leaveSampling('topP'),
  topK: leaveSampling('topK'),
  frequencyPenalty: leaveSampling('frequencyPenalty'),
  presencePenalty: leaveSampling('presencePenalty'),
  seed: leaveSampling('seed'),
  stop: leaveSampling('stop'),
  logitBias: leaveSampling('logitBias'),
  logprobs: leaveSampling('logprobs', 'topLogprobs'),
  topLogprobs: leaveSampling('topLogprobs'),
  maxOutputTokens: leave('maxOutputTokens'),
  reasoning: leave('reasoning'),
  'reasoning.effort': leaveDepth,
  'reasoning.budgetTokens': leaveDepth,
  'reasoning.adaptive': leaveOfReasoning('adaptive'),
  'reasoning.visible': leaveOfReasoning('visible'),
  'reasoning.summary': leaveOfReasoning('summary'),
  // The prompt may contain the same instruction.
  outputFormat: (request) => ({
    ...without(request, 'outputFormat'),
    system: request.system.flatMap((part): Part[] =>
      part.type !== 'text'
        ? [part]
        : [part.text.replace(/(\n\n)?Answer with a JSON object\.$/, '')]
            .filter((text) => text !== '' || part.text === '')
            .map((text) => ({ ...part, text })),
    ),
  }),
  verbosity: leave('verbosity'),
  user: leave('user'),
  metadata: leave('metadata'),
  serviceTier: leave('serviceTier'),
  cacheKey: leave('cacheKey'),
}

export const forget = (request: Request, words: Iterable<string>): Request => {
  let left = request
  for (const word of words) {
    const edit = LOST[word]
    if (edit === undefined) throw new Error(`the loss of '${word}' is not expected of such a request`)
    left = edit(left)
  }
  return left
}

// Other forms of the same content.

/** The client protocol, and the usage option of chat completions, are not compared. */
const own: Edit = (request) => without(request, 'protocol', 'includeUsage', 'extras')

/** A signature that its issuer receives has no envelope. */
const plainSignatures = everyPart((part) =>
  'signature' in part && part.signature !== undefined
    ? [{ ...part, signature: { data: part.signature.data } }]
    : [part],
)

/** Earlier reasoning is identified by text and signature; only its issuer knows what was hidden. */
const plainThoughts = everyPart((part) =>
  part.type === 'reasoning' ? [without(part, 'form', 'id', 'redacted')] : [part],
)

/** A choice names a tool, which has the kind. One allowed tool that is required is a forced one. */
const plainChoice: Edit = (request) => {
  const { toolChoice } = request
  if (toolChoice?.type === 'tool') return { ...request, toolChoice: { type: 'tool', name: toolChoice.name } }
  return toolChoice?.type === 'allowed' && toolChoice.required && toolChoice.names.length === 1
    ? { ...request, toolChoice: { type: 'tool', name: toolChoice.names[0]! } }
    : request
}

/** Instructions become one text. */
const oneInstruction: Edit = (request) => ({ ...request, system: joined(request.system, '\n\n') })

function joined(parts: Part[], separator: string): Part[] {
  const texts = parts.filter((part): part is TextPart => part.type === 'text')
  return texts.length < 2
    ? parts
    : [
        { ...texts[0]!, text: texts.map(({ text }) => text).join(separator) },
        ...parts.filter(({ type }) => type !== 'text'),
      ]
}

const compact = (text: string): string => {
  try {
    return JSON.stringify(parseExact(text))
  } catch {
    return text
  }
}

const isObjectText = (text: string): boolean => compact(text).startsWith('{')

/** Arguments are objects, whose whitespace is not compared. */
const compactArguments = everyPart((part) =>
  part.type === 'tool-call' && part.form === 'function' ? [{ ...part, arguments: compact(part.arguments) }] : [part],
)

/** A result with the text of an object becomes that object. */
const compactResults: Edit = everyPart((part) => {
  if (part.type !== 'tool-result') return [part]
  return [
    {
      ...part,
      content: part.content.map((one) =>
        one.type === 'text' && isObjectText(one.text) ? { ...one, text: compact(one.text) } : one,
      ),
    },
  ]
})

/** generateContent has an option to include reasoning, the others one to exclude it. */
const shownThoughts: Edit = (request) => {
  const { reasoning } = request
  if (reasoning === undefined) return request
  const shown =
    request.protocol === 'generateContent'
      ? reasoning.visible === true
      : reasoning.visible !== false && reasoning.effort !== 'none'
  return { ...request, reasoning: { ...without(reasoning, 'visible'), ...(shown ? { visible: true } : {}) } }
}

/** An adaptive effort is a value of its own, or absent if it is the default. */
const adaptive: Edit = (request) =>
  request.reasoning?.budgetTokens === -1
    ? { ...request, reasoning: { ...without(request.reasoning, 'budgetTokens'), adaptive: true } }
    : request

/** Without reasoning its visibility is not compared. */
const idle: Edit = (request) =>
  request.reasoning?.effort === 'none' ? { ...request, reasoning: { effort: 'none' } } : request

/** The media type of a URL is derived from the URL. */
const untypedAddresses = everyPart((part) =>
  'source' in part && part.source.type === 'url' ? [{ ...part, source: without(part.source, 'mediaType') }] : [part],
)

/** Defaults: text output and automatic tool choice; without callable tools parallel calls are not compared. */
const defaults: Edit = (request) => {
  const idleTools = request.tools.length === 0 || request.toolChoice?.type === 'none'
  return without(
    request,
    ...(request.outputFormat?.type === 'text' ? ['outputFormat'] : []),
    ...(idleTools ? ['parallelTools'] : []),
    ...(request.toolChoice?.type === 'auto' ? ['toolChoice'] : []),
  )
}

/** The name of a response schema is not compared. */
const namelessSchema: Edit = (request) =>
  request.outputFormat?.type === 'schema'
    ? { ...request, outputFormat: { type: 'schema', schema: request.outputFormat.schema } }
    : request

/**
 * Google has one mode for tool choice and strictness: forced calls and calls of allowed tools are always strict, and
 * with `NONE` strictness has no effect.
 */
const heldInAnyCase: Edit = (request) =>
  request.toolChoice === undefined || request.toolChoice.type === 'auto' ? request : leaveOfTools('strict')(request)

const FORMS: Record<ConversationName, Edit> = {
  'chat.completions': all(oneInstruction, adaptive),
  responses: all(
    // Tools are not strict by default.
    (request) => ({
      ...request,
      tools: request.tools.map((tool) => (tool.type === 'function' ? { ...tool, strict: tool.strict ?? false } : tool)),
    }),
    // Visible reasoning is a requested summary.
    (request) =>
      request.reasoning?.visible === true
        ? { ...request, reasoning: { ...request.reasoning, summary: 'auto' } }
        : leaveOfReasoning('visible')(request),
    adaptive,
    leaveOfReasoning('adaptive'),
    (request) =>
      request.sampling.topLogprobs === undefined
        ? request
        : { ...request, sampling: { ...request.sampling, logprobs: true } },
  ),
  messages: all(
    compactArguments,
    namelessSchema,
    adaptive,
    // Reasoning is always visible.
    (request) => (request.reasoning?.visible === true ? leaveOfReasoning('visible')(request) : request),
    // A temperature of 1 is the default, and the only one with thinking.
    (request) => (request.sampling.temperature === 1 ? leaveSampling('temperature')(request) : request),
    // A limit is required: the maximum of the model.
    (request) => ({ ...request, maxOutputTokens: request.maxOutputTokens ?? 100_000 }),
  ),
  generateContent: all(
    heldInAnyCase,
    compactArguments,
    compactResults,
    adaptive,
    shownThoughts,
    leaveOfReasoning('adaptive'),
    namelessSchema,
  ),
}

/** An empty reasoning option is removed. */
export const nothingEmpty: Edit = (request) =>
  Object.values(request.reasoning ?? {}).every((member) => member === undefined)
    ? without(request, 'reasoning')
    : request

/** The default visibility of reasoning differs, so that it cannot be compared over two protocols. */
export const besidesShown = leaveOfReasoning('visible', 'summary')

/** The changes that a protocol makes to a request, apart from losses. */
export const formOf = (protocol: ConversationName): Edit =>
  all(FORMS[protocol], own, idle, defaults, untypedAddresses, plainSignatures, plainThoughts, plainChoice, nothingEmpty)
