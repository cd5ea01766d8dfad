import type { Modality } from '../config/provider-terms.ts'
import type { Capabilities } from '../protocols/protocol.ts'

/**
 * One model of a server's list, whose dates are those of its own start or of a download. `stamp`: changes when another
 * model gets the name.
 */
export type ListedModel = {
  name: string
  stamp?: string
  contextLength?: number
  capabilities: Capabilities
}

type Json = Record<string, unknown>

/**
 * Reads the models from a server's response; undefined if it is not a model list. Omits models without conversations.
 */
export type ListingReader = (response: unknown) => ListedModel[] | undefined

/** Ollama's `GET /api/tags`: `{models: [{name, modified_at, digest}]}`; `readOllamaDetails` reads the rest. */
export const readOllamaTags: ListingReader = (response) =>
  rowsIn(response, 'models')?.flatMap(({ name, modified_at: modified, digest }) =>
    typeof name === 'string' ? [{ name, stamp: `${digest} ${modified}`, capabilities: {} }] : [],
  )

/** Ollama's `POST /api/show`: a model's capabilities, or undefined for one without conversations. */
export function readOllamaDetails(response: unknown): Pick<ListedModel, 'contextLength' | 'capabilities'> | undefined {
  const { capabilities, model_info } = recordOf(response)
  const info = recordOf(model_info)
  const context = contextOf(info[`${info['general.architecture']}.context_length`])
  // Servers before 0.6.4 do not report capabilities.
  if (!Array.isArray(capabilities)) return { ...context, capabilities: {} }
  if (!capabilities.includes('completion')) return undefined
  const input: Modality[] = [
    'text',
    ...(capabilities.includes('vision') ? ['image' as const] : []),
    ...(capabilities.includes('audio') ? ['audio' as const] : []),
  ]
  return {
    ...context,
    capabilities: {
      input,
      output: ['text'],
      tools: capabilities.includes('tools'),
      reasoning: capabilities.includes('thinking') ? 'effort' : 'none',
    },
  }
}

/** OpenAI's list with the additions of vLLM (`max_model_len`) and llama.cpp (`meta.n_ctx`, `meta.n_ctx_train`). */
export const readOpenAIModels: ListingReader = (response) =>
  rowsIn(response, 'data')?.flatMap(({ id, max_model_len: longest, meta }) => {
    const { n_ctx: served, n_ctx_train: trained } = recordOf(meta)
    return typeof id === 'string' ? [{ name: id, ...contextOf(longest ?? served ?? trained), capabilities: {} }] : []
  })

/**
 * LM Studio's `GET /api/v0/models`: `{data: [{id, type, max_context_length, loaded_context_length, capabilities}]}`.
 */
export const readLmStudioModels: ListingReader = (response) =>
  rowsIn(response, 'data')?.flatMap(
    ({ id, type, loaded_context_length: loaded, max_context_length: longest, capabilities }) => {
      if (typeof id !== 'string' || (type !== 'llm' && type !== 'vlm')) return []
      const input: Modality[] = type === 'vlm' ? ['text', 'image'] : ['text']
      // Models without `tool_use` may call tools too, only less reliably: their capability is unknown.
      const tools = Array.isArray(capabilities) && capabilities.includes('tool_use')
      return [
        {
          name: id,
          ...contextOf(loaded ?? longest),
          capabilities: { input, output: ['text'], ...(tools ? { tools } : {}) },
        },
      ]
    },
  )

const recordOf = (value: unknown): Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Json) : {}

function rowsIn(response: unknown, member: string): Json[] | undefined {
  const rows = recordOf(response)[member]
  return Array.isArray(rows) ? rows.map(recordOf) : undefined
}

const wholeOf = (value: unknown): number | undefined =>
  typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : undefined

function contextOf(value: unknown): { contextLength?: number } {
  const tokens = wholeOf(value)
  return tokens === undefined || tokens === 0 ? {} : { contextLength: tokens }
}
