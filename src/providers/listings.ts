import type { Modality } from '../config/provider-terms.ts'
import type { Capabilities } from '../protocols/protocol.ts'

/** What a server says of one of its models. `stamp`: changes when the model behind the name does. */
export type Listed = {
  name: string
  createdAt: number
  stamp?: string
  contextLength?: number
  capabilities: Capabilities
}

type Json = Record<string, unknown>

/**
 * A server's answer -> its models; undefined for what is no such list. Models that answer no conversation are left out.
 */
export type Listing = (answer: unknown) => Listed[] | undefined

/** Ollama's `GET /api/tags`: `{models: [{name, modified_at, digest}]}`; the rest is said by `readShow`. */
export const readTags: Listing = (answer) =>
  rowsIn(answer, 'models')?.flatMap(({ name, modified_at: modified, digest }) => {
    const at = typeof modified === 'string' ? Date.parse(modified) : NaN
    return typeof name === 'string'
      ? [
          {
            name,
            createdAt: Number.isNaN(at) ? 0 : Math.floor(at / 1000),
            stamp: `${digest} ${modified}`,
            capabilities: {},
          },
        ]
      : []
  })

/** Ollama's `POST /api/show`: what a model can do, or undefined for one that answers no conversation. */
export function readShow(answer: unknown): Pick<Listed, 'contextLength' | 'capabilities'> | undefined {
  const { capabilities, model_info } = recordOf(answer)
  const info = recordOf(model_info)
  const context = contextOf(info[`${info['general.architecture']}.context_length`])
  // Servers before 0.6.4 say nothing of it.
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

/** OpenAI's list with what vLLM (`max_model_len`) and llama.cpp (`meta.n_ctx`, `meta.n_ctx_train`) add to it. */
export const readModels: Listing = (answer) =>
  rowsIn(answer, 'data')?.flatMap(({ id, created, max_model_len: longest, meta }) => {
    const { n_ctx: served, n_ctx_train: trained } = recordOf(meta)
    return typeof id === 'string'
      ? [{ name: id, createdAt: wholeOf(created) ?? 0, ...contextOf(longest ?? served ?? trained), capabilities: {} }]
      : []
  })

/**
 * LM Studio's `GET /api/v0/models`: `{data: [{id, type, max_context_length, loaded_context_length, capabilities}]}`.
 */
export const readTyped: Listing = (answer) =>
  rowsIn(answer, 'data')?.flatMap(
    ({ id, type, loaded_context_length: loaded, max_context_length: longest, capabilities }) => {
      if (typeof id !== 'string' || (type !== 'llm' && type !== 'vlm')) return []
      const input: Modality[] = type === 'vlm' ? ['text', 'image'] : ['text']
      // Others call tools, too, only less well: not said is not known.
      const tools = Array.isArray(capabilities) && capabilities.includes('tool_use')
      return [
        {
          name: id,
          createdAt: 0,
          ...contextOf(loaded ?? longest),
          capabilities: { input, output: ['text'], ...(tools ? { tools } : {}) },
        },
      ]
    },
  )

const recordOf = (value: unknown): Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Json) : {}

function rowsIn(answer: unknown, member: string): Json[] | undefined {
  const rows = recordOf(answer)[member]
  return Array.isArray(rows) ? rows.map(recordOf) : undefined
}

const wholeOf = (value: unknown): number | undefined =>
  typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : undefined

function contextOf(value: unknown): { contextLength?: number } {
  const tokens = wholeOf(value)
  return tokens === undefined || tokens === 0 ? {} : { contextLength: tokens }
}
