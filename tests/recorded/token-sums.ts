import type { ConversationName } from '../../src/generation/request.ts'
import type { Any } from './response-content.ts'

/**
 * `total`: the sum that a response reports; `parts`: the sum of its counts; `written`: tokens written to caches, of
 * which `hour` are kept for an hour.
 */
export function tokenSums(
  protocol: ConversationName,
  frames: unknown[],
): { total: number | undefined; parts: number; written: number; hour?: number | undefined } {
  const objects = frames.flat().filter((data): data is Any => typeof data === 'object' && data !== null)
  const last = (read: (usage: Any) => unknown): number | undefined =>
    objects
      .flatMap((data) => [data.message?.usage, data.response?.usage, data.usage, data.usageMetadata])
      .filter((usage) => usage != null)
      .map(read)
      .filter((value): value is number => typeof value === 'number')
      .at(-1)
  const sum = (...names: string[]): number =>
    names.reduce((total, name) => total + (last((usage) => usage[name]) ?? 0), 0)
  switch (protocol) {
    case 'chat.completions':
      return {
        total: last((usage) => usage.total_tokens),
        parts: sum('prompt_tokens', 'completion_tokens'),
        written: last((usage) => usage.prompt_tokens_details?.cache_write_tokens) ?? 0,
      }
    case 'responses':
      return {
        total: last((usage) => usage.total_tokens),
        parts: sum('input_tokens', 'output_tokens'),
        written: last((usage) => usage.input_tokens_details?.cache_write_tokens) ?? 0,
      }
    case 'messages':
      return {
        total: undefined,
        parts: 0,
        written: sum('cache_creation_input_tokens'),
        hour: last((usage) => usage.cache_creation?.ephemeral_1h_input_tokens),
      }
    case 'generateContent':
      return {
        total: last((usage) => usage.totalTokenCount),
        parts: sum('promptTokenCount', 'candidatesTokenCount', 'thoughtsTokenCount'),
        written: 0,
      }
  }
}
