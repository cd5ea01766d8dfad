import type { ConversationName } from '../../src/generation/request.ts'

/** The content of a response of any protocol, read without the gateway's readers. */
export type ResponseContent = {
  /** Text and refusals, as the user sees them. */
  text: string
  reasoning: string
  /** Free text of a custom tool is `{input}`; arguments that were cut off are `CUT`. */
  calls: { name: string; input: unknown }[]
  outcome: Outcome
  /** The value of the protocol's field. */
  finishReason: string
  refused: boolean
  usage: { prompt: number; completion: number; cached: number; reasoning: number } | undefined
}

export type Outcome =
  | 'stop'
  | 'stop-sequence'
  | 'length'
  | 'tool-calls'
  | 'content-filter'
  | 'refusal'
  | 'pause'
  | 'other'
  | 'failed'

export const CUT = 'cut off'

// Recorded JSON has no static type; a test that reads it wrongly fails.
export type Any = Record<string, any>

/** The data of the frames of a stream as JSON, in order; data that is no JSON stays text. */
export const frameDataOf = (text: string): unknown[] =>
  text
    .replace(/^\uFEFF/, '')
    .replaceAll('\r\n', '\n')
    .split('\n\n')
    .flatMap((block): unknown[] => {
      const data = block
        .split('\n')
        .filter((line) => line.startsWith('data:'))
        .map((line) => line.slice(5).replace(/^ /, ''))
        .join('\n')
      return data !== '' ? [parse(data)] : block.trim().startsWith('{') ? [parse(block)] : []
    })

const parse = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

/** `frames`: the frames of a stream; the one body (or Google's array of them) of a response that was not streamed. */
export function responseContent(protocol: ConversationName, frames: unknown[], stream: boolean): ResponseContent {
  return {
    'chat.completions': chatContent,
    responses: responsesContent,
    messages: messagesContent,
    generateContent: geminiContent,
  }[protocol](frames, stream)
}

const inputOf = (text: string): unknown => {
  try {
    return text.trim() === '' ? {} : JSON.parse(text)
  } catch {
    return CUT
  }
}

const outcomeOf = (table: Record<string, Outcome>, finishReason: string, called: boolean): Outcome => {
  // Some servers send no finish reason in a complete response.
  if (finishReason === '') return called ? 'tool-calls' : 'stop'
  const outcome = Object.hasOwn(table, finishReason) ? table[finishReason]! : 'other'
  if (called && ['stop', 'tool-calls', 'other'].includes(outcome)) return 'tool-calls'
  return outcome === 'tool-calls' && !called ? 'stop' : outcome
}

const CHAT: Record<string, Outcome> = {
  stop: 'stop',
  length: 'length',
  tool_calls: 'tool-calls',
  function_call: 'tool-calls',
  content_filter: 'content-filter',
}

function chatContent(frames: unknown[], stream: boolean): ResponseContent {
  const chunks = frames.filter((data): data is Any => typeof data === 'object')
  let [text, refusal, reasoning] = ['', '', '']
  let finishReason: string | undefined, usage: Any | undefined
  const calls = new Map<number, { name: string; text: string; custom: boolean }>()
  for (const chunk of chunks) {
    usage = chunk.usage ?? chunk.x_groq?.usage ?? usage
    const choice = (chunk.choices ?? []).find((one: Any) => one.index === 0)
    const delta = (stream ? choice?.delta : choice?.message) ?? {}
    // Mistral's models that reason have a list of typed parts instead of a text.
    const parts = Array.isArray(delta.content) ? (delta.content as Any[]) : undefined
    text += parts?.map((part) => part.text ?? '').join('') ?? (delta.content || (delta.audio?.transcript ?? ''))
    reasoning += (parts ?? [])
      .flatMap((part) => (part.thinking ?? []) as Any[])
      .map((inner) => inner.text)
      .join('')
    refusal += delta.refusal ?? ''
    const details = ((delta.reasoning_details ?? []) as Any[])
      .map((detail) => detail.text ?? detail.summary ?? '')
      .join('')
    reasoning += details || (delta.reasoning ?? delta.reasoning_content ?? '')
    for (const [position, call] of ((delta.tool_calls ?? []) as Any[]).entries()) {
      const known = calls.get(call.index ?? position) ?? { name: '', text: '', custom: false }
      const called = (call.type === 'custom' ? call.custom : call.function) ?? call.custom ?? {}
      calls.set(call.index ?? position, {
        name: known.name || called.name,
        text: known.text + (called.arguments ?? called.input ?? ''),
        custom: known.custom || call.type === 'custom',
      })
    }
    finishReason = choice?.finish_reason ?? finishReason
  }
  const failed =
    chunks.some((chunk) => chunk.error != null) ||
    (stream && finishReason === undefined && !(usage !== undefined && frames.includes('[DONE]')))
  return {
    text: text + refusal,
    reasoning,
    refused: refusal !== '',
    calls: [...calls.values()].map((call) => ({
      name: call.name,
      input: call.custom ? { input: call.text } : inputOf(call.text),
    })),
    finishReason: finishReason ?? '',
    outcome: failed ? 'failed' : outcomeOf(CHAT, finishReason ?? '', calls.size > 0),
    usage: usage && chatUsage(usage),
  }
}

function chatUsage(usage: Any): ResponseContent['usage'] {
  // Google's thoughts have no name, but are in its total, which is the only count beside the other two.
  const unnamed =
    Object.keys(usage).length === 3 ? usage.total_tokens - usage.prompt_tokens - usage.completion_tokens : 0
  const reasoning = usage.completion_tokens_details?.reasoning_tokens ?? usage.reasoning_tokens ?? unnamed
  const beside = reasoning > 0 && usage.total_tokens === usage.prompt_tokens + usage.completion_tokens + reasoning
  const audio = usage.prompt_tokens_details?.audio_tokens ?? 0
  const isAudioBeside = usage.total_tokens === usage.prompt_tokens + usage.completion_tokens + audio
  return {
    prompt: usage.prompt_tokens + (isAudioBeside ? audio : 0),
    completion: usage.completion_tokens + (beside ? reasoning : 0),
    reasoning,
    cached: usage.prompt_tokens_details?.cached_tokens ?? usage.prompt_cache_hit_tokens ?? 0,
  }
}

const TERMINAL = ['response.completed', 'response.incomplete', 'response.failed']

function responsesContent(frames: unknown[], stream: boolean): ResponseContent {
  const events = frames.filter((data): data is Any => typeof data === 'object')
  const terminal: Any | undefined = stream ? events.find((event) => TERMINAL.includes(event.type))?.response : events[0]
  const end = stream ? events.findIndex((event) => TERMINAL.includes(event.type)) : 0
  const done = events
    .slice(0, end)
    .filter((event) => event.type === 'response.output_item.done')
    .map((event) => event.item as Any)
  const items: Any[] = done.length > 0 ? done : (terminal?.output ?? [])
  const content = items.filter((item) => item.type === 'message').flatMap((item) => item.content ?? []) as Any[]
  const refused = content.some((part) => part.type === 'refusal')
  const calls = items.filter((item) => ['function_call', 'custom_tool_call'].includes(item.type))
  // A response that is incomplete without a reason was cut.
  const unexplained = terminal?.status === 'incomplete' ? 'max_output_tokens' : terminal?.status
  const finishReason = terminal?.incomplete_details?.reason ?? unexplained ?? ''
  // Zeros are no report.
  const usage: Any | undefined = terminal?.usage?.total_tokens === 0 ? undefined : (terminal?.usage ?? undefined)
  return {
    text: content.map((part) => part.text ?? part.refusal ?? '').join(''),
    refused,
    reasoning: items
      .filter((item) => item.type === 'reasoning')
      .flatMap((item) => [...(item.summary ?? []), ...(item.content ?? [])] as Any[])
      .map((part) => part.text)
      .join(''),
    calls: calls.map((item) => ({
      name: item.name,
      input: item.type === 'custom_tool_call' ? { input: item.input } : inputOf(item.arguments),
    })),
    finishReason,
    outcome:
      terminal === undefined || terminal.status === 'failed'
        ? 'failed'
        : outcomeOf(
            { completed: 'stop', max_output_tokens: 'length', content_filter: 'content-filter' },
            finishReason,
            calls.length > 0,
          ),
    usage: usage && {
      prompt: usage.input_tokens,
      completion: usage.output_tokens,
      cached: usage.input_tokens_details?.cached_tokens ?? 0,
      reasoning: usage.output_tokens_details?.reasoning_tokens ?? 0,
    },
  }
}

const MESSAGES: Record<string, Outcome> = {
  end_turn: 'stop',
  stop_sequence: 'stop-sequence',
  max_tokens: 'length',
  model_context_window_exceeded: 'length',
  tool_use: 'tool-calls',
  refusal: 'refusal',
  pause_turn: 'pause',
}

function messagesContent(frames: unknown[], stream: boolean): ResponseContent {
  const all = frames.filter((data): data is Any => typeof data === 'object')
  const stop = all.findIndex((data) => data.type === 'message_stop')
  const events = stop === -1 ? all : all.slice(0, stop)
  const blocks: Any[] = stream ? messageBlocks(events) : events[0]!.content
  const usages: Any[] = stream
    ? events.map((event) => event.message?.usage ?? event.usage).filter((usage) => usage != null)
    : [events[0]!.usage]
  const finishReason: string =
    (stream
      ? (events.findLast((event) => event.delta?.stop_reason != null)?.delta.stop_reason ??
        events[0]?.message?.stop_reason)
      : events[0]!.stop_reason) ?? ''
  const of = (type: string, member: string): string =>
    blocks
      .filter((block) => block.type === type)
      .map((block) => block[member] ?? '')
      .join('')
  const calls = blocks.filter((block) => block.type === 'tool_use')
  return {
    text: of('text', 'text'),
    reasoning: of('thinking', 'thinking'),
    refused: false,
    calls: calls.map((block) => ({
      name: block.name,
      input: block.json === '' || block.json === undefined ? block.input : inputOf(block.json),
    })),
    finishReason,
    outcome: stream && stop === -1 ? 'failed' : outcomeOf(MESSAGES, finishReason, calls.length > 0),
    usage: messagesUsage(usages),
  }
}

function messageBlocks(events: Any[]): Any[] {
  const blocks: Any[] = [...(events.find((event) => event.type === 'message_start')?.message.content ?? [])]
  const open = new Map<number, Any>()
  for (const { type, index, content_block, delta } of events) {
    if (type === 'content_block_start') {
      open.set(index, { ...content_block })
      blocks.push(open.get(index)!)
    }
    const block = type === 'content_block_delta' ? open.get(index) : undefined
    if (block === undefined) continue
    for (const [from, to] of [
      ['text', 'text'],
      ['thinking', 'thinking'],
      ['partial_json', 'json'],
    ] as const)
      if (typeof delta[from] === 'string') block[to] = (block[to] ?? '') + delta[from]
  }
  return blocks
}

/** The last value of each count; compactions of a long conversation are counted in addition. */
function messagesUsage(usages: Any[]): ResponseContent['usage'] {
  const last = (read: (usage: Any) => unknown): number =>
    usages
      .map(read)
      .filter((value): value is number => typeof value === 'number')
      .at(-1) ?? 0
  const compactions: Any[] = (usages.findLast((usage) => Array.isArray(usage.iterations))?.iterations ?? []).filter(
    (iteration: Any) => iteration.type === 'compaction',
  )
  const sum = (name: string): number => compactions.reduce((total, iteration) => total + (iteration[name] ?? 0), 0)
  const cached = last((usage) => usage.cache_read_input_tokens)
  return {
    prompt:
      last((usage) => usage.input_tokens) +
      cached +
      last((usage) => usage.cache_creation_input_tokens) +
      sum('input_tokens'),
    completion: last((usage) => usage.output_tokens) + sum('output_tokens'),
    cached,
    reasoning: last((usage) => usage.output_tokens_details?.thinking_tokens),
  }
}

const BLOCKED = [
  'SAFETY',
  'RECITATION',
  'BLOCKLIST',
  'PROHIBITED_CONTENT',
  'SPII',
  'IMAGE_SAFETY',
  'IMAGE_PROHIBITED_CONTENT',
  'IMAGE_RECITATION',
  'MODEL_ARMOR',
]
// Recordings that were converted from protobuf have 1 for STOP.
const GEMINI: Record<string, Outcome> = {
  STOP: 'stop',
  1: 'stop',
  MAX_TOKENS: 'length',
  blocked: 'content-filter',
  ...Object.fromEntries(BLOCKED.map((finishReason) => [finishReason, 'content-filter'])),
}

function geminiContent(frames: unknown[], stream: boolean): ResponseContent {
  const chunks = frames.flat().filter((data): data is Any => typeof data === 'object' && data !== null)
  const parts = chunks.flatMap((chunk) => chunk.candidates?.[0]?.content?.parts ?? []) as Any[]
  const text = (thought: boolean): string =>
    parts
      .filter((part) => typeof part.text === 'string' && (part.thought === true) === thought)
      .map((part) => part.text)
      .join('')
  const calls = geminiCalls(parts)
  const reason = chunks.reduce<unknown>((last, chunk) => chunk.candidates?.[0]?.finishReason ?? last, undefined)
  const finishReason =
    reason !== undefined
      ? String(reason)
      : chunks.some((chunk) => chunk.promptFeedback !== undefined && !(chunk.candidates?.length > 0))
        ? 'blocked'
        : ''
  const failed =
    frames.some((data) => typeof data === 'string') ||
    chunks.some((chunk) => chunk.error !== undefined) ||
    (finishReason === '' && (stream || !chunks.some((chunk) => chunk.candidates?.length > 0)))
  const total = (name: string): number => chunks.reduce((sum, chunk) => chunk.usageMetadata?.[name] ?? sum, 0)
  return {
    text: text(false),
    reasoning: text(true),
    refused: false,
    calls,
    finishReason,
    outcome: failed ? 'failed' : outcomeOf(GEMINI, finishReason, calls.length > 0),
    usage: chunks.some((chunk) => typeof chunk.usageMetadata?.promptTokenCount === 'number')
      ? {
          prompt: total('promptTokenCount') + total('toolUsePromptTokenCount'),
          completion: total('candidatesTokenCount') + total('thoughtsTokenCount'),
          cached: total('cachedContentTokenCount'),
          reasoning: total('thoughtsTokenCount'),
        }
      : undefined,
  }
}

/** Vertex may send arguments in pieces, each with its JSON path. */
function geminiCalls(parts: Any[]): ResponseContent['calls'] {
  const calls: { name: string; input: Any }[] = []
  for (const { functionCall } of parts) {
    if (functionCall === undefined) continue
    if (functionCall.name) calls.push({ name: functionCall.name, input: functionCall.args ?? {} })
    for (const piece of functionCall.partialArgs ?? []) addPartialArgument(calls.at(-1)!.input, piece)
  }
  return calls
}

function addPartialArgument(input: Any, piece: Any): void {
  const steps = [...(piece.jsonPath as string).matchAll(/\.([^.[\]]+)|\[(\d+)\]|\['([^']*)'\]/g)].map(
    ([, name, index, quoted]) => name ?? quoted ?? Number(index),
  )
  const last = steps.pop()!
  let holder: Any = input
  for (const [at, step] of steps.entries())
    holder = holder[step] ??= typeof (steps[at + 1] ?? last) === 'number' ? [] : {}
  if (typeof piece.stringValue === 'string') holder[last] = (holder[last] ?? '') + piece.stringValue
  else holder[last] = piece.numberValue ?? piece.boolValue ?? null
}
