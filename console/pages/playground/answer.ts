import type { ConversationName } from '../../parts/protocols.ts'

export type Call = { name: string; arguments: string }

/** An answer as far as it has come. */
export type Answer = {
  text: string
  reasoning: string
  refusal: string
  calls: Call[]
  /** Images as `data:` URLs, or their addresses. */
  images: string[]
  finish: string | undefined
  usage: { input: number; output: number } | undefined
  error: string | undefined
}

export const noAnswer = (): Answer => ({
  text: '',
  reasoning: '',
  refusal: '',
  calls: [],
  images: [],
  finish: undefined,
  usage: undefined,
  error: undefined,
})

// Answers are of any shape: nothing is read from them without a look at its type.
type Json = { readonly [name: string]: Json } & readonly Json[] & (string | number | boolean | null)
type Loose = Json | undefined

const text = (value: Loose): string => (typeof value === 'string' ? value : '')
const items = (value: Loose): readonly Json[] => (Array.isArray(value) ? (value as readonly Json[]) : [])
const number = (value: Loose): number => (typeof value === 'number' ? (value as number) : 0)
const has = (value: Loose): value is Json => value !== undefined && value !== null

const dataUrl = (type: string, base64: string): string => `data:${type};base64,${base64}`

/** Pixels that came with the answer: nothing is loaded to show them, and they hold no markup. */
export const isShownImage = (url: string): boolean => /^data:image\/(?:png|jpeg|webp|gif);base64,/.test(url)

/** Adds one JSON value of a protocol, a frame of a stream or a whole body, to an answer. */
export function addTo(answer: Answer, protocol: ConversationName, value: unknown): void {
  const json = value as Loose
  if (typeof json !== 'object' || !has(json)) return
  const error = (json['error'] ?? json['response']?.['error']) as Loose
  if (has(error)) answer.error = text(error['message']) || text(error as Loose) || JSON.stringify(error)
  READERS[protocol](answer, json)
}

const READERS: Record<ConversationName, (answer: Answer, json: Json) => void> = {
  'chat.completions': readChat,
  responses: readResponses,
  messages: readMessages,
  generateContent: readGemini,
}

function readChat(answer: Answer, json: Json): void {
  const choice = items(json['choices'])[0]
  const part = (choice?.['delta'] ?? choice?.['message']) as Loose
  if (has(part)) {
    answer.text += text(part['content'])
    answer.reasoning += text(part['reasoning'] ?? part['reasoning_content'])
    answer.refusal += text(part['refusal'])
    for (const image of items(part['images'])) answer.images.push(text(image['image_url']?.['url']))
    for (const [place, call] of items(part['tool_calls']).entries()) {
      const index = typeof call['index'] === 'number' ? number(call['index']) : place
      const known = (answer.calls[index] ??= { name: '', arguments: '' })
      known.name += text(call['function']?.['name'])
      known.arguments += text(call['function']?.['arguments'])
    }
  }
  if (has(choice?.['finish_reason'])) answer.finish = text(choice['finish_reason'])
  setUsage(answer, json['usage'], 'prompt_tokens', 'completion_tokens')
}

function readResponses(answer: Answer, json: Json): void {
  const delta = text(json['delta'])
  switch (text(json['type'])) {
    case 'response.output_text.delta':
      answer.text += delta
      return
    case 'response.reasoning_summary_text.delta':
    case 'response.reasoning_text.delta':
      answer.reasoning += delta
      return
    case 'response.refusal.delta':
      answer.refusal += delta
      return
    case 'response.output_item.added':
    case 'response.output_item.done':
      return readItem(answer, json['item'], text(json['type']) === 'response.output_item.done')
    case 'response.completed':
    case 'response.incomplete':
    case 'response.failed':
      return endResponse(answer, json['response'])
    case '':
      for (const item of items(json['output'])) readWholeItem(answer, item)
      return endResponse(answer, json)
  }
}

/** A call is named when it is added, and complete when it is done. */
function readItem(answer: Answer, item: Loose, isDone: boolean): void {
  if (!has(item)) return
  if (isDone) readImage(answer, item)
  if (text(item['type']) !== 'function_call') return
  if (isDone) {
    const call = answer.calls.at(-1)
    if (call !== undefined) call.arguments = text(item['arguments'])
  } else answer.calls.push({ name: text(item['name']), arguments: '' })
}

function readImage(answer: Answer, item: Json): void {
  if (text(item['type']) === 'image_generation_call' && text(item['result']) !== '')
    answer.images.push(dataUrl(`image/${text(item['output_format']) || 'png'}`, text(item['result'])))
}

function readWholeItem(answer: Answer, item: Json): void {
  readImage(answer, item)
  if (text(item['type']) === 'function_call')
    answer.calls.push({ name: text(item['name']), arguments: text(item['arguments']) })
  for (const part of items(item['content'])) {
    if (text(item['type']) === 'reasoning') answer.reasoning += text(part['text'])
    else answer.text += text(part['text'])
    answer.refusal += text(part['refusal'])
  }
  for (const part of items(item['summary'])) answer.reasoning += text(part['text'])
}

function endResponse(answer: Answer, response: Loose): void {
  if (!has(response)) return
  answer.finish = text(response['incomplete_details']?.['reason']) || text(response['status'])
  setUsage(answer, response['usage'], 'input_tokens', 'output_tokens')
}

function readMessages(answer: Answer, json: Json): void {
  const type = text(json['type'])
  if (type === 'content_block_start') return startBlock(answer, json['content_block'])
  if (type === 'content_block_delta') {
    const delta = json['delta'] as Loose
    answer.text += text(delta?.['text'])
    answer.reasoning += text(delta?.['thinking'])
    const call = answer.calls.at(-1)
    if (call !== undefined) call.arguments += text(delta?.['partial_json'])
    return
  }
  if (type === 'message_start') return setUsage(answer, json['message']?.['usage'], 'input_tokens', 'output_tokens')
  for (const block of items(json['content'])) {
    startBlock(answer, block)
    const call = answer.calls.at(-1)
    if (text(block['type']) === 'tool_use' && call !== undefined) call.arguments = JSON.stringify(block['input'] ?? {})
  }
  const finish = json['delta']?.['stop_reason'] ?? json['stop_reason']
  if (has(finish as Loose)) answer.finish = text(finish as Loose)
  setUsage(answer, json['usage'], 'input_tokens', 'output_tokens')
}

function startBlock(answer: Answer, block: Loose): void {
  if (!has(block)) return
  if (text(block['type']) === 'tool_use') answer.calls.push({ name: text(block['name']), arguments: '' })
  answer.text += text(block['text'])
  answer.reasoning += text(block['thinking'])
}

function readGemini(answer: Answer, json: Json): void {
  const candidate = items(json['candidates'])[0]
  for (const part of items(candidate?.['content']?.['parts'])) {
    if (has(part['functionCall'] as Loose)) {
      const call = part['functionCall'] as Json
      answer.calls.push({ name: text(call['name']), arguments: JSON.stringify(call['args'] ?? {}) })
    } else if (has(part['inlineData'] as Loose)) {
      const { mimeType, data } = part['inlineData'] as Json
      answer.images.push(dataUrl(text(mimeType), text(data)))
    } else if (part['thought'] === (true as unknown)) answer.reasoning += text(part['text'])
    else answer.text += text(part['text'])
  }
  const finish = candidate?.['finishReason']
  if (has(finish as Loose)) answer.finish = text(finish as Loose)
  setUsage(answer, json['usageMetadata'], 'promptTokenCount', 'candidatesTokenCount')
}

/** Counts can come in several frames, each with those that are known by then. */
function setUsage(answer: Answer, usage: Loose, input: string, output: string): void {
  if (typeof usage !== 'object' || !has(usage)) return
  const before = answer.usage ?? { input: 0, output: 0 }
  answer.usage = {
    input: number(usage[input]) || before.input,
    output: number(usage[output]) + number(usage['thoughtsTokenCount']) || before.output,
  }
}
