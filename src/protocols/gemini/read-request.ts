import { googleStatusOf } from './error-status.ts'
import type { GatewayError } from '../../error.ts'
import type { Answer } from '../../generation/event.ts'
import type { Citation, GenerationRequest, TokenLogprob } from '../../generation/request.ts'
import type { Usage } from '../../generation/usage.ts'
import { wrapSignature } from '../../generation/signature.ts'
import type { Frame } from '../../http/frames.ts'
import { lose, loseNative, loseOfFinish, loseOfStop } from '../losses.ts'
import type { TranslationContext, ResponseIdentity, RawRequest } from '../protocol.ts'
import { collectExtras } from '../extras.ts'
import { GoogleFields } from './fields.ts'
import { readObject } from './arguments.ts'
import { readConfig } from './read-request-config.ts'
import { ContentReader } from './read-request-contents.ts'
import { readSafety, readToolConfig, readTools } from './read-request-tools.ts'
import {
  HIDDEN,
  isSource,
  writeFinishReason,
  writeGrounding,
  writeLogprobs,
  writeUsage,
  type Placed,
  type WirePart,
} from './shapes.ts'

/** Body of `:generateContent` and `:streamGenerateContent` -> our words. Model and streaming come from the path. */
export function readRequest(rawRequest: RawRequest): GenerationRequest {
  const body = new GoogleFields(rawRequest.body)
  const extras: Record<string, unknown> = Object.create(null)
  body.string('model') // Some clients repeat the path's model here; the path decides.
  body.require('contents', body.array('contents', { min: 1, of: 'contents' }), 'an array of at least one content')
  const reader = new ContentReader(rawRequest, extras)
  const system = reader.readSystem(body)
  const turns = reader.read(body.objects('contents')!)
  const toolChoice = readToolConfig(body, extras)
  const cached = body.string('cachedContent')
  if (cached !== undefined) extras[body.at('cachedContent')] = cached
  readSafety(body, extras)
  const request: GenerationRequest = {
    model: rawRequest.model ?? '',
    system,
    turns,
    ...readTools(body, extras),
    ...(toolChoice === undefined ? {} : { toolChoice }),
    ...readConfig(body.object('generationConfig') ?? new GoogleFields({}, 'generationConfig'), extras),
    stream: rawRequest.stream ?? false,
    protocol: 'generateContent',
    extras,
  }
  collectExtras(body, extras)
  return request
}

/** Members that every chunk and every whole answer carries. */
export const writeLabel = (responseIdentity: ResponseIdentity): Record<string, unknown> => ({
  modelVersion: responseIdentity.model,
  createTime: new Date(responseIdentity.createdAt * 1000).toISOString(),
  responseId: responseIdentity.id,
})

/**
 * An empty signature with its maker's name, on the first call of an answer that another protocol's provider left
 * unsigned: if the conversation
 * goes on with a model that refuses unsigned calls, `forward` knows by it that these were never its own.
 */
export const nativeCall = ({ issuer }: ResponseIdentity): { thoughtSignature: string } | undefined =>
  issuer === undefined ? undefined : { thoughtSignature: wrapSignature('', issuer) }

/**
 * The error in a stream already begun, twice: the AI SDK hears it only as a `data:` frame, Google's SDK before 3.0 and
 * other clients only bare, as Google sends it.
 */
export const errorFrames = (error: GatewayError): Frame[] => {
  const data = JSON.stringify(writeError(error))
  return [{ data }, { bare: true, data }]
}

/** A whole answer as one `GenerateContentResponse`. */
export function writeResponse(answer: Answer, context: TranslationContext): object {
  const { responseIdentity, request } = context
  const parts: WirePart[] = []
  const placed: Placed[] = []
  const logprobs = answer.parts.flatMap((part) => (part.type === 'text' ? (part.logprobs ?? []) : []))
  for (const part of answer.parts) {
    const signature =
      'signature' in part && part.signature !== undefined
        ? {
            thoughtSignature: wrapSignature(
              part.signature.data,
              responseIdentity.issuer,
              part.type === 'reasoning' && part.redacted === true ? HIDDEN : '',
            ),
          }
        : undefined
    switch (part.type) {
      case 'text':
        for (const citation of part.citations ?? [])
          placed.push({ citation, text: part.text, base: 0, partIndex: parts.length })
        if (part.text !== '' || signature !== undefined) parts.push({ text: part.text, ...signature })
        break
      case 'refusal':
        loseRefusal(context)
        parts.push({ text: part.text })
        break
      case 'reasoning': {
        const text = request.reasoning?.visible === false ? '' : part.text
        if (text !== '' || signature !== undefined) parts.push({ text, thought: true, ...signature })
        break
      }
      case 'tool-call': {
        const first = !parts.some((earlier) => 'functionCall' in earlier)
        parts.push({
          functionCall: { id: part.id, name: part.name, args: argumentsOf(context, part.arguments, part.form) },
          ...(signature ?? (first ? nativeCall(responseIdentity) : undefined)),
        })
        break
      }
      case 'image':
      case 'audio':
      case 'video':
      case 'file':
        if (part.source.type === 'data')
          parts.push({ inlineData: { mimeType: part.source.mediaType, data: part.source.data }, ...signature })
        break
      case 'native':
        if (part.protocol === 'generateContent') parts.push(part.value as WirePart)
        else loseNative(context, part.kind)
        break
      case 'tool-result':
        break
    }
  }
  if (parts.length === 0) parts.push({ text: '' })
  loseOfEnd(context, answer.finish, answer.usage, placed)
  loseBytes(context, logprobs)
  return {
    candidates: [
      {
        content: { parts, role: 'model' },
        ...writeEnd(answer.finish),
        index: 0,
        ...writeGrounding(placed),
        ...(logprobs.length === 0 ? {} : { logprobsResult: writeLogprobs(logprobs) }),
      },
    ],
    ...(answer.metered ? { usageMetadata: writeUsage(answer.usage) } : {}),
    ...writeLabel(responseIdentity),
  }
}

/**
 * A call's arguments as an object. Text that is none (cut, or invalid) gives `{}`: Google has no other way to say it.
 */
export function argumentsOf(
  context: TranslationContext,
  text: string,
  form: 'function' | 'custom',
): Record<string, unknown> {
  if (form === 'custom') return { input: text }
  const read = readObject(text)
  if (read === undefined && text.trim() !== '')
    lose(context, 'response_field_dropped', 'tool_calls.arguments', 'they are not a whole JSON object')
  return read ?? {}
}

export const loseRefusal = (context: TranslationContext): void =>
  lose(context, 'response_field_adjusted', 'refusal', 'generateContent tells the words of a refusal as text')

/** What `loseOfEnd` does not see: Google's log probabilities name tokens by their text alone. */
export function loseBytes(context: TranslationContext, logprobs: readonly TokenLogprob[]): void {
  if (logprobs.some(({ bytes }) => Array.isArray(bytes)))
    lose(context, 'response_field_adjusted', 'logprobs', 'there is no place for the bytes of a token')
}

/**
 * A source without a range is said to be one of the whole answer, as it is; one without an address is told by its title
 * and words.
 */
function loseOfSource(context: TranslationContext, citation: Citation): void {
  const { url, citedText, native } = citation
  if (!isSource(citation))
    lose(context, 'response_field_dropped', 'citations', 'it names neither an address nor a title')
  else if (url === undefined ? native !== undefined : citedText !== undefined) {
    lose(
      context,
      'response_field_adjusted',
      'citations',
      url === undefined
        ? 'there is no place for where in the source it stands'
        : 'there is no place for the words of the source',
    )
  }
}

/** Of all that the last chunk tells. */
export function loseOfEnd(
  context: TranslationContext,
  finish: Answer['finish'],
  usage: Usage,
  placed: readonly Placed[],
): void {
  for (const { citation } of placed) loseOfSource(context, citation)
  loseOfFinish(context, finish, ['content-filter', 'refusal'])
  loseOfStop(context, finish)
  if (usage.cacheWrite5mTokens + usage.cacheWrite1hTokens > 0)
    lose(context, 'response_field_adjusted', 'usage', 'tokens written to caches are counted as read anew')
  if (usage.webSearches > 0)
    lose(context, 'response_field_dropped', 'usage', 'there is no place for the number of web searches')
}

/** `finishReason`, and the provider's own word where Google's vocabulary has none. */
export const writeEnd = ({ reason, raw }: Answer['finish']): Record<string, string> => {
  const finishReason = writeFinishReason(reason)
  return { finishReason, ...(finishReason === 'OTHER' && raw !== '' ? { finishMessage: raw } : {}) }
}

/** `{error: {code, message, status, details}}`: google.rpc.Status in JSON. */
export function writeError(error: GatewayError, requestId?: string): { error: Record<string, unknown> } {
  const details: Record<string, unknown>[] = []
  if (error.param !== undefined)
    details.push({
      '@type': 'type.googleapis.com/google.rpc.BadRequest',
      fieldViolations: [{ field: error.param, description: error.message }],
    })
  if (error.retryAfterSeconds !== undefined)
    details.push({ '@type': 'type.googleapis.com/google.rpc.RetryInfo', retryDelay: `${error.retryAfterSeconds}s` })
  details.push({
    '@type': 'type.googleapis.com/google.rpc.ErrorInfo',
    reason: error.code.toUpperCase(),
    domain: 'sluice',
    ...infoOf(error),
  })
  if (requestId !== undefined) details.push({ '@type': 'type.googleapis.com/google.rpc.RequestInfo', requestId })
  return { error: { code: error.status, message: error.message, status: googleStatusOf(error), details } }
}

/** `ErrorInfo.metadata` is a map of strings. */
function infoOf({ metadata, details }: GatewayError): { metadata?: Record<string, string> } {
  const entries = Object.entries({ ...metadata, ...details }).map(([name, value]): [string, string] => [
    name,
    typeof value === 'string' ? value : JSON.stringify(value),
  ])
  return entries.length === 0 ? {} : { metadata: Object.fromEntries(entries) }
}
