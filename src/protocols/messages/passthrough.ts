import { insertAt, replaceAt, splice } from '../../json/edit.ts'
import { parseExact } from '../../json/exact.ts'
import { belongsTo, ENVELOPE_PREFIX, unwrapSignature } from '../../generation/signature.ts'
import { issuedBy, placesOf, type ReplayState } from '../../generation/replay.ts'
import type { TranslationContext, Target } from '../protocol.ts'
import { isObject } from '../fields.ts'
import { thinkingBlock } from './write-request-parts.ts'
import { type Json, unmarkOfPart } from './shapes.ts'

/**
 * The client's own body with the provider's model name. Only a conversation that other providers took part in is
 * touched further.
 */
export function forward({ rawRequest, restoredReasoning }: TranslationContext, target: Target): string {
  const named = splice(rawRequest.text, { model: JSON.stringify(target.model) })
  const { thinking, messages } = rawRequest.body
  // Without thinking nobody asks for what was thought before. Who wants thoughts back that it did not sign thinks
  // unless it is told not to.
  const thinks = isObject(thinking) ? thinking.type !== 'disabled' : takesBare(target)
  const changes = thinks ? thoughtsFor(messages as Json[], issuedBy(restoredReasoning, target), target) : []
  const text = changes.length === 0 ? named : replaceAt(named, changes)
  return MAY_BE_OURS.test(text) ? withoutNative(text, target) : text
}

/** DeepSeek refuses calls without a block of thinking beside them; it need not be signed, and may be empty. */
const takesBare = ({ quirks }: Target): boolean => quirks.requiresReasoning === true

const NO_THOUGHTS = thinkingBlock({ text: '', signature: '' })

type Change = { path: (string | number)[]; value: (content: string) => string }

/** The thinking that their client left out of the messages, where the provider had put it. */
function thoughtsFor(messages: readonly Json[], replayStates: readonly ReplayState[], target: Target): Change[] {
  const back = replayStates.flatMap((replayState) => {
    const place = messages.findIndex(
      ({ content }) =>
        Array.isArray(content) &&
        content.some(
          (block: unknown) => isObject(block) && block.type === 'tool_use' && block.id === replayState.call.id,
        ),
    )
    if (place < 0) return []
    const blocks = (messages[place]!.content as Json[]).map(({ type, id }) =>
      type === 'tool_use' ? { type: 'tool-call', id: String(id) } : { type: String(type) },
    )
    const bare = new Set(blocks.flatMap(({ type }, index) => (type === 'thinking' ? [index] : [])))
    const added = placesOf(replayState, blocks).reasoning.flatMap(({ part: { signature, ...part }, before }) =>
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
const MAY_BE_OURS = new RegExp(`"${ENVELOPE_PREFIX}|"(?:signature|encrypted_index)"\\s*:\\s*""`)

/**
 * Anthropic refuses a whole request for one signature that is not its own, so what other models signed is taken out
 * here.
 */
function withoutNative(text: string, target: Target): string {
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
  const signature = unwrapSignature(value)
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
