import { type FinishReason, withToolCalls } from '../../generation/event.ts'
import {
  cachedTokens,
  completionTokens,
  count,
  countSearches,
  isCount,
  noUsage,
  promptTokens,
  type Usage,
} from '../../generation/usage.ts'
import { readObject } from '../../json/exact.ts'
import { isObject } from '../../json/parse.ts'

/** Fields of Anthropic's Messages API that readers and writers share. */

export type Json = Record<string, unknown>

/** A content block of a message. */
export type Block = { type: string } & Json

const FINISH: ReadonlyMap<string, FinishReason> = new Map([
  ['end_turn', 'stop'],
  ['max_tokens', 'length'],
  ['model_context_window_exceeded', 'length'],
  ['stop_sequence', 'stop-sequence'],
  ['tool_use', 'tool-calls'],
  ['pause_turn', 'pause'],
  ['refusal', 'refusal'],
])

/** `called`: the response has a tool call of the client, which decides whether it is a tool turn. */
export const readStopReason = (raw: string, called: boolean): FinishReason =>
  withToolCalls(FINISH.get(raw) ?? 'other', called)

const STOP_REASONS: Record<FinishReason, string> = {
  stop: 'end_turn',
  'stop-sequence': 'stop_sequence',
  length: 'max_tokens',
  'tool-calls': 'tool_use',
  'content-filter': 'refusal',
  refusal: 'refusal',
  pause: 'pause_turn',
  other: 'end_turn',
}

/**
 * `finish.raw` decides if it is one of this protocol's own stop reasons. `refused`: the response has a refusal, which
 * OpenAI finishes with `stop`.
 */
export function writeStopReason(finish: { reason: FinishReason; raw: string }, refused: boolean): string {
  if (FINISH.get(finish.raw) === finish.reason) return finish.raw
  return refused && finish.reason === 'stop' ? 'refusal' : STOP_REASONS[finish.reason]
}

const { outputTokens: _, ...NOTHING_BUT_OUTPUT } = noUsage()

/**
 * The usage that a provider has reported so far: `message_start` has it and `message_delta` corrects it. The last value
 * counts, and what a later object omits (or gives as null) stays.
 */
export class ReportedUsage {
  readonly #values = new Map<string, number>()

  add(usage: unknown): void {
    if (!isObject(usage)) return
    const prompt = ['input_tokens', 'cache_read_input_tokens', 'cache_creation_input_tokens']
    // No prompt has zero tokens: zeros in the last usage object of a server are not a correction.
    const hasPrompt = prompt.some((name) => count(usage[name]) !== 0)
    if (hasPrompt) for (const name of prompt) this.#set(name, usage[name])
    this.#set('output_tokens', usage.output_tokens)
    if (isObject(usage.cache_creation)) this.#setCacheWrites(usage.cache_creation, usage.cache_creation_input_tokens)
    if (isObject(usage.output_tokens_details)) this.#set('thinking', usage.output_tokens_details.thinking_tokens)
    if (isObject(usage.server_tool_use)) this.#set('searches', usage.server_tool_use.web_search_requests)
    if (Array.isArray(usage.iterations)) this.#setCompactions(usage.iterations)
  }

  /** True once the tokens of both the prompt and the output are reported. */
  get complete(): boolean {
    const usage = this.read()
    return promptTokens({ ...noUsage(), ...usage }) > 0 && usage.outputTokens !== undefined
  }

  /**
   * The totals in disjoint buckets; output only once it is reported. Anthropic counts cached tokens beside the input
   * and reasoning inside the output.
   */
  read(): Partial<Usage> {
    const get = (name: string): number => this.#values.get(name) ?? 0
    const written = get('cache_creation_input_tokens')
    const hour = Math.min(get('1h'), written)
    const reasoning = Math.min(get('thinking'), get('output_tokens'))
    const summarised = get('compaction.cache_creation_input_tokens')
    return {
      ...NOTHING_BUT_OUTPUT,
      inputTokens: get('input_tokens') + get('compaction.input_tokens'),
      cacheReadTokens: get('cache_read_input_tokens') + get('compaction.cache_read_input_tokens'),
      cacheWrite5mTokens: written - hour + summarised - get('compaction.1h'),
      cacheWrite1hTokens: hour + get('compaction.1h'),
      ...(this.#values.has('output_tokens')
        ? { outputTokens: get('output_tokens') - reasoning + get('compaction.output_tokens') }
        : {}),
      reasoningTokens: reasoning,
      webSearches: countSearches(get('searches')),
    }
  }

  #setCacheWrites(lifetimes: Json, total: unknown): void {
    this.#set('1h', lifetimes.ephemeral_1h_input_tokens)
    if (typeof total !== 'number')
      this.#set(
        'cache_creation_input_tokens',
        count(lifetimes.ephemeral_5m_input_tokens) + count(lifetimes.ephemeral_1h_input_tokens),
      )
  }

  #set(name: string, value: unknown): void {
    if (isCount(value)) this.#values.set(name, count(value))
  }

  /** Summaries that the server makes of a long conversation are billed but not part of the totals. */
  #setCompactions(iterations: unknown[]): void {
    const compactions = iterations.filter(isObject).filter(({ type }) => type === 'compaction')
    for (const name of ['input_tokens', 'cache_read_input_tokens', 'cache_creation_input_tokens', 'output_tokens']) {
      const sum = compactions.reduce((total, compaction) => total + count(compaction[name]), 0)
      this.#values.set(`compaction.${name}`, count(sum))
    }
    const hour = compactions.reduce((total, { cache_creation: lifetimes }) => total + hourOf(lifetimes), 0)
    this.#values.set(
      'compaction.1h',
      Math.min(count(hour), this.#values.get('compaction.cache_creation_input_tokens')!),
    )
  }
}

/** Tokens written to the cache with the longer lifetime. */
const hourOf = (lifetimes: unknown): number => (isObject(lifetimes) ? count(lifetimes.ephemeral_1h_input_tokens) : 0)

/** The `usage` object: prompt tokens without cached ones, output with reasoning; details only where there are any. */
export function writeUsage(usage: Usage, tier?: string): Json {
  const written = usage.cacheWrite5mTokens + usage.cacheWrite1hTokens
  return {
    input_tokens: usage.inputTokens + usage.inputAudioTokens + usage.inputImageTokens,
    cache_creation_input_tokens: written,
    cache_read_input_tokens: cachedTokens(usage),
    ...(written > 0
      ? {
          cache_creation: {
            ephemeral_5m_input_tokens: usage.cacheWrite5mTokens,
            ephemeral_1h_input_tokens: usage.cacheWrite1hTokens,
          },
        }
      : {}),
    output_tokens: completionTokens(usage),
    ...(usage.reasoningTokens > 0 ? { output_tokens_details: { thinking_tokens: usage.reasoningTokens } } : {}),
    ...(usage.webSearches > 0
      ? { server_tool_use: { web_search_requests: usage.webSearches, web_fetch_requests: 0 } }
      : {}),
    ...(tier === undefined ? {} : { service_tier: tier }),
  }
}

/** The input of a tool call as an object, numbers spelled as they are in the text; undefined if it is not an object. */
export const readInput = (text: string): Json | undefined => (text.trim() === '' ? {} : readObject(text))

/**
 * A signature of another protocol may belong to a tool call or a text, where this protocol has no field for one. It is
 * a `redacted_thinking` block right after its part. Clients send all blocks of a turn back, but not always in order:
 * Claude Code moves calls to the end. Therefore the signature of a call names it.
 */
const AFTER_TEXT = 'of-part:'
const AFTER_EMPTY_TEXT = 'of-text:'
const OF_CALL = 'of-call:'

/** The part that a signature belongs to: a tool call, the text before it, or an empty text, which leaves no block. */
export type SignedPart = { call: string } | 'text' | 'empty-text'

/** An id may contain any character, so its length is before it. */
export const tagPartSignature = (signature: string, of: SignedPart): string =>
  typeof of === 'object'
    ? `${OF_CALL}${of.call.length}:${of.call}${signature}`
    : (of === 'text' ? AFTER_TEXT : AFTER_EMPTY_TEXT) + signature

/** The tagged signature and its part; undefined for a provider's own redacted thinking. */
export function untagPartSignature(data: string): { data: string; of: SignedPart } | undefined {
  if (data.startsWith(AFTER_TEXT)) return { data: data.slice(AFTER_TEXT.length), of: 'text' }
  if (data.startsWith(AFTER_EMPTY_TEXT)) return { data: data.slice(AFTER_EMPTY_TEXT.length), of: 'empty-text' }
  const [beginning, length] = /^of-call:(\d+):/.exec(data) ?? []
  if (beginning === undefined) return undefined
  const end = beginning.length + Number(length)
  return { data: data.slice(end), of: { call: data.slice(beginning.length, end) } }
}

/** Tool-call ids and tool names that Anthropic accepts. */
export const TOOL_ID = /^[a-zA-Z0-9_-]+$/
export const TOOL_NAME = /^[a-zA-Z0-9_-]{1,128}$/
