import { invalid } from '../../error.ts'
import {
  EFFORTS,
  type Effort,
  type MediaPart,
  type Part,
  type Reasoning,
  type ReasoningPart,
  type TextPart,
  type ToolCallPart,
} from '../../generation/request.ts'
import { unwrapSignature } from '../../generation/signature.ts'
import { isObject } from '../../json/parse.ts'
import type { Extras, Fields } from '../fields.ts'
import { positionOf, TEXT_ID } from './shapes.ts'

/** A part that `reasoning_details` may sign. */
export type Signable = MediaPart | ToolCallPart

/** Members with the text of reasoning: OpenRouter's, that of most servers, and Copilot's. */
const TEXTS = ['reasoning', 'reasoning_content', 'reasoning_text'] as const

/**
 * Earlier reasoning of an assistant message. `reasoning_details`, or LiteLLM's `thinking_blocks`, have the most; the
 * same text in another member is not read again. `signable`: calls and images of the message by their ids in details.
 */
export function readReasoning(message: Fields, signable: ReadonlyMap<string, Signable>): Part[] {
  const texts = TEXTS.map((name) => message.string(name))
  const found = Math.max(
    0,
    texts.findIndex((text) => text !== undefined),
  )
  const builder = new ReasoningBuilder(signable)
  const details = message.objects('reasoning_details') ?? []
  for (const detail of details) builder.add(detail)
  const blocks = details.length === 0 ? message.objects('thinking_blocks') : []
  if (details.length > 0) message.take('thinking_blocks')
  for (const block of blocks ?? []) builder.addBlock(block)
  return builder.parts({ text: texts[found] ?? '', path: message.at(TEXTS[found]!) })
}

type Draft = (ReasoningPart | TextPart) & { index?: number }

/**
 * The entries of `reasoning_details` as parts: entries cut up by a stream (same index) are joined, and a summary and
 * the encrypted entry that follows it are one part.
 */
class ReasoningBuilder {
  readonly #parts: Draft[] = []
  readonly #signable: ReadonlyMap<string, Signable>

  constructor(signable: ReadonlyMap<string, Signable>) {
    this.#signable = signable
  }

  add(detail: Fields): void {
    const type = detail.require('type', detail.string('type'), "such as 'reasoning.text'")
    detail.string('format')
    const index = detail.number('index')
    const id = detail.string('id')
    const head = { ...(id === undefined ? {} : { id }), ...(index === undefined ? {} : { index }), path: detail.path }
    if (type === 'reasoning.encrypted') this.#encrypted(detail, head)
    else if (type === 'reasoning.summary') this.#visible(detail, 'summary', { ...head, form: 'summary' })
    else this.#visible(detail, 'text', head)
  }

  /** Anthropic's block, as clients of LiteLLM have it. */
  addBlock(block: Fields): void {
    const type = block.require('type', block.string('type'), "'thinking' or 'redacted_thinking'")
    if (type === 'redacted_thinking') this.#encrypted(block, { path: block.path })
    else this.#visible(block, 'thinking', { path: block.path })
  }

  /** All parts; the plain text only where no entry has text. */
  parts(plain: { text: string; path: string }): Part[] {
    const parts = this.#parts.map(({ index: _, ...part }) => part)
    if (plain.text !== '' && parts.every((part) => part.text === '')) parts.unshift({ type: 'reasoning', ...plain })
    return parts
  }

  get #last(): (ReasoningPart & { index?: number }) | undefined {
    const last = this.#parts.at(-1)
    return last?.type === 'reasoning' ? last : undefined
  }

  #encrypted(detail: Fields, head: Pick<Draft & ReasoningPart, 'id' | 'index' | 'path'>): void {
    const data = detail.require('data', detail.string('data'), 'the encrypted reasoning')
    const signature = unwrapSignature(data)
    const { id } = head
    const signed = id === undefined ? undefined : this.#signable.get(id)
    const last = this.#last
    if (signed !== undefined) signed.signature = signature
    // An empty text, which `inGenerationOrder` replaces by the text that it signs.
    else if (id === TEXT_ID) this.#parts.push({ type: 'text', text: '', signature, path: detail.path })
    else if (
      last?.form === 'summary' &&
      last.signature === undefined &&
      (id === undefined || last.id === undefined || last.id === id)
    )
      Object.assign(last, { signature }, id === undefined ? {} : { id })
    else this.#parts.push({ type: 'reasoning', text: '', redacted: true, signature, ...head })
  }

  #visible(
    detail: Fields,
    field: 'summary' | 'text' | 'thinking',
    head: Pick<Draft & ReasoningPart, 'id' | 'index' | 'path' | 'form'>,
  ): void {
    const text = detail.string(field)
    const signature = detail.string('signature')
    if (text === undefined && signature === undefined) throw invalid(detail.at(field), 'is required')
    const signed = signature === undefined || signature === '' ? {} : { signature: unwrapSignature(signature) }
    const last = this.#last
    const continues =
      last !== undefined &&
      head.index !== undefined &&
      last.index === head.index &&
      last.form === head.form &&
      last.redacted !== true
    if (continues) Object.assign(last, { text: last.text + (text ?? '') }, signed)
    else this.#parts.push({ type: 'reasoning', text: text ?? '', ...signed, ...head })
  }
}

/**
 * The parts of an assistant message in the order in which they were generated, as far as signatures have it: reasoning,
 * text or refusal, media, calls. `reasoning`: also signed texts, of which each is the piece of `content` with its
 * signature, which may be empty (Google ends responses so).
 */
export function inGenerationOrder(reasoning: Part[], content: Part[], calls: ToolCallPart[]): Part[] {
  const texts = new TextCursor(content.filter((part) => part.type === 'text'))
  const waiting = [...calls]
  const parts: Part[] = []
  const add = (more: readonly Part[]): void => {
    for (const part of more) parts.push(part)
  }
  for (const part of reasoning) {
    const signature = 'signature' in part ? part.signature : undefined
    const { note, ...plain } = signature ?? { data: '' }
    const position = positionOf(note)
    add(texts.take(position.text))
    add(waiting.splice(0, Math.max(0, position.calls - (calls.length - waiting.length))))
    if (part.type === 'text') {
      const pieces = texts.take(position.end)
      add(pieces.slice(0, -1))
      parts.push({ ...part, ...pieces.at(-1), signature: plain })
    } else parts.push(signature === undefined ? part : ({ ...part, signature: plain } as Part))
  }
  add(texts.take(Infinity))
  add(content.filter((part) => part.type !== 'text'))
  add(waiting)
  return parts
}

/** Takes text parts from the front, cut at offsets in all of the text. */
class TextCursor {
  readonly #texts: TextPart[]
  #next = 0
  #offset = 0

  constructor(texts: TextPart[]) {
    this.#texts = texts
  }

  /** The text up to this offset, UTF-16 units; a piece that is cut keeps its citations with the rest. */
  take(until: number): TextPart[] {
    const pieces: TextPart[] = []
    for (let text = this.#texts[this.#next]; text !== undefined && this.#offset < until; ) {
      const [head, rest] = cut(text, until - this.#offset)
      pieces.push(head)
      this.#offset += head.text.length
      if (rest === undefined) this.#next += 1
      else this.#texts[this.#next] = rest
      text = this.#texts[this.#next]
    }
    return pieces
  }
}

/** A text in two, of which none ends within a surrogate pair. */
function cut(part: TextPart, length: number): [head: TextPart, rest?: TextPart] {
  const end = /^[\udc00-\udfff]/.test(part.text.slice(length, length + 1)) ? length + 1 : length
  if (end >= part.text.length) return [part]
  return [
    { type: 'text', text: part.text.slice(0, end), path: part.path },
    { ...part, text: part.text.slice(end) },
  ]
}

/** `reasoning_effort`, `thinking`, and OpenRouter's `reasoning`, which has more. Unknown efforts are extras. */
export function readReasoningOptions(body: Fields, extras: Extras): Reasoning | undefined {
  const options = body.object('reasoning')
  const read: Reasoning = { ...readEffort(body, 'reasoning_effort', extras), ...readThinking(body) }
  const included = typeof body.value.include_reasoning === 'boolean' ? body.boolean('include_reasoning') : undefined
  if (included !== undefined) read.visible = included
  if (options !== undefined) {
    Object.assign(read, readEffort(options, 'effort', extras))
    const budget = options.integer('max_tokens', { min: 0 })
    if (budget !== undefined) read.budgetTokens = budget
    const hidden = options.boolean('exclude')
    if (hidden !== undefined) read.visible = !hidden
    const summary = options.string('summary')
    // Reasoning that the client does not want to see needs no summary.
    if (summary !== undefined && read.visible !== false) Object.assign(read, { summary, visible: summary !== 'none' })
    const enabled = options.boolean('enabled')
    if (enabled === false) read.effort = 'none'
    else if (enabled === true) read.adaptive = true
  }
  if (read.effort !== undefined || read.budgetTokens !== undefined) delete read.adaptive
  return Object.keys(read).length > 0 ? read : undefined
}

/**
 * `thinking`: the switch of DeepSeek, Moonshot and z.ai, or Anthropic's with a budget, as clients of LiteLLM send it.
 * In any other form it is an extra.
 */
function readThinking(body: Fields): Reasoning {
  const { thinking } = body.value
  if (!isObject(thinking) || !THINKING.has(thinking.type)) return {}
  const options = body.object('thinking')!
  const type = options.string('type')
  const budget = options.integer('budget_tokens', { min: 0 })
  if (type === 'disabled') return { effort: 'none' }
  return budget === undefined || type === 'adaptive' ? { adaptive: true } : { budgetTokens: budget }
}

const THINKING: ReadonlySet<unknown> = new Set(['enabled', 'disabled', 'adaptive'])

function readEffort(fields: Fields, name: string, extras: Extras): { effort?: Effort } {
  const effort = fields.string(name)
  if (effort === undefined) return {}
  if ((EFFORTS as readonly string[]).includes(effort)) return { effort: effort as Effort }
  extras[fields.at(name)] = effort
  return {}
}
