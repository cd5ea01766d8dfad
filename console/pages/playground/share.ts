import { type ConversationName, CONVERSATIONS } from '../../parts/protocols.ts'
import { type Conversation, emptyConversation } from './conversation.ts'

/** A request as a link: no key, no answer. `raw`: the edited body, where there is one. */
export type Shared = { models: string[]; protocol: ConversationName; form: Conversation; raw: string | undefined }

const MOST = 64 * 1024

/** The text of the fragment; undefined for a request that is too long for a link. */
export function writeShared({ models, protocol, form, raw }: Shared): string | undefined {
  const bytes = new TextEncoder().encode(JSON.stringify({ models, protocol, form, raw }))
  if (bytes.length > MOST) return undefined
  let binary = ''
  for (const byte of bytes) binary += String.fromCharCode(byte)
  return btoa(binary).replaceAll('+', '-').replaceAll('/', '_').replace(/=+$/, '')
}

/** The draft in a fragment; undefined for any other one. Every member is checked: a link can come from anybody. */
export function readShared(fragment: string): Shared | undefined {
  try {
    const binary = atob(fragment.replaceAll('-', '+').replaceAll('_', '/'))
    const json = JSON.parse(new TextDecoder().decode(Uint8Array.from(binary, (char) => char.charCodeAt(0)))) as Shared
    const { models, protocol, form, raw } = json
    if (!Array.isArray(models) || !models.every((model) => typeof model === 'string')) return undefined
    if (!(protocol in CONVERSATIONS)) return undefined
    return {
      models: models.slice(0, 4),
      protocol,
      form: readForm(form),
      raw: typeof raw === 'string' ? raw : undefined,
    }
  } catch {
    return undefined
  }
}

function readForm(form: Partial<Conversation>): Conversation {
  const empty = emptyConversation()
  const text = (name: 'system' | 'maxTokens' | 'temperature' | 'seed' | 'tools' | 'schema'): string =>
    typeof form[name] === 'string' ? form[name] : ''
  const turns = (Array.isArray(form.turns) ? form.turns : []).map(({ role, text: words, media }) => ({
    role: role === 'assistant' ? ('assistant' as const) : ('user' as const),
    text: typeof words === 'string' ? words : '',
    media: (Array.isArray(media) ? media : []).flatMap(({ name, type, base64 }) =>
      [name, type, base64].every((one) => typeof one === 'string') ? [{ name, type, base64 }] : [],
    ),
  }))
  return {
    stream: form.stream !== false,
    system: text('system'),
    turns: turns.length === 0 ? empty.turns : turns,
    maxTokens: text('maxTokens'),
    temperature: text('temperature'),
    seed: text('seed'),
    effort: form.effort === 'low' || form.effort === 'medium' || form.effort === 'high' ? form.effort : '',
    tools: text('tools'),
    schema: text('schema'),
  }
}
