import type { ConversationName } from '../../parts/protocols.ts'
import { type Conversation, type Effort, numberOf, schemaOf, type Tool, toolsOf, type Turn } from './conversation.ts'

export type Body = Record<string, unknown>
/** Where a body is sent. Google has model and streaming in the path. */
export const pathOf = (protocol: ConversationName, model: string, stream: boolean): string =>
  protocol === 'generateContent'
    ? `/v1beta/models/${model}:${stream ? 'streamGenerateContent?alt=sse' : 'generateContent'}`
    : PATHS[protocol]

const PATHS = {
  'chat.completions': '/v1/chat/completions',
  responses: '/v1/responses',
  messages: '/v1/messages',
} as const

/** The conversation in the words of a protocol. Throws an Error where the form is wrong. */
export function bodyOf(protocol: ConversationName, model: string, form: Conversation): Body {
  const settings: Settings = {
    model,
    form,
    tools: toolsOf(form),
    schema: schemaOf(form),
    max: numberOf(form.maxTokens, 'Output limit'),
    temperature: numberOf(form.temperature, 'Temperature'),
    seed: numberOf(form.seed, 'Seed'),
    effort: form.effort === '' ? undefined : form.effort,
  }
  return compact(WRITERS[protocol](settings))
}

/** Settings of the form that a protocol cannot represent. */
export function unsupportedSettings(protocol: ConversationName, form: Conversation): string[] {
  if (form.seed.trim() === '') return []
  return protocol === 'messages' || protocol === 'responses' ? ['seed'] : []
}

type Settings = {
  model: string
  form: Conversation
  tools: Tool[]
  schema: unknown
  max: number | undefined
  temperature: number | undefined
  seed: number | undefined
  effort: Effort | undefined
}

const WRITERS: Record<ConversationName, (settings: Settings) => Body> = {
  'chat.completions': ({ model, form, tools, schema, max, temperature, seed, effort }) => ({
    model,
    messages: [...systemMessage(form), ...form.turns.map((turn) => ({ role: turn.role, content: chatContent(turn) }))],
    max_completion_tokens: max,
    temperature,
    seed,
    reasoning_effort: effort,
    tools: list(tools.map((tool) => ({ type: 'function', function: tool }))),
    response_format: schema && { type: 'json_schema', json_schema: { name: 'answer', schema } },
    stream: form.stream || undefined,
    stream_options: form.stream ? { include_usage: true } : undefined,
  }),
  responses: ({ model, form, tools, schema, max, temperature, effort }) => ({
    model,
    instructions: form.system || undefined,
    input: form.turns.map((turn) => ({ role: turn.role, content: responsesContent(turn) })),
    max_output_tokens: max,
    temperature,
    reasoning: effort && { effort, summary: 'auto' },
    tools: list(tools.map((tool) => ({ type: 'function', ...tool }))),
    text: schema && { format: { type: 'json_schema', name: 'answer', schema } },
    store: false,
    stream: form.stream || undefined,
  }),
  messages: ({ model, form, tools, schema, max, temperature, effort }) => ({
    model,
    max_tokens: max ?? LIMIT_REQUIRED,
    system: form.system || undefined,
    messages: form.turns.map((turn) => ({ role: turn.role, content: messagesContent(turn) })),
    temperature,
    thinking: effort && { type: 'adaptive' },
    output_config:
      effort === undefined && schema === undefined
        ? undefined
        : compact({ effort, format: schema && { type: 'json_schema', schema } }),
    tools: list(
      tools.map(({ name, description, parameters }) =>
        compact({ name, description, input_schema: parameters ?? { type: 'object' } }),
      ),
    ),
    stream: form.stream || undefined,
  }),
  generateContent: ({ form, tools, schema, max, temperature, seed, effort }) => ({
    systemInstruction: form.system === '' ? undefined : { parts: [{ text: form.system }] },
    contents: form.turns.map((turn) => ({ role: turn.role === 'user' ? 'user' : 'model', parts: geminiParts(turn) })),
    tools: tools.length === 0 ? undefined : [{ functionDeclarations: tools.map(geminiTool) }],
    generationConfig: notEmpty(
      compact({
        maxOutputTokens: max,
        temperature,
        seed,
        thinkingConfig: effort && { thinkingLevel: effort.toUpperCase(), includeThoughts: true },
        responseMimeType: schema && 'application/json',
        responseJsonSchema: schema,
      }),
    ),
  }),
}

/** Messages has no default for it. */
const LIMIT_REQUIRED = 4096

const compact = (body: Body): Body =>
  Object.fromEntries(Object.entries(body).filter(([, value]) => value !== undefined))
const notEmpty = (body: Body): Body | undefined => (Object.keys(body).length === 0 ? undefined : body)
const list = <T>(all: readonly T[]): readonly T[] | undefined => (all.length === 0 ? undefined : all)
const dataUrl = (type: string, base64: string): string => `data:${type};base64,${base64}`

const systemMessage = ({ system }: Conversation): Body[] => (system === '' ? [] : [{ role: 'system', content: system }])

function chatContent({ text, media }: Turn): unknown {
  if (media.length === 0) return text
  return [
    ...media.map(({ name, type, base64 }) =>
      type.startsWith('image/')
        ? { type: 'image_url', image_url: { url: dataUrl(type, base64) } }
        : { type: 'file', file: { filename: name, file_data: dataUrl(type, base64) } },
    ),
    ...textPart(text, 'text'),
  ]
}

function responsesContent({ role, text, media }: Turn): unknown {
  if (media.length === 0) return text
  return [
    ...media.map(({ name, type, base64 }) =>
      type.startsWith('image/')
        ? { type: 'input_image', image_url: dataUrl(type, base64) }
        : { type: 'input_file', filename: name, file_data: dataUrl(type, base64) },
    ),
    ...textPart(text, role === 'user' ? 'input_text' : 'output_text'),
  ]
}

function messagesContent({ text, media }: Turn): unknown {
  if (media.length === 0) return text
  return [
    ...media.map(({ type, base64 }) => ({
      type: type.startsWith('image/') ? 'image' : 'document',
      source: { type: 'base64', media_type: type, data: base64 },
    })),
    ...textPart(text, 'text'),
  ]
}

const textPart = (text: string, type: string): Body[] => (text === '' ? [] : [{ type, text }])

const geminiParts = ({ text, media }: Turn): Body[] => [
  ...media.map(({ type, base64 }) => ({ inlineData: { mimeType: type, data: base64 } })),
  ...(text === '' && media.length > 0 ? [] : [{ text }]),
]

const geminiTool = ({ name, description, parameters }: Tool): Body =>
  compact({ name, description, parametersJsonSchema: parameters })
