import { parseExact } from '../../src/json/exact.ts'
import type { ConversationName, Part, TextPart } from '../../src/generation/request.ts'
import {
  type Edit,
  everyPart,
  inOrder,
  without,
  withoutInTools,
  withoutReasoning,
  withoutSampling,
} from './request-edits.ts'

/** Normal forms of requests, in which a request equals what a protocol makes of it. */

/** The protocol of the request and the options that only it has are not compared. */
const withoutOwnFields: Edit = (request) => without(request, 'protocol', 'includeUsage', 'extras')

/** Signatures are compared without their issuer. */
const plainSignatures = everyPart((part) =>
  'signature' in part && part.signature !== undefined
    ? [{ ...part, signature: { data: part.signature.data } }]
    : [part],
)

/** Earlier reasoning is compared by its text and signature. */
const plainReasoning = everyPart((part) =>
  part.type === 'reasoning' ? [without(part, 'form', 'id', 'redacted')] : [part],
)

/** A choice names a tool without its kind. One allowed tool that must be called is a forced tool. */
const plainToolChoice: Edit = (request) => {
  const { toolChoice } = request
  if (toolChoice?.type === 'tool') return { ...request, toolChoice: { type: 'tool', name: toolChoice.name } }
  return toolChoice?.type === 'allowed' && toolChoice.required && toolChoice.names.length === 1
    ? { ...request, toolChoice: { type: 'tool', name: toolChoice.names[0]! } }
    : request
}

/** All instructions are one text. */
const joinedInstructions: Edit = (request) => ({ ...request, system: joined(request.system, '\n\n') })

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

/** Arguments are objects, without white space between members. */
const compactArguments = everyPart((part) =>
  part.type === 'tool-call' && part.form === 'function' ? [{ ...part, arguments: compact(part.arguments) }] : [part],
)

/** Results that are objects have no white space between members either. */
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

/** Google's clients request visible reasoning, those of other protocols request hidden reasoning. */
const visibleReasoning: Edit = (request) => {
  const { reasoning } = request
  if (reasoning === undefined) return request
  const isVisible =
    request.protocol === 'generateContent'
      ? reasoning.visible === true
      : reasoning.visible !== false && reasoning.effort !== 'none'
  return { ...request, reasoning: { ...without(reasoning, 'visible'), ...(isVisible ? { visible: true } : {}) } }
}

/** A budget of -1 is adaptive reasoning. */
const adaptiveReasoning: Edit = (request) =>
  request.reasoning?.budgetTokens === -1
    ? { ...request, reasoning: { ...without(request.reasoning, 'budgetTokens'), adaptive: true } }
    : request

/** A model that does not reason has no reasoning to show. */
const disabledReasoning: Edit = (request) =>
  request.reasoning?.effort === 'none' ? { ...request, reasoning: { effort: 'none' } } : request

/** The media type of a URL is derived from the URL. */
const untypedUrls = everyPart((part) =>
  'source' in part && part.source.type === 'url' ? [{ ...part, source: without(part.source, 'mediaType') }] : [part],
)

/**
 * Text is the default format and `auto` the default tool choice. Without callable tools, parallel calls are
 * meaningless.
 */
const withoutDefaults: Edit = (request) => {
  const hasNoCalls = request.tools.length === 0 || request.toolChoice?.type === 'none'
  return without(
    request,
    ...(request.outputFormat?.type === 'text' ? ['outputFormat'] : []),
    ...(hasNoCalls ? ['parallelTools'] : []),
    ...(request.toolChoice?.type === 'auto' ? ['toolChoice'] : []),
  )
}

/** The protocol has the name of a schema as its title. */
const titledSchema: Edit = (request) => {
  if (request.outputFormat?.type !== 'schema') return request
  const { name, schema } = request.outputFormat
  const titled = name === undefined ? schema : { ...(schema as object), title: name }
  return { ...request, outputFormat: { type: 'schema', schema: titled } }
}

/**
 * Google has one mode for the tool choice and for strict schemas: forced and restricted calls are always strict, and
 * without calls there is nothing to validate.
 */
const strictByChoice: Edit = (request) =>
  request.toolChoice === undefined || request.toolChoice.type === 'auto' ? request : withoutInTools('strict')(request)

const FORMS: Record<ConversationName, Edit> = {
  'chat.completions': inOrder(joinedInstructions, adaptiveReasoning),
  responses: inOrder(
    // Tools are not strict by default.
    (request) => ({
      ...request,
      tools: request.tools.map((tool) => (tool.type === 'function' ? { ...tool, strict: tool.strict ?? false } : tool)),
    }),
    // Visible reasoning is requested as a summary.
    (request) =>
      request.reasoning?.visible === true
        ? { ...request, reasoning: { ...request.reasoning, summary: 'auto' } }
        : withoutReasoning('visible')(request),
    adaptiveReasoning,
    withoutReasoning('adaptive'),
    (request) =>
      request.sampling.topLogprobs === undefined
        ? request
        : { ...request, sampling: { ...request.sampling, logprobs: true } },
  ),
  messages: inOrder(
    compactArguments,
    titledSchema,
    adaptiveReasoning,
    // A model that takes budgets shows its reasoning; Sluice leaves out what is to be hidden.
    withoutReasoning('visible'),
    // A temperature of 1 is the default, and the only one that reasoning models accept.
    (request) => (request.sampling.temperature === 1 ? withoutSampling('temperature')(request) : request),
    // The protocol requires a limit: that of the model.
    (request) => ({ ...request, maxOutputTokens: request.maxOutputTokens ?? 100_000 }),
  ),
  generateContent: inOrder(
    strictByChoice,
    compactArguments,
    compactResults,
    adaptiveReasoning,
    visibleReasoning,
    withoutReasoning('adaptive'),
    titledSchema,
  ),
}

/** Reasoning options without a value are none. */
export const withoutEmptyReasoning: Edit = (request) =>
  Object.values(request.reasoning ?? {}).every((member) => member === undefined)
    ? without(request, 'reasoning')
    : request

/** The default visibility of reasoning differs, so it cannot be compared across two protocols. */
export const withoutVisibility = withoutReasoning('visible', 'summary')

/** The form of a request in which it equals what this protocol makes of it, apart from its losses. */
export const normalFormOf = (protocol: ConversationName): Edit =>
  inOrder(
    FORMS[protocol],
    withoutOwnFields,
    disabledReasoning,
    withoutDefaults,
    untypedUrls,
    plainSignatures,
    plainReasoning,
    plainToolChoice,
    withoutEmptyReasoning,
  )
