import { parseExact, splice } from '../../generation/json-text.ts'
import { belongsTo, SEALED_PREFIX, unseal } from '../../generation/signature.ts'
import type { Exchange, Target } from '../protocol.ts'
import { isObject } from '../fields.ts'
import { type Json, unmarkOfPart } from './shapes.ts'

/** The client's own body with the provider's model name. Only a conversation that other providers took part in is touched further. */
export function forward({ wire }: Exchange, target: Target): string {
  const text = splice(wire.text, { model: JSON.stringify(target.model) })
  return MAY_BE_OURS.test(text) ? withoutForeign(text, target) : text
}

/** Marks that only an answer translated by us leaves: a sealed signature, an empty one, an empty search index. */
const MAY_BE_OURS = new RegExp(`"${SEALED_PREFIX}|"(?:signature|encrypted_index)"\\s*:\\s*""`)

/** Anthropic refuses a whole request for one signature that is not its own, so what other models signed is taken out here. */
function withoutForeign(text: string, target: Target): string {
  const body = parseExact(text)
  if (!isObject(body) || !Array.isArray(body.messages)) return text
  body.messages = body.messages.flatMap((message: unknown) => {
    if (!isObject(message) || !Array.isArray(message.content)) return [message]
    const content = message.content.flatMap((block: unknown) => isObject(block) ? ownBlock(block, target) : [block])
    return content.length === 0 && message.content.length > 0 ? [] : [{ ...message, content }]
  })
  return JSON.stringify(body)
}

/** The block as its maker wrote it, or nothing. */
function ownBlock(block: Json, target: Target): Json[] {
  const name = block.type === 'thinking' ? 'signature' : block.type === 'redacted_thinking' ? 'data' : undefined
  if (name === undefined) return [withoutOurCitations(block)]
  const value = block[name]
  if (typeof value !== 'string') return [block]
  const signature = unseal(value)
  if (value === '' || unmarkOfPart(signature.data) !== undefined || !belongsTo(signature, target, true)) return []
  return [{ ...block, [name]: signature.data }]
}

function withoutOurCitations(block: Json): Json {
  if (!Array.isArray(block.citations)) return block
  const { citations, ...rest } = block
  const own = (citations as unknown[]).filter((citation) => !(isObject(citation) && citation.encrypted_index === ''))
  return own.length === 0 ? rest : { ...rest, citations: own }
}
