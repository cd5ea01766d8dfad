import type { ConversationName } from '../../src/generation/request.ts'
import { noUsage, type Usage } from '../../src/generation/usage.ts'
import type { Any } from './response-content.ts'

/**
 * The usage in a recorded response, by the documentation of each vendor and without the gateway's readers; undefined
 * without a report of both prompt and output.
 */
export function providerUsage(protocol: ConversationName, frames: unknown[]): Usage | undefined {
  const objects = frames.flat().filter((data): data is Any => typeof data === 'object' && data !== null)
  return {
    'chat.completions': chatUsage,
    responses: responsesUsage,
    messages: messagesUsage,
    generateContent: geminiUsage,
  }[protocol](objects)
}

const usageOf = (counts: Partial<Usage>): Usage => ({ ...noUsage(), ...counts })

/** OpenAI counts cached tokens and audio within the prompt, reasoning and audio within the completion. */
function chatUsage(chunks: Any[]): Usage | undefined {
  const usage = chunks.map((chunk) => chunk.usage ?? chunk.x_groq?.usage).findLast((one) => one != null) as Any
  if (usage === undefined) return undefined
  const { prompt_tokens: prompt = 0, completion_tokens: completion = 0, total_tokens: total = 0 } = usage
  const input = usage.prompt_tokens_details ?? {}
  const output = usage.completion_tokens_details ?? {}
  const beyond = total - prompt - completion
  // Google's compatible endpoint has thoughts in the total alone, and xAI and Perplexity have them beside the rest.
  const isNameless = Object.keys(usage).length === 3 && beyond > 0
  const reasoning: number = output.reasoning_tokens ?? usage.reasoning_tokens ?? (isNameless ? beyond : 0)
  const isBeside = reasoning > 0 && (beyond === reasoning || usage.citation_tokens !== undefined)
  const cached: number = input.cached_tokens ?? usage.prompt_cache_hit_tokens ?? usage.cached_tokens ?? 0
  const [written, audio] = [input.cache_write_tokens ?? 0, input.audio_tokens ?? 0]
  const seen: number = input.image_tokens ?? 0
  const [spoken, drawn] = [output.audio_tokens ?? 0, output.image_tokens ?? 0]
  const isAudioBeside = !isBeside && audio > 0 && beyond === audio
  return usageOf({
    inputTokens: prompt - cached - written - (isAudioBeside ? 0 : audio) - seen,
    cacheReadTokens: cached,
    cacheWrite5mTokens: written,
    inputAudioTokens: audio,
    inputImageTokens: seen,
    outputTokens: completion - (isBeside ? 0 : reasoning) - spoken - drawn,
    reasoningTokens: reasoning,
    outputAudioTokens: spoken,
    outputImageTokens: drawn,
    webSearches:
      usage.server_tool_use_details?.web_search_requests ??
      usage.server_tool_use?.web_search_requests ??
      usage.num_search_queries ??
      searchesOfXai(usage),
  })
}

const searchesOfXai = ({ server_side_tool_usage_details: tools }: Any): number =>
  (tools?.web_search_calls ?? 0) + (tools?.x_search_calls ?? 0)

/** As in chat completions. OpenAI charges calls of `search`, not those that open a page or look for a text in it. */
function responsesUsage(frames: Any[]): Usage | undefined {
  // The first of several responses counts.
  const response = frames.map((frame) => frame.response ?? frame).find((one) => one.usage != null) as Any
  if (response === undefined || response.usage.input_tokens === 0) return undefined
  const { usage } = response
  const [input, output] = [usage.input_tokens_details ?? {}, usage.output_tokens_details ?? {}]
  const [cached, written, audio] = [input.cached_tokens ?? 0, input.cache_write_tokens ?? 0, input.audio_tokens ?? 0]
  const [reasoning, spoken] = [output.reasoning_tokens ?? 0, output.audio_tokens ?? 0]
  const done = frames.filter((frame) => frame.type === 'response.output_item.done').map((frame) => frame.item)
  const items = (done.length > 0 ? done : (response.output ?? [])) as Any[]
  const searches = items.filter(
    (item) => item.type === 'web_search_call' && (item.action?.type ?? 'search') === 'search',
  ).length
  const sum = usage.input_tokens + usage.output_tokens
  const inputBeside = cached + written > 0 && usage.total_tokens === sum + cached + written
  const outputBeside = reasoning > 0 && usage.total_tokens === sum + reasoning
  return usageOf({
    inputTokens: usage.input_tokens - (inputBeside ? 0 : cached + written) - audio,
    cacheReadTokens: cached,
    cacheWrite5mTokens: written,
    inputAudioTokens: audio,
    outputTokens: usage.output_tokens - (outputBeside ? 0 : reasoning) - spoken,
    reasoningTokens: reasoning,
    outputAudioTokens: spoken,
    ...imageToolUsage(response.tool_usage?.image_gen),
    webSearches:
      response.tool_usage?.web_search?.num_requests ??
      (usage.server_side_tool_usage_details === undefined ? undefined : searchesOfXai(usage)) ??
      searches,
  })
}

/** OpenAI counts the tokens of the model that its tool draws with beside those of the response. */
const imageToolUsage = (usage: Any | undefined): Partial<Usage> => ({
  imageToolInputTokens: usage?.input_tokens_details.text_tokens ?? 0,
  imageToolInputImageTokens: usage?.input_tokens_details.image_tokens ?? 0,
  imageToolOutputTokens: usage?.output_tokens_details.text_tokens ?? 0,
  imageToolOutputImageTokens: usage?.output_tokens_details.image_tokens ?? 0,
})

/**
 * Anthropic counts cached tokens beside the prompt, and thinking within the output. A later object replaces the counts
 * of an earlier one. Compactions are beside the totals.
 */
function messagesUsage(frames: Any[]): Usage | undefined {
  const end = frames.findIndex((frame) => frame.type === 'message_stop')
  const usages = (end === -1 ? frames : frames.slice(0, end))
    .map((frame) => frame.message?.usage ?? frame.usage)
    .filter((usage) => usage != null) as Any[]
  if (usages.length === 0) return undefined
  const last = (read: (usage: Any) => unknown): number =>
    usages.map(read).findLast((value): value is number => typeof value === 'number') ?? 0
  const iterations: Any[] = usages.findLast((usage) => Array.isArray(usage.iterations))?.iterations ?? []
  const compacted = (read: (usage: Any) => unknown): number =>
    iterations
      .filter(({ type }) => type === 'compaction')
      .reduce((sum, one) => sum + ((read(one) as number | undefined) ?? 0), 0)
  const all = (read: (usage: Any) => unknown): number => last(read) + compacted(read)
  const hour = all((usage) => usage.cache_creation?.ephemeral_1h_input_tokens)
  const thinking = last((usage) => usage.output_tokens_details?.thinking_tokens)
  return usageOf({
    inputTokens: all((usage) => usage.input_tokens),
    cacheReadTokens: all((usage) => usage.cache_read_input_tokens),
    cacheWrite5mTokens: all((usage) => usage.cache_creation_input_tokens) - hour,
    cacheWrite1hTokens: hour,
    outputTokens: all((usage) => usage.output_tokens) - thinking,
    reasoningTokens: thinking,
    webSearches: last((usage) => usage.server_tool_use?.web_search_requests),
  })
}

/** Google counts cached tokens and audio within the prompt, thoughts and the prompts of its tools beside the rest. */
function geminiUsage(chunks: Any[]): Usage | undefined {
  const usage = chunks.map((chunk) => chunk.usageMetadata).findLast((one) => one != null) as Any
  if (usage === undefined) return undefined
  // One gateway writes the numbers of protobuf.
  const NUMBERS: Record<string, number> = { IMAGE: 2, AUDIO: 4 }
  const of = (details: unknown, name: string): number =>
    ((details ?? []) as Any[])
      .filter(({ modality }) => modality === name || modality === NUMBERS[name])
      .reduce((sum, { tokenCount = 0 }) => sum + tokenCount, 0)
  const { promptTokenCount = 0, thoughtsTokenCount: thoughts = 0 } = usage
  // The last chunk of one stream leaves out what an earlier one counted.
  const candidatesTokenCount: number =
    chunks.map((chunk) => chunk.usageMetadata?.candidatesTokenCount).findLast((one) => one !== undefined) ?? 0
  const beyond = (usage.totalTokenCount ?? 0) - promptTokenCount - candidatesTokenCount
  const tools = beyond === thoughts ? 0 : (usage.toolUsePromptTokenCount ?? 0)
  const isInside = thoughts > 0 && beyond === tools
  const cached: number = usage.cachedContentTokenCount ?? 0
  const cachedAudio = of(usage.cacheTokensDetails, 'AUDIO')
  const audio = Math.max(0, of(usage.promptTokensDetails, 'AUDIO') - cachedAudio)
  const seen = Math.max(0, of(usage.promptTokensDetails, 'IMAGE') - of(usage.cacheTokensDetails, 'IMAGE'))
  const [spoken, drawn] = [of(usage.candidatesTokensDetails, 'AUDIO'), of(usage.candidatesTokensDetails, 'IMAGE')]
  // Google charges each query once, and none without text.
  const queries = chunks.flatMap((chunk) => chunk.candidates?.[0]?.groundingMetadata?.webSearchQueries ?? [])
  if (promptTokenCount === 0) return undefined
  return usageOf({
    inputTokens: promptTokenCount + tools - cached - audio - seen,
    cacheReadTokens: cached - cachedAudio,
    cacheReadAudioTokens: cachedAudio,
    inputAudioTokens: audio,
    inputImageTokens: seen,
    outputTokens: candidatesTokenCount - (isInside ? thoughts : 0) - spoken - drawn,
    reasoningTokens: thoughts,
    outputAudioTokens: spoken,
    outputImageTokens: drawn,
    webSearches: new Set(queries.filter((query) => query !== '')).size,
  })
}
