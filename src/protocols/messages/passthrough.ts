import type { GatewayError } from '../../error.ts'
import { issuedBy, replayPositions, type ReplayState } from '../../generation/replay.ts'
import { isReplayableAt, ENVELOPE_PREFIX, unwrapSignature } from '../../generation/signature.ts'
import { noUsage, type Usage } from '../../generation/usage.ts'
import type { Frame } from '../../http/frames.ts'
import { applyEdits, type Edit, splice } from '../../json/edit.ts'
import { parseExact } from '../../json/exact.ts'
import { members } from '../../json/scan.ts'
import { arrayOf, isObject, objectOf, stringOf } from '../../json/parse.ts'
import { scrub } from '../../log/secrets.ts'
import { objectsIn } from '../media.ts'
import type { EarlyEnd, Passthrough, RawRequest, Target, ResponseContext, ForwardContext } from '../protocol.ts'
import { removeRoutingMembers } from '../routing-members.ts'
import type { LossReport } from '../translation.ts'
import { type Json, untagPartSignature, writeUsage } from './shapes.ts'
import { thinkingBlock } from './write-request-parts.ts'
import { writeError } from './write-error.ts'
import { frameOf, writer } from './write-response-stream.ts'

export function memberChanges(
  { body }: Pick<RawRequest, 'body'>,
  { model, quirks }: Target,
): Record<string, string | undefined> {
  const changes: Record<string, string | undefined> = { model: JSON.stringify(model) }
  removeRoutingMembers(changes, body, quirks)
  return changes
}

/**
 * The client's own body with the provider's model name. It is changed further only if other models took part in the
 * conversation, or if it lacks reasoning that the provider requires.
 */
export function forward({ rawRequest, restoredReasoning }: ForwardContext, target: Target, report: LossReport): string {
  const named = splice(rawRequest.text, memberChanges(rawRequest, target))
  const { thinking, messages } = rawRequest.body
  // Earlier reasoning is not needed without thinking, which is on by default where unsigned reasoning is required.
  const reasons = isObject(thinking) ? thinking.type !== 'disabled' : requiresReasoning(target)
  const edits = reasons ? reasoningEdits(objectsIn(messages), issuedBy(restoredReasoning, target), target) : []
  const text = edits.length === 0 ? named : applyEdits(named, edits)
  if (!MAY_BE_TRANSLATED.test(text)) return text
  loseOfOtherIssuers(objectsIn(messages), edits, target, report)
  return withoutOtherIssuers(text, target)
}

/** DeepSeek refuses tool calls without a block of thinking beside them; it may be unsigned and empty. */
const requiresReasoning = ({ quirks }: Target): boolean => quirks.requiresReasoning === true

const EMPTY_THINKING = thinkingBlock({ text: '', signature: '' })

/** Edits that put back the reasoning that clients left out of the messages, and the reasoning that is required. */
function reasoningEdits(
  messages: readonly [index: number, message: Json][],
  replayStates: readonly ReplayState[],
  target: Target,
): Edit[] {
  const edits: Edit[] = []
  const restored = new Set<number>()
  for (const state of replayStates) {
    const found = messages.find(([, { content }]) => callsOf(content).some(({ id }) => id === state.call.id))
    if (found === undefined) continue
    const [index, { content }] = found
    restored.add(index)
    edits.push(...restoringEdits(['messages', index, 'content'], blocksOf(content), state, target))
  }
  if (!requiresReasoning(target)) return edits
  for (const [index, { content }] of messages) {
    const hasThinking = blocksOf(content).some(({ type }) => type === 'thinking')
    if (!restored.has(index) && callsOf(content).length > 0 && !hasThinking)
      edits.push({ path: ['messages', index, 'content', 0], op: 'insert', value: JSON.stringify(EMPTY_THINKING) })
  }
  return edits
}

/** Edits of one message: the restored reasoning replaces the unsigned thinking that the client sent. */
function restoringEdits(path: (string | number)[], blocks: Json[], state: ReplayState, target: Target): Edit[] {
  const edits: Edit[] = []
  const elements = blocks.map(({ type, id }) =>
    type === 'tool_use' ? { type: 'tool-call', id: stringOf(id) } : { type: stringOf(type) },
  )
  for (const { part, before } of replayPositions(state, elements).reasoning) {
    if (part.signature === undefined && !requiresReasoning(target)) continue
    const block = thinkingBlock({ ...part, signature: part.signature ?? '' })
    edits.push({ path: [...path, before], op: 'insert', value: JSON.stringify(block) })
  }
  for (const [index, { type }] of elements.entries())
    if (type === 'thinking') edits.push({ path: [...path, index], op: 'remove' })
  return edits
}

/** With an empty object for each element that is none, so that indexes stay. */
const blocksOf = (content: unknown): Json[] => arrayOf(content).map(objectOf)

const callsOf = (content: unknown): Json[] => blocksOf(content).filter(({ type }) => type === 'tool_use')

/** Text that only a translated response leaves: a wrapped or empty signature, an empty search index. */
export const MAY_BE_TRANSLATED = new RegExp(`"${ENVELOPE_PREFIX}|"(?:signature|encrypted_index)"\\s*:\\s*""`)

/** The body without what other models issued: Anthropic refuses a request for one signature that is not its own. */
function withoutOtherIssuers(text: string, target: Target): string {
  const body = objectOf(parseExact(text))
  body.messages = arrayOf(body.messages).flatMap((message) => {
    if (!isObject(message) || !Array.isArray(message.content)) return [message]
    const content = message.content.flatMap((block: unknown) => (isObject(block) ? ownBlock(block, target) : [block]))
    return content.length === 0 && message.content.length > 0 ? [] : [{ ...message, content }]
  })
  return JSON.stringify(body)
}

/** Reports what `withoutOtherIssuers` removes of the client's messages, but for reasoning that an edit replaced. */
function loseOfOtherIssuers(
  messages: readonly [index: number, message: Json][],
  edits: readonly Edit[],
  target: Target,
  report: LossReport,
): void {
  const replaced = new Set(edits.filter(({ op }) => op === 'remove').map(({ path }) => path.join()))
  for (const [index, { content }] of messages)
    for (const [at, block] of objectsIn(content)) {
      if (replaced.has(['messages', index, 'content', at].join())) continue
      const [own] = ownBlock(block, target)
      const path = `messages[${index}].content[${at}]`
      if (own === undefined || own === EMPTY_THINKING)
        report.add(signsPart(block) ? 'signature_dropped' : 'reasoning_dropped', path)
      else if (arrayOf(own.citations).length < arrayOf(block.citations).length)
        report.add('citations_dropped', `${path}.citations`)
    }
}

/** Reports whether the block is the signature of another part. */
const signsPart = ({ type, data }: Json): boolean =>
  type === 'redacted_thinking' && untagPartSignature(unwrapSignature(stringOf(data)).data) !== undefined

/** The block as its issuer wrote it, or nothing. */
function ownBlock(block: Json, target: Target): Json[] {
  const name = block.type === 'thinking' ? 'signature' : block.type === 'redacted_thinking' ? 'data' : undefined
  if (name === undefined) return [withoutTranslatedCitations(block)]
  const value = block[name]
  if (typeof value !== 'string') return [block]
  const signature = unwrapSignature(value)
  if (untagPartSignature(signature.data) !== undefined) return []
  if (signature.data === '' && requiresReasoning(target)) return [{ ...block, [name]: '' }]
  if (signature.data !== '' && isReplayableAt(signature, target, true)) return [{ ...block, [name]: signature.data }]
  return requiresReasoning(target) ? [EMPTY_THINKING] : []
}

function withoutTranslatedCitations(block: Json): Json {
  if (!Array.isArray(block.citations)) return block
  const { citations, ...rest } = block
  const own = (citations as unknown[]).filter((citation) => !(isObject(citation) && citation.encrypted_index === ''))
  return own.length === 0 ? rest : { ...rest, citations: own }
}

export const passthrough = (context: ResponseContext): Passthrough => new MessagesPassthrough(context)

/** Only `message_start` has id and model; other frames are unchanged, except for usage that is missing. */
class MessagesPassthrough implements Passthrough {
  readonly #context: ResponseContext
  readonly #identity: { id: string; model: string }
  #hasBegun = false
  /** Indexes of the blocks that have begun and not ended. */
  readonly #open = new Set<number>()

  constructor(context: ResponseContext) {
    const { id, model } = context.responseIdentity
    this.#context = context
    this.#identity = { id: JSON.stringify(id), model: JSON.stringify(model) }
  }

  frame(frame: Frame): Frame | undefined {
    const named = frame.event === undefined ? withEvent(frame) : frame
    if (named?.event === 'error') return { ...named, data: scrub(named.data) }
    if (named?.event === 'content_block_delta') return named
    return named?.event === 'message_start' ? this.#start(named) : this.#recordBlock(named)
  }

  #recordBlock(frame: Frame | undefined): Frame | undefined {
    const event = frame?.event
    if (event !== 'content_block_start' && event !== 'content_block_stop') return frame
    const { data } = frame!
    const index = members(data).find(({ key }) => key === 'index')
    const number = index === undefined ? 0 : Number(data.slice(index.start, index.end))
    if (event === 'content_block_start') this.#open.add(number)
    else this.#open.delete(number)
    return frame
  }

  endEarly({ usage, report }: EarlyEnd): Frame[] {
    const { id, model } = this.#context.responseIdentity
    const begin = this.#hasBegun ? [] : writer(this.#context).write({ type: 'start', id, model })
    const stops = [...this.#open].map((index) => frameOf({ type: 'content_block_stop', index }))
    const delta = { stop_reason: 'max_tokens', stop_sequence: null }
    return [
      ...begin,
      ...stops,
      frameOf({ type: 'message_delta', delta, usage: writeUsage(usage), ...report }),
      frameOf({ type: 'message_stop' }),
    ]
  }

  fail(error: GatewayError): Frame[] {
    return [frameOf(writeError(error))]
  }

  /** `message_delta` has the usage. */
  counted(frame: Frame, usage: Usage): Frame {
    return frame.event === 'message_delta' ? { ...frame, data: splice(frame.data, usageMember(usage)) } : frame
  }

  answer(text: string, counted?: Usage): string {
    return splice(text, counted === undefined ? this.#identity : { ...this.#identity, ...usageMember(counted) })
  }

  #start(frame: Frame): Frame {
    this.#hasBegun = true
    const message = members(frame.data).find(({ key }) => key === 'message')
    if (message === undefined) return frame
    const hasUsage = members(frame.data, message.start).some(
      ({ key, start }) => key === 'usage' && frame.data[start] === '{',
    )
    // Anthropic's SDKs read it there, and fail on a message without it.
    const changes = hasUsage ? this.#identity : { ...this.#identity, ...usageMember(noUsage()) }
    return { ...frame, data: splice(frame.data, changes, message.start) }
  }
}

/** The frame with its event line, without which Anthropic's SDKs skip it; undefined for OpenAI's `[DONE]`. */
function withEvent(frame: Frame): Frame | undefined {
  const type = members(frame.data).find(({ key }) => key === 'type')
  return type === undefined ? undefined : { ...frame, event: frame.data.slice(type.start + 1, type.end - 1) }
}

const usageMember = (usage: Usage): Record<string, string> => ({ usage: JSON.stringify(writeUsage(usage)) })
