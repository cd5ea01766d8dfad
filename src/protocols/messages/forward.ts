import { insertAt, parseExact, replaceAt, splice } from '../../generation/json-text.ts'
import { belongsTo, SEALED_PREFIX, unseal } from '../../generation/signature.ts'
import { madeBy, placesOf, type Trace } from '../../generation/trace.ts'
import type { Exchange, Target } from '../protocol.ts'
import { isObject } from '../fields.ts'
import { thinkingBlock } from './call-parts.ts'
import { type Json, unmarkOfPart } from './shapes.ts'

/**
 * The client's own body with the provider's model name. Only a conversation that other providers took part in is
 * touched further.
 */
export function forward({ wire, recalled }: Exchange, target: Target): string {
  const named = splice(wire.text, { model: JSON.stringify(target.model) })
  const { thinking, messages } = wire.body
  // Without thinking nobody asks for what was thought before. Who wants thoughts back that it did not sign thinks
  // unless it is told not to.
  const thinks = isObject(thinking) ? thinking.type !== 'disabled' : takesBare(target)
  const changes = thinks ? thoughtsFor(messages as Json[], madeBy(recalled, target), target) : []
  const text = changes.length === 0 ? named : replaceAt(named, changes)
  return MAY_BE_OURS.test(text) ? withoutForeign(text, target) : text
}

/** DeepSeek refuses calls without a block of thinking beside them; it need not be signed, and may be empty. */
const takesBare = ({ quirks }: Target): boolean => quirks.reasoningField === 'reasoning_content'

const NO_THOUGHTS = thinkingBlock({ text: '', signature: '' })

type Change = { path: (string | number)[]; value: (content: string) => string }

/** The thinking that their client left out of the messages, where the provider had put it. */
function thoughtsFor(messages: readonly Json[], traces: readonly Trace[], target: Target): Change[] {
  const back = traces.flatMap((trace) => {
    const place = messages.findIndex(
      ({ content }) =>
        Array.isArray(content) &&
        content.some((block: unknown) => isObject(block) && block.type === 'tool_use' && block.id === trace.call.id),
    )
    if (place < 0) return []
    const blocks = (messages[place]!.content as Json[]).map(({ type, id }) =>
      type === 'tool_use' ? { type: 'tool-call', id: String(id) } : { type: String(type) },
    )
    const bare = new Set(blocks.flatMap(({ type }, index) => (type === 'thinking' ? [index] : [])))
    const added = placesOf(trace, blocks).reasoning.flatMap(({ part: { signature, ...part }, before }) =>
      signature === undefined && !takesBare(target)
        ? []
        : [{ before, value: JSON.stringify(thinkingBlock({ ...part, signature: signature ?? '' })) }],
    )
    return [
      { path: ['messages', place, 'content'], value: (content: string): string => insertAt(content, added, bare) },
    ]
  })
  const owed = takesBare(target)
    ? messages.flatMap(({ content }, place) =>
        owesThoughts(content) && !back.some(({ path }) => path[1] === place) ? [place] : [],
      )
    : []
  return [
    ...back,
    ...owed.map((place) => ({
      path: ['messages', place, 'content'],
      value: (content: string): string => insertAt(content, [{ before: 0, value: JSON.stringify(NO_THOUGHTS) }]),
    })),
  ]
}

const owesThoughts = (content: unknown): boolean =>
  Array.isArray(content) &&
  content.some((block: unknown) => isObject(block) && block.type === 'tool_use') &&
  !content.some((block: unknown) => isObject(block) && block.type === 'thinking')

/** Marks that only an answer translated by us leaves: a sealed signature, an empty one, an empty search index. */
const MAY_BE_OURS = new RegExp(`"${SEALED_PREFIX}|"(?:signature|encrypted_index)"\\s*:\\s*""`)

/**
 * Anthropic refuses a whole request for one signature that is not its own, so what other models signed is taken out
 * here.
 */
function withoutForeign(text: string, target: Target): string {
  const body = parseExact(text)
  if (!isObject(body) || !Array.isArray(body.messages)) return text
  body.messages = body.messages.flatMap((message: unknown) => {
    if (!isObject(message) || !Array.isArray(message.content)) return [message]
    const content = message.content.flatMap((block: unknown) => (isObject(block) ? ownBlock(block, target) : [block]))
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
  if (unmarkOfPart(signature.data) !== undefined) return []
  if (value === '' ? !takesBare(target) : !belongsTo(signature, target, true))
    return takesBare(target) ? [NO_THOUGHTS] : []
  return [{ ...block, [name]: signature.data }]
}

function withoutOurCitations(block: Json): Json {
  if (!Array.isArray(block.citations)) return block
  const { citations, ...rest } = block
  const own = (citations as unknown[]).filter((citation) => !(isObject(citation) && citation.encrypted_index === ''))
  return own.length === 0 ? rest : { ...rest, citations: own }
}
