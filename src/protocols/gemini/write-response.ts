import type { GenerationResponse, PartHead } from '../../generation/event.ts'
import type { Part, TokenLogprob } from '../../generation/request.ts'
import { googleTier } from '../../generation/service-class.ts'
import { wrapSignature } from '../../generation/signature.ts'
import type { Usage } from '../../generation/usage.ts'
import { readObject } from '../../json/exact.ts'
import {
  adjustSteps,
  lose,
  loseCutCall,
  loseNativeContent,
  loseFinishReason,
  loseStopSequence,
  tierOf,
} from '../losses.ts'
import type { ResponseIdentity, ResponseContext } from '../protocol.ts'
import { writeStep } from './hosted-tools.ts'
import { HIDDEN, NATIVE_PARTS, writeFinishReason, writeLogprobs, writeUsage, type GeminiPart } from './shapes.ts'
import { loseCitation, writeGrounding, type CitedText } from './write-response-citations.ts'

/** A whole response as one `GenerateContentResponse`. */
export function writeResponse(answer: GenerationResponse, context: ResponseContext): object {
  const { responseIdentity } = context
  const parts: GeminiPart[] = []
  const cited: CitedText[] = []
  const metadata: Record<string, unknown> = {}
  let hasCall = false
  let malformed: string | undefined
  for (const part of answer.parts) {
    if (part.type === 'text')
      for (const citation of part.citations ?? [])
        cited.push({ citation, text: part.text, base: 0, partIndex: parts.length })
    if (part.type === 'native' && isMetadata(part)) metadata[part.kind] = part.value
    else {
      const written = partsOf(part, context, !hasCall)
      parts.push(...written)
      if (part.type !== 'tool-call') continue
      if (written.length > 0) hasCall = true
      else malformed ??= part.name
    }
  }
  if (parts.length === 0) parts.push({ text: '' })
  const logprobs = answer.parts.flatMap((part) => (part.type === 'text' ? (part.logprobs ?? []) : []))
  loseOfEnd(context, answer.finish, answer.usage, cited)
  loseBytes(context, logprobs)
  const tier = tierOf(context, answer.service?.service_tier, googleTier)
  return {
    candidates: [
      {
        content: { parts, role: 'model' },
        ...writeFinish(answer.finish, malformed),
        index: 0,
        ...writeGrounding(cited, metadata),
        ...(logprobs.length === 0 ? {} : { logprobsResult: writeLogprobs(logprobs) }),
      },
    ],
    ...(answer.metered ? { usageMetadata: writeUsage(answer.usage, tier) } : {}),
    ...writeIdentity(responseIdentity),
  }
}

/** A part of the response. `isFirstCall`: the response has no tool call before it. */
function partsOf(part: Part, context: ResponseContext, isFirstCall: boolean): GeminiPart[] {
  const signature = 'signature' in part ? part.signature?.data : undefined
  const signed = writeSignature(signature, part, context.responseIdentity)
  switch (part.type) {
    case 'text':
      return part.text === '' && signed === undefined ? [] : [{ text: part.text, ...signed }]
    case 'refusal':
      loseRefusal(context)
      return [{ text: part.text }]
    case 'reasoning': {
      const text = context.request.reasoning?.visible === false ? '' : part.text
      return text === '' && signed === undefined ? [] : [{ text, thought: true, ...signed }]
    }
    case 'tool-call': {
      const call = writeCall(part, part.arguments, signed, isFirstCall, context)
      return call === undefined ? [] : [call]
    }
    case 'image':
    case 'audio':
    case 'video':
    case 'file':
      return part.source.type === 'data'
        ? [{ inlineData: { mimeType: part.source.mediaType, data: part.source.data }, ...signed }]
        : []
    case 'native':
      return writeNative(part, context)
    case 'tool-result':
      return []
  }
}

type NativeHead = PartHead & { type: 'native' }

/** Metadata of a provider of this protocol belongs to the candidate, all other native content to its parts. */
export const isMetadata = ({ protocol, kind }: NativeHead): boolean =>
  protocol === 'generateContent' && kind !== 'inlineData' && !NATIVE_PARTS.some((name) => name === kind)

/** Native content as parts, or its loss where it is another protocol's. */
export function writeNative({ protocol, kind, value, steps }: NativeHead, context: ResponseContext): GeminiPart[] {
  if (protocol === 'generateContent') return [value as GeminiPart]
  const written = steps?.map(writeStep)
  if (written !== undefined && !written.includes(undefined)) {
    adjustSteps(context, kind)
    return written as GeminiPart[]
  }
  loseNativeContent(context, kind)
  return []
}

export type Signed = { thoughtSignature: string }

/** The member with the signature of a part, wrapped for a provider of another protocol. */
export const writeSignature = (
  signature: string | undefined,
  part: { type: string; redacted?: boolean } | undefined,
  { issuer }: ResponseIdentity,
): Signed | undefined =>
  signature === undefined
    ? undefined
    : { thoughtSignature: wrapSignature(signature, issuer, part?.redacted === true ? HIDDEN : '') }

/**
 * A tool call; undefined for one whose arguments are cut or invalid: Google has them as an object only, and clients run
 * each call that they get. The first call of a response gets an empty signature with its issuer where a provider of
 * another protocol left it unsigned: if the conversation continues with a Google model, which refuses unsigned calls of
 * its own, `forward` knows by it that the call is another model's.
 */
export function writeCall(
  { id, name, form }: { id: string; name: string; form: 'function' | 'custom' },
  argumentsText: string,
  signed: Signed | undefined,
  isFirstCall: boolean,
  context: ResponseContext,
): GeminiPart | undefined {
  const args = form === 'custom' ? { input: argumentsText } : readArguments(argumentsText)
  if (args === undefined) {
    loseCutCall(context)
    return undefined
  }
  const { responseIdentity } = context
  const unsigned =
    isFirstCall && responseIdentity.issuer !== undefined ? writeSignature('', undefined, responseIdentity) : undefined
  return { functionCall: { id, name, args }, ...(signed ?? unsigned) }
}

const readArguments = (text: string): Record<string, unknown> | undefined =>
  text.trim() === '' ? {} : readObject(text)

/** Members that identify the response, of every chunk and every whole body. */
export const writeIdentity = ({ model, createdAt, id }: ResponseIdentity): Record<string, unknown> => ({
  modelVersion: model,
  createTime: new Date(createdAt * 1000).toISOString(),
  responseId: id,
})

/**
 * `finishReason`, with the provider's own reason where Google has none. `malformed`: the name of a call that was left
 * out.
 */
export const writeFinish = (
  { reason, raw }: GenerationResponse['finish'],
  malformed: string | undefined,
): Record<string, string> => {
  const finishReason = writeFinishReason(reason)
  if (finishReason === 'STOP' && malformed !== undefined)
    return { finishReason: 'MALFORMED_FUNCTION_CALL', finishMessage: `Malformed function call: ${malformed}` }
  return { finishReason, ...(finishReason === 'OTHER' && raw !== '' ? { finishMessage: raw } : {}) }
}

export const loseRefusal = (context: ResponseContext): void => lose(context, 'response_content_as_text', 'refusal')

export function loseBytes(context: ResponseContext, logprobs: readonly TokenLogprob[]): void {
  if (logprobs.some(({ bytes }) => Array.isArray(bytes)))
    lose(context, 'response_field_adjusted', 'logprobs', 'there is no field for the bytes of a token')
}

/** Reports the losses of finish, usage and citations, which are written at the end of a response. */
export function loseOfEnd(
  context: ResponseContext,
  finish: GenerationResponse['finish'],
  usage: Usage,
  cited: readonly CitedText[],
): void {
  for (const { citation } of cited) loseCitation(context, citation)
  loseFinishReason(context, finish, ['content-filter', 'refusal'])
  loseStopSequence(context, finish)
  if (usage.cacheWrite5mTokens + usage.cacheWrite1hTokens > 0)
    lose(context, 'response_usage_adjusted', 'usage', 'tokens written to caches are counted as uncached input')
  if (usage.webSearches > 0)
    lose(context, 'response_field_dropped', 'usage', 'there is no field for the number of web searches')
}
