import { GatewayError } from '../../error.ts'

/** Google and Anthropic list what holds conversations, as their clients know nothing else. */
const CONVERSATIONS = ['chat', 'responses', 'messages', 'gemini'] as const
const NAMES = [...CONVERSATIONS, 'image', 'prediction'] as const
/** 2026-01-01, in seconds. */
const CREATED = 1767225600

/**
 * The models, or one of them, in the dialect of who asks: Google's under /v1beta, Anthropic's with its version header,
 * else OpenAI's.
 */
export function listModels(name: string | undefined, url: URL, headers: Headers): object {
  const one = url.pathname.includes('/v1beta') ? googles : headers.has('anthropic-version') ? anthropics : openais
  const names = one === openais ? NAMES : CONVERSATIONS
  if (name !== undefined) {
    const found = names.find((known) => known === name.replace(/^sandbox\//, ''))
    if (found === undefined)
      throw new GatewayError(
        'model_not_found',
        `The model '${name}' does not exist: the sandbox has ${names.join(', ')}.`,
      )
    return one(found)
  }
  const all = names.map(one)
  if (one === googles) return { models: all }
  return one === openais
    ? { object: 'list', data: all }
    : { data: all, has_more: false, first_id: names[0], last_id: names.at(-1) }
}

const openais = (id: string): object => ({ id, object: 'model', created: CREATED, owned_by: 'sandbox' })
const anthropics = (id: string): object => ({
  type: 'model',
  id,
  display_name: `Sandbox ${id}`,
  created_at: new Date(CREATED * 1000).toISOString(),
})
const googles = (id: string): object => ({
  name: `models/${id}`,
  displayName: `Sandbox ${id}`,
  inputTokenLimit: 1_000_000,
  outputTokenLimit: 1_000_000,
  supportedGenerationMethods: ['generateContent', 'streamGenerateContent', 'countTokens'],
})
