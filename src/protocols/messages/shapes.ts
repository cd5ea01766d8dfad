import type { FinishReason } from '../../generation/event.ts'
import {
  completionTokens,
  count,
  countSearches,
  isCount,
  noUsage,
  promptTokens,
  type Usage,
} from '../../generation/usage.ts'
import { isObject } from '../fields.ts'

/** Words of Anthropic's Messages API that both sides of it need. */

/** Any JSON object of the wire. */
export type Json = Record<string, unknown>

/** A content block as it stands in a message. */
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

export const readStopReason = (raw: string): FinishReason => FINISH.get(raw) ?? 'other'

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
 * `raw` decides where it is one of this protocol's own words; `refused`: a refusal part was written, of which OpenAI
 * says `stop`.
 */
export function writeStopReason(finish: { reason: FinishReason; raw: string }, refused: boolean): string {
  if (readStopReason(finish.raw) === finish.reason && FINISH.has(finish.raw)) return finish.raw
  return refused && finish.reason === 'stop' ? 'refusal' : STOP_REASONS[finish.reason]
}

/**
 * Usage as it was heard so far on the wire: `message_start` brings it and `message_delta` corrects it. The last word
 * wins,
 * and what a later object leaves out (or gives as null) stays.
 */
export class WireUsage {
  heard = false
  readonly #values = new Map<string, number>()

  add(usage: unknown): void {
    if (!isObject(usage)) return
    this.heard = true
    const prompt = ['input_tokens', 'cache_read_input_tokens', 'cache_creation_input_tokens']
    // No prompt has zero tokens: a server that sends noughts in its last usage object has nothing to say there.
    const silent = prompt.every((name) => count(usage[name]) === 0)
    for (const name of [...prompt, 'output_tokens'])
      if (!silent || name === 'output_tokens') this.#set(name, usage[name])
    if (isObject(usage.cache_creation)) this.#split(usage.cache_creation, usage.cache_creation_input_tokens)
    if (isObject(usage.output_tokens_details)) this.#set('thinking', usage.output_tokens_details.thinking_tokens)
    if (isObject(usage.server_tool_use)) this.#set('searches', usage.server_tool_use.web_search_requests)
    if (Array.isArray(usage.iterations)) this.#compactions(usage.iterations)
  }

  /** Whether both the prompt and the answer were told. */
  get complete(): boolean {
    const usage = this.read()
    return promptTokens({ ...noUsage(), ...usage }) > 0 && usage.outputTokens !== undefined
  }

  /**
   * The totals in our buckets, without output that was not told. Anthropic counts cached tokens beside the input, and
   * thinking inside the output.
   */
  read(): Partial<Usage> {
    const get = (name: string): number => this.#values.get(name) ?? 0
    const written = get('cache_creation_input_tokens')
    const hour = Math.min(get('1h'), written)
    const reasoning = Math.min(get('thinking'), get('output_tokens'))
    return {
      inputTokens: get('input_tokens') + get('compaction.input_tokens'),
      cacheReadTokens: get('cache_read_input_tokens') + get('compaction.cache_read_input_tokens'),
      cacheWrite5mTokens: written - hour + get('compaction.cache_creation_input_tokens'),
      cacheWrite1hTokens: hour,
      inputAudioTokens: 0,
      ...(this.#values.has('output_tokens')
        ? { outputTokens: get('output_tokens') - reasoning + get('compaction.output_tokens') }
        : {}),
      reasoningTokens: reasoning,
      outputAudioTokens: 0,
      outputImageTokens: 0,
      webSearches: countSearches(get('searches')),
      images: 0,
    }
  }

  #split(lifetimes: Json, total: unknown): void {
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

  /** Summaries that the server made of a long conversation are billed but not counted in the totals beside them. */
  #compactions(iterations: unknown[]): void {
    const made = iterations.filter(isObject).filter((iteration) => iteration.type === 'compaction')
    for (const name of ['input_tokens', 'cache_read_input_tokens', 'cache_creation_input_tokens', 'output_tokens']) {
      this.#values.set(`compaction.${name}`, count(made.reduce((sum, iteration) => sum + count(iteration[name]), 0)))
    }
  }
}

/**
 * Our buckets -> the wire's `usage`: prompt tokens without cached ones, output with reasoning; details only where there
 * are any.
 */
export function writeUsage(usage: Usage): Json {
  const written = usage.cacheWrite5mTokens + usage.cacheWrite1hTokens
  return {
    input_tokens: usage.inputTokens + usage.inputAudioTokens,
    cache_creation_input_tokens: written,
    cache_read_input_tokens: usage.cacheReadTokens,
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
  }
}

/**
 * Signatures of other protocols may stand on a tool call or a text, where this protocol has no place for one. Clients
 * send
 * whole turns back unchanged, so such a signature travels in a `redacted_thinking` block right behind the part it
 * belongs to.
 */
const OF_PART = 'of-part:'
const OF_NOTHING = 'of-text:'

/** `empty`: the part was a text without a character, which leaves no block behind. */
export const markOfPart = (signature: string, empty = false): string => (empty ? OF_NOTHING : OF_PART) + signature

/** The signature inside and whether its part was empty, or undefined for a provider's own redacted thinking. */
export function unmarkOfPart(data: string): { data: string; empty: boolean } | undefined {
  const empty = data.startsWith(OF_NOTHING)
  return empty || data.startsWith(OF_PART) ? { data: data.slice(OF_PART.length), empty } : undefined
}

/** Ids and names that Anthropic accepts. */
export const TOOL_ID = /^[a-zA-Z0-9_-]+$/
export const TOOL_NAME = /^[a-zA-Z0-9_-]{1,128}$/
