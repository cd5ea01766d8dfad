import { GatewayError } from '../../error.ts'

/** Google's and Anthropic's lists contain only these, because their clients know no other kind of model. */
const CONVERSATION_MODELS = ['chat', 'responses', 'messages', 'gemini'] as const
const ALL_MODELS = [...CONVERSATION_MODELS, 'image', 'prediction'] as const
/** 2026-01-01, in seconds. */
const CREATED = 1767225600

/**
 * The list of models, or one of them, in the caller's format: Google's under /v1beta, Anthropic's with its version
 * header, otherwise OpenAI's. Throws model_not_found for an unknown name.
 */
export function listModels(name: string | undefined, url: URL, headers: Headers): object {
  const write = url.pathname.includes('/v1beta')
    ? geminiModel
    : headers.has('anthropic-version')
      ? anthropicModel
      : openaiModel
  const names = write === openaiModel ? ALL_MODELS : CONVERSATION_MODELS
  if (name !== undefined) {
    const found = names.find((known) => known === name.replace(/^sandbox\//, ''))
    if (found !== undefined) return write(found)
    throw new GatewayError(
      'model_not_found',
      `The model '${name}' does not exist; the sandbox has ${names.join(', ')}.`,
    )
  }
  const all = names.map(write)
  if (write === geminiModel) return { models: all }
  return write === openaiModel
    ? { object: 'list', data: all }
    : { data: all, has_more: false, first_id: names[0], last_id: names.at(-1) }
}

const openaiModel = (id: string): object => ({ id, object: 'model', created: CREATED, owned_by: 'sandbox' })
const anthropicModel = (id: string): object => ({
  type: 'model',
  id,
  display_name: `Sandbox ${id}`,
  created_at: new Date(CREATED * 1000).toISOString(),
})
const geminiModel = (id: string): object => ({
  name: `models/${id}`,
  displayName: `Sandbox ${id}`,
  inputTokenLimit: 1_000_000,
  outputTokenLimit: 1_000_000,
  supportedGenerationMethods: ['generateContent', 'streamGenerateContent', 'countTokens'],
})
