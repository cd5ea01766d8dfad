import type { ConversationName } from '../../src/generation/request.ts'
import type { Any } from './response-content.ts'

/** The content of a request of any protocol, read without the gateway's readers. */
export type RequestContent = {
  /** Every text of system, user and assistant, in order. */
  texts: string[]
  calls: { name: string; input: unknown }[]
  /** The texts of each tool result. */
  results: string[]
  /**
   * The client's tools with the names of their parameters. Each is listed once, though some are declared again within a
   * conversation.
   */
  tools: string[]
  /** Number of images and files. */
  media: number
}

export const requestContent = (protocol: ConversationName, body: Any): RequestContent => {
  const out: RequestContent = { texts: [], calls: [], results: [], tools: [], media: 0 }
  ;({
    'chat.completions': readChat,
    responses: readResponses,
    messages: readMessages,
    generateContent: readGemini,
  })[protocol](body, out)
  return { ...out, tools: [...new Set(out.tools)].sort(), texts: out.texts.filter((text) => text.trim() !== '') }
}

const jsonOf = (text: string): unknown => (text.trim() === '' ? {} : JSON.parse(text))
const listOf = (value: unknown): Any[] => (Array.isArray(value) ? value : [])
const partsOf = (content: unknown): Any[] =>
  typeof content === 'string' ? [{ type: 'text', text: content }] : listOf(content)
const MEDIA = [
  'image_url',
  'input_audio',
  'file',
  'input_image',
  'input_file',
  'input_video',
  'image',
  'document',
  'video_url',
]

/** Adds a part of OpenAI's or Anthropic's protocols; parts of other kinds have no counterpart and are not counted. */
function addPart(one: Any, out: RequestContent): void {
  // Anthropic's plain-text documents are text in the other protocols.
  if (one.type === 'document' && ['text', 'content'].includes(one.source?.type))
    return void out.texts.push(one.source.data ?? textOf(one.source.content))
  if (typeof one.text === 'string' && one.type !== 'reasoning') out.texts.push(one.text)
  else if (one.type === 'refusal') out.texts.push(one.refusal)
  else if (MEDIA.includes(one.type)) out.media++
}

/** A tool's name and the names of its parameters. */
const signatureOf = (tool: Any, schema: Any | null | undefined): string =>
  `${tool.name}(${Object.keys(schema?.properties ?? {})
    .sort()
    .join(', ')})`

/** The schema of a free-text tool in protocols without free-text tools. */
const CUSTOM = { properties: { input: {} } }

const textOf = (content: unknown): string =>
  partsOf(content)
    .map((one) => one.text ?? '')
    .join('\n')

function readChat(body: Any, out: RequestContent): void {
  for (const message of body.messages as Any[]) {
    if (message.role === 'tool' || message.role === 'function') out.results.push(textOf(message.content))
    else for (const one of partsOf(message.content)) addPart(one, out)
    if (typeof message.refusal === 'string') out.texts.push(message.refusal)
    for (const { custom, function: own } of listOf(message.tool_calls))
      out.calls.push(
        custom
          ? { name: custom.name, input: { input: custom.input } }
          : { name: own.name, input: jsonOf(own.arguments) },
      )
  }
  out.tools = listOf(body.tools).flatMap((tool) =>
    tool.function
      ? signatureOf(tool.function, tool.function.parameters)
      : tool.custom
        ? signatureOf(tool.custom, CUSTOM)
        : [],
  )
}

/** A search of tools by the client, which has no name of its own. */
const clientSearch = (tool: Any): Any => ({ ...tool, type: 'function', name: 'tool_search' })

function readResponses(body: Any, out: RequestContent): void {
  if (typeof body.instructions === 'string') out.texts.push(body.instructions)
  for (const item of typeof body.input === 'string' ? [{ content: body.input }] : listOf(body.input)) {
    switch (item.type ?? 'message') {
      case 'message':
        for (const one of partsOf(item.content)) addPart(one, out)
        break
      case 'function_call':
        out.calls.push({ name: item.name, input: jsonOf(item.arguments) })
        break
      case 'custom_tool_call':
        out.calls.push({ name: item.name, input: { input: item.input } })
        break
      case 'function_call_output':
      case 'custom_tool_call_output':
        out.results.push(textOf(item.output))
        out.media += listOf(item.output).filter((one) => MEDIA.includes(one.type)).length
        break
      default:
        break
    }
  }
  const tools = [body, ...listOf(body.input), ...listOf(body.tools)].flatMap((holder) => listOf(holder.tools))
  out.tools = tools
    .map((tool) => (tool.type === 'tool_search' && tool.execution === 'client' ? clientSearch(tool) : tool))
    .filter((tool) => tool.type === 'function' || tool.type === 'custom')
    .map((tool) => signatureOf(tool, tool.type === 'custom' ? CUSTOM : tool.parameters))
}

function readMessages(body: Any, out: RequestContent): void {
  for (const one of partsOf(body.system)) addPart(one, out)
  for (const message of body.messages as Any[]) {
    for (const one of partsOf(message.content)) {
      if (one.type === 'tool_use') out.calls.push({ name: one.name, input: one.input })
      else if (one.type === 'tool_result') {
        out.results.push(textOf(one.content))
        out.media += listOf(one.content).filter((inner) => MEDIA.includes(inner.type)).length
      } else addPart(one, out)
    }
  }
  out.tools = listOf(body.tools)
    .filter((tool) => tool.type === undefined || tool.type === null || tool.type === 'custom')
    .map((tool) => signatureOf(tool, tool.input_schema))
}

function readGemini(body: Any, out: RequestContent): void {
  const system = body.systemInstruction ?? body.system_instruction
  for (const content of [
    ...(system === undefined ? [] : [typeof system === 'string' ? { parts: [{ text: system }] } : system]),
    ...listOf(body.contents),
  ]) {
    for (const one of [content.parts].flat() as Any[]) {
      const call = one.functionCall ?? one.function_call,
        result = one.functionResponse ?? one.function_response
      if (typeof one.text === 'string' && one.thought !== true) out.texts.push(one.text)
      if (call !== undefined) out.calls.push({ name: call.name, input: call.args ?? {} })
      if (result !== undefined) out.results.push(resultOf(result.response))
      const media = mediaOf(one)
      if (media?.mimeType === 'text/plain' && media.data !== undefined)
        out.texts.push(Buffer.from(media.data, 'base64').toString())
      else if (media !== undefined) out.media++
      out.media += listOf(result?.parts).filter((inner) => mediaOf(inner) !== undefined).length
    }
  }
  out.tools = listOf(body.tools)
    .flatMap((tool) => listOf(tool.functionDeclarations ?? tool.function_declarations))
    .map((tool) => signatureOf(tool, tool.parametersJsonSchema ?? tool.parameters_json_schema ?? tool.parameters))
}

const mediaOf = (one: Any): Any | undefined => one.inlineData ?? one.fileData ?? one.inline_data ?? one.file_data

/** Google's results are objects; a single text member `output` or `error` is the result in the other protocols. */
const resultOf = (response: Any): string => {
  const [key, ...more] = Object.keys(response)
  if ((key !== 'output' && key !== 'error') || more.length > 0) return JSON.stringify(response)
  const value = response[key] as unknown
  if (typeof value === 'string') return value
  return JSON.stringify(key === 'output' ? value : response)
}
