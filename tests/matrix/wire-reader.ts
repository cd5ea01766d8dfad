import type { ConversationName } from '../../src/generation/request.ts'
import { requestContent, type RequestContent } from '../recorded/request-content.ts'
import { frameDataOf, responseContent, type Any, type ResponseContent } from '../recorded/response-content.ts'

/** The content of requests and responses of all protocols, read without the project's own readers. */

export type Citation = { url: string; title: string; passage: string }

export type WireResponse = {
  content: ResponseContent
  /** stop, length, tool-calls, blocked (by the model or a filter, with or without a text) or failed. */
  outcome: string
  stopSequence: string | undefined
  citations: Citation[]
  cacheWritten: number
  /** The ids of the calls, in order. */
  ids: string[]
  /** The response as the client sends it back. */
  earlierResponse: unknown
}

const listOf = (value: unknown): Any[] => (Array.isArray(value) ? value : [])

export function readWireResponse(protocol: ConversationName, text: string, stream: boolean): WireResponse {
  const datas = stream ? frameDataOf(text) : [JSON.parse(text) as unknown]
  const common = responseContent(protocol, datas, stream)
  const blocked = common.refused || common.outcome === 'refusal' || common.outcome === 'content-filter'
  const objects = datas.filter((data): data is Any => typeof data === 'object' && data !== null)
  const own = {
    'chat.completions': chatFields,
    responses: responsesFields,
    messages: messagesFields,
    generateContent: geminiFields,
  }[protocol](objects, stream)
  return {
    content: common,
    outcome:
      blocked && common.outcome !== 'failed' ? 'blocked' : common.outcome === 'stop-sequence' ? 'stop' : common.outcome,
    ...own,
  }
}

type ProtocolFields = Omit<WireResponse, 'content' | 'outcome'>

function chatFields(datas: Any[], stream: boolean): ProtocolFields {
  const message: Any = stream ? joinedChat(datas) : (datas[0]?.choices?.[0]?.message ?? {})
  const usage = datas.findLast((data) => data.usage != null)?.usage
  return {
    stopSequence: undefined,
    citations: listOf(message.annotations).map(({ url_citation: { url, title, start_index, end_index } }) => ({
      url,
      title,
      passage: passageOf(message.content ?? '', start_index, end_index),
    })),
    cacheWritten: usage?.prompt_tokens_details?.cache_write_tokens ?? 0,
    ids: listOf(message.tool_calls).map(({ id }) => id as string),
    earlierResponse: message,
  }
}

/** OpenAI's offsets count code points. */
const passageOf = (text: string, start: number, end: number): string => [...text].slice(start, end).join('')

/** Deltas as clients join them: texts are appended, details and calls of one index are one. */
function joinedChat(datas: Any[]): Any {
  const message: Any = { role: 'assistant', content: null }
  for (const delta of datas.map((data) => data.choices?.[0]?.delta ?? {})) {
    for (const name of ['content', 'refusal', 'reasoning'])
      if (typeof delta[name] === 'string' && delta[name] !== '') message[name] = (message[name] ?? '') + delta[name]
    if (delta.annotations !== undefined) message.annotations = [...(message.annotations ?? []), ...delta.annotations]
    for (const detail of listOf(delta.reasoning_details)) {
      const known = listOf((message.reasoning_details ??= [])).find(
        (one) => one.index === detail.index && one.type === detail.type,
      )
      if (known === undefined) message.reasoning_details.push({ ...detail })
      else
        for (const [name, value] of Object.entries(detail))
          known[name] = ['text', 'summary', 'data', 'signature'].includes(name)
            ? (known[name] ?? '') + (value as string)
            : value
    }
    for (const call of listOf(delta.tool_calls)) {
      const calls: Any[] = (message.tool_calls ??= [])
      const known = (calls[call.index] ??= {
        id: call.id,
        type: call.type,
        function: { name: call.function.name, arguments: '' },
      })
      known.function.arguments += call.function?.arguments ?? ''
    }
  }
  return message
}

function responsesFields(datas: Any[], stream: boolean): ProtocolFields {
  const response: Any = (stream ? datas.findLast((data) => data.response !== undefined)?.response : datas[0]) ?? {}
  const output = listOf(response.output)
  const texts = output.filter((item) => item.type === 'message').flatMap((item) => listOf(item.content))
  return {
    stopSequence: undefined,
    citations: texts.flatMap((part) =>
      listOf(part.annotations).map(({ url, title, start_index, end_index }) => ({
        url,
        title,
        passage: passageOf(part.text, start_index, end_index),
      })),
    ),
    cacheWritten: response.usage?.input_tokens_details?.cache_write_tokens ?? 0,
    ids: output.filter((item) => item.type === 'function_call').map((item) => item.call_id as string),
    earlierResponse: output,
  }
}

function messagesFields(datas: Any[], stream: boolean): ProtocolFields {
  const blocks = stream ? joinedBlocks(datas) : listOf(datas[0]?.content)
  const end: Any = (stream ? datas.findLast((data) => data.type === 'message_delta') : datas[0]) ?? {}
  return {
    stopSequence: (stream ? end.delta?.stop_sequence : end.stop_sequence) ?? undefined,
    citations: blocks.flatMap((block) =>
      listOf(block.citations).map(({ url, title }) => ({ url, title, passage: block.text })),
    ),
    cacheWritten: end.usage?.cache_creation_input_tokens ?? 0,
    ids: blocks.filter((block) => block.type === 'tool_use').map((block) => block.id as string),
    earlierResponse: blocks,
  }
}

function joinedBlocks(datas: Any[]): Any[] {
  const blocks: Any[] = []
  for (const { type, index, content_block, delta } of datas) {
    if (type === 'content_block_start') blocks[index] = { ...content_block }
    if (type === 'content_block_stop' && blocks[index]?.json !== undefined) {
      const { json, ...block } = blocks[index]
      blocks[index] = { ...block, input: parsed(json) }
    }
    if (type !== 'content_block_delta') continue
    const block = blocks[index]!
    if (delta.type === 'citations_delta') block.citations = [...(block.citations ?? []), delta.citation]
    else
      for (const [from, to] of [
        ['text', 'text'],
        ['thinking', 'thinking'],
        ['signature', 'signature'],
        ['partial_json', 'json'],
      ] as const)
        if (delta[from] !== undefined) block[to] = (block[to] ?? '') + delta[from]
  }
  return blocks
}

const parsed = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return {}
  }
}

function geminiFields(datas: Any[]): ProtocolFields {
  const parts = datas.flatMap((data) => listOf(data.candidates?.[0]?.content?.parts))
  const text = parts.map((part) => (part.thought === true ? '' : (part.text ?? ''))).join('')
  const grounding = datas.map((data) => data.candidates?.[0]?.groundingMetadata).filter((one) => one !== undefined)
  return {
    stopSequence: undefined,
    citations: grounding.flatMap(({ groundingChunks, groundingSupports }) =>
      listOf(groundingSupports).flatMap(({ segment, groundingChunkIndices }) =>
        listOf(groundingChunkIndices).map((index) => {
          const chunk = groundingChunks[index as unknown as number]
          const web = chunk.web ?? chunk.retrievedContext
          const base = segment.partIndex === undefined ? text : parts[segment.partIndex]!.text
          return {
            url: web.uri,
            title: web.title,
            passage: Buffer.from(base)
              .subarray(segment.startIndex ?? 0, segment.endIndex)
              .toString(),
          }
        }),
      ),
    ),
    cacheWritten: 0,
    ids: parts.filter((part) => part.functionCall !== undefined).map((part) => part.functionCall.id ?? ''),
    earlierResponse: parts.filter((part) => part.text !== '' || part.thoughtSignature !== undefined),
  }
}

/** `failed`: a tool result is marked as an error. */
export type WireRequest = {
  content: RequestContent
  failed: boolean
  stop: string[]
  schema: unknown
  /** The name of the schema; protocols without a field for it have it as the title. */
  schemaName: unknown
  maxTokens: unknown
  signatures: string[]
}

export function readWireRequest(protocol: ConversationName, body: Any): WireRequest {
  const config = body.generationConfig ?? {}
  const { title, ...schema } =
    body.response_format?.json_schema?.schema ??
    body.text?.format?.schema ??
    body.output_config?.format?.schema ??
    config.responseJsonSchema ??
    config.responseSchema ??
    {}
  return {
    content: requestContent(protocol, body),
    stop: listOf(body.stop ?? body.stop_sequences ?? config.stopSequences) as unknown as string[],
    schema,
    schemaName: body.response_format?.json_schema?.name ?? body.text?.format?.name ?? title,
    maxTokens: body.max_completion_tokens ?? body.max_tokens ?? body.max_output_tokens ?? config.maxOutputTokens,
    signatures: signaturesIn(body),
    failed: FAILED.test(JSON.stringify(body)),
  }
}

// OpenAI's protocols have no error flag: a text prefix marks the result.
const FAILED = /"is_error":true|"response":\{"error":|"(content|output)":"Error: /

const SIGNED = new Set(['signature', 'encrypted_content', 'thoughtSignature', 'thought_signature'])

/** Every signature of reasoning in a body. */
const signaturesIn = (value: unknown): string[] =>
  typeof value !== 'object' || value === null
    ? []
    : Object.entries(value).flatMap(([name, inner]) =>
        SIGNED.has(name) && typeof inner === 'string' && inner !== '' ? [inner] : signaturesIn(inner),
      )

/** The message of an error response. */
export const errorMessageOf = (text: string): string => {
  try {
    const body = JSON.parse(text) as Any
    return body.error?.message ?? ''
  } catch {
    return ''
  }
}
