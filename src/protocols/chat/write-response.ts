import type { GenerationResponse } from '../../generation/event.ts'
import type { Citation, MediaPart, Part, ReasoningPart, TextPart } from '../../generation/request.ts'
import { openaiTier } from '../../generation/service-class.ts'
import { wrapSignature } from '../../generation/signature.ts'
import { present } from '../fields.ts'
import { lose, loseNativeContent, loseLifetimes, loseCitationDetails, loseStopSequence, tierOf } from '../losses.ts'
import type { ResponseContext, ResponseIdentity } from '../protocol.ts'
import { TextOffsets } from '../offsets.ts'
import { FieldOrder } from './field-order.ts'
import {
  FORMAT,
  imageId,
  joinedBase64,
  positionNote,
  TEXT_ID,
  writeAnnotation,
  writeFinishReason,
  writeLogprobs,
  writeUsage,
  type Json,
  type PartPosition,
} from './shapes.ts'

/** A whole response as a `chat.completion` object, with reasoning in OpenRouter's fields, which can have signatures. */
export function writeResponse(answer: GenerationResponse, context: ResponseContext): object {
  const { responseIdentity, request } = context
  loseOfResponse(context, answer)
  const refused = answer.parts.some((part) => part.type === 'refusal')
  const logprobs = answer.parts.flatMap((part) => (part.type === 'text' ? (part.logprobs ?? []) : []))
  return {
    id: responseIdentity.id,
    object: 'chat.completion',
    created: responseIdentity.createdAt,
    model: responseIdentity.model,
    choices: [
      {
        index: 0,
        message: writeMessage(answer.parts, responseIdentity, request.reasoning?.visible === false),
        logprobs: logprobs.length > 0 ? writeLogprobs(logprobs) : null,
        finish_reason: writeFinishReason(answer.finish.reason, refused),
        native_finish_reason: answer.finish.raw,
      },
    ],
    ...present('service_tier', tierOf(context, answer.service?.service_tier, openaiTier)),
    ...(answer.metered ? { usage: writeUsage(answer.usage) } : {}),
  }
}

function loseOfResponse(context: ResponseContext, { parts, finish, usage }: GenerationResponse): void {
  const order = new FieldOrder(context)
  const hidesReasoning = context.request.reasoning?.visible === false
  for (const part of parts) {
    if (part.type === 'native') loseNativeContent(context, part.kind)
    else if (part.type === 'audio') loseOfAudio(context, part.source.mediaType ?? 'audio')
    else if (part.type === 'text') for (const citation of part.citations ?? []) loseCitation(context, citation)
    if (isSeen(part, hidesReasoning)) order.add(part.type)
  }
  loseStopSequence(context, finish)
  loseLifetimes(context, usage)
}

/** Reports whether a part has something that the client sees: not a signature alone. */
const isSeen = (part: Part, hidesReasoning: boolean): boolean =>
  part.type === 'text' || part.type === 'reasoning'
    ? part.text !== '' && !(hidesReasoning && part.type === 'reasoning')
    : part.type === 'tool-call' || (part.type === 'image' && part.source.type === 'data')

export function loseCitation(context: ResponseContext, citation: Citation): void {
  if (citation.url === undefined) lose(context, 'response_citation_dropped', 'citations', 'only URLs can be cited')
  else loseCitationDetails(context, citation)
}

export const loseOfAudio = (context: ResponseContext, mediaType: string): void =>
  lose(context, 'response_field_adjusted', 'audio', `there is no field for its media type ${mediaType}`)

function writeMessage(parts: Part[], responseIdentity: ResponseContext['responseIdentity'], hidden: boolean): Json {
  const texts = parts.filter((part) => part.type === 'text')
  const refusals = parts.filter((part) => part.type === 'refusal').map((part) => part.text)
  const reasoning = hidden ? '' : parts.map((part) => (part.type === 'reasoning' ? part.text : '')).join('')
  const details = writeDetails(parts, responseIdentity, hidden)
  const images = parts.filter((part): part is MediaPart => part.type === 'image')
  const audio = parts.flatMap((part) =>
    part.type === 'audio' && part.source.type === 'data' ? [part.source.data] : [],
  )
  const annotations = texts.some((part) => part.citations !== undefined) ? writeAnnotations(texts) : []
  const calls = parts.filter((part) => part.type === 'tool-call')
  // As OpenAI: a message without content, refusal, audio and calls would be refused in the next request.
  const hasOther = refusals.length > 0 || audio.length > 0 || calls.length > 0
  return {
    role: 'assistant',
    content: texts.length > 0 || !hasOther ? texts.map((part) => part.text).join('') : null,
    refusal: refusals.length > 0 ? refusals.join('') : null,
    ...(reasoning === '' ? {} : { reasoning }),
    ...(details.length > 0 ? { reasoning_details: details } : {}),
    ...(annotations.length > 0 ? { annotations } : {}),
    ...(images.length > 0
      ? {
          images: images.flatMap((part) =>
            part.source.type === 'data' ? [writeImage(part.source.mediaType, part.source.data)] : [],
          ),
        }
      : {}),
    ...(audio.length > 0 ? { audio: { ...audioHead(responseIdentity), data: joinedBase64(audio) } } : {}),
    ...(calls.length > 0
      ? { tool_calls: calls.map((call) => writeCall(call.id, call.name, call.form, call.arguments)) }
      : {}),
  }
}

export const writeCall = (id: string, name: string, form: 'function' | 'custom', text: string): Json =>
  form === 'custom'
    ? { id, type: 'custom', custom: { name, input: text } }
    : { id, type: 'function', function: { name, arguments: text.trim() === '' ? '{}' : text } }

export const writeImage = (mediaType: string, data: string): Json => ({
  type: 'image_url',
  image_url: { url: `data:${mediaType};base64,${data}` },
})

/** A later request cannot refer to the audio by its id, so it counts as expired from the start. */
export const audioHead = (responseIdentity: ResponseContext['responseIdentity']): Json => ({
  id: `audio-${responseIdentity.id}`,
  expires_at: responseIdentity.createdAt,
  transcript: '',
})

/** Offsets of annotations count in the whole content, of which each text part is a piece. */
function writeAnnotations(texts: TextPart[]): Json[] {
  const content = new TextOffsets(texts.map((part) => part.text).join(''), 'code points')
  let base = 0
  return texts.flatMap((part) => {
    const written = (part.citations ?? [])
      .map((citation) => writeAnnotation(citation, content, base))
      .filter((annotation) => annotation !== undefined)
    base += part.text.length
    return written
  })
}

/** An entry of `reasoning_details` for a piece of visible reasoning. */
export const detailOfText = (
  form: ReasoningPart['form'],
  text: string,
  { reasoningFormat: format = FORMAT }: ResponseIdentity,
  index: number,
): Json =>
  form === 'summary'
    ? { type: 'reasoning.summary', summary: text, format, index }
    : { type: 'reasoning.text', text, format, index }

/**
 * The entry with a reasoning part's signature: the text's own entry, or an encrypted one where there is no signed text.
 */
export function detailOfSignature(
  head: { form?: ReasoningPart['form']; redacted?: boolean; id?: string },
  signature: string,
  { issuer, reasoningFormat: format = FORMAT }: ResponseIdentity,
  index: number,
  position: PartPosition,
): Json {
  const data = wrapSignature(signature, issuer, positionNote(position))
  const id = head.id === undefined ? {} : { id: head.id }
  return head.redacted === true || head.form === 'summary'
    ? { type: 'reasoning.encrypted', data, format, index, ...id }
    : { type: 'reasoning.text', text: '', signature: data, format, index, ...id }
}

/**
 * The entry with the signature of a part other than reasoning: a call's has the call's id, as OpenRouter writes it; a
 * text's and an image's have ids of Sluice's.
 */
export const detailOfPart = (
  id: string,
  signature: string,
  { issuer, reasoningFormat: format = FORMAT }: ResponseIdentity,
  index: number,
  position?: PartPosition,
): Json => ({
  type: 'reasoning.encrypted',
  data: wrapSignature(signature, issuer, position === undefined ? '' : positionNote(position)),
  format,
  index,
  id,
})

/** The id of the entry with a part's signature; undefined for a part that has none. `images`: those before it. */
function detailId(part: Part, images: number): string | undefined {
  if (part.type === 'tool-call') return part.id
  if (part.type === 'text') return TEXT_ID
  return part.type === 'image' ? imageId(images) : undefined
}

/** The entries of reasoning and of signatures, in the order of their parts. `hidden`: without the reasoning itself. */
function writeDetails(parts: Part[], identity: ResponseIdentity, hidden: boolean): Json[] {
  const details: Json[] = []
  let images = 0,
    calls = 0,
    text = 0
  for (const part of parts) {
    const position = { text, calls, ...(part.type === 'text' ? { end: (text += part.text.length) } : {}) }
    if (part.type === 'reasoning') {
      details.push(...detailsOfReasoning(hidden ? { ...part, text: '' } : part, identity, details.length, position))
      continue
    }
    if (part.type === 'tool-call') calls++
    const id = detailId(part, images)
    if (part.type === 'image') images++
    if (id !== undefined && 'signature' in part && part.signature !== undefined)
      details.push(
        detailOfPart(id, part.signature.data, identity, details.length, part.type === 'text' ? position : undefined),
      )
  }
  return details
}

/** One entry where the signature is that of the text, otherwise one for each of both that there is. */
function detailsOfReasoning(
  part: ReasoningPart,
  identity: ResponseIdentity,
  index: number,
  position: PartPosition,
): Json[] {
  const { signature, form, text, id } = part
  const signed = signature && detailOfSignature(part, signature.data, identity, index, position)
  if (signed?.type === 'reasoning.text') return [{ ...signed, text }]
  const entries: Json[] = []
  if (text !== '') entries.push({ ...detailOfText(form, text, identity, index), ...(id === undefined ? {} : { id }) })
  if (signed !== undefined) entries.push({ ...signed, index: index + entries.length })
  return entries
}
