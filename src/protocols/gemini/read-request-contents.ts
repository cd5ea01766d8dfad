import { invalid } from '../../error.ts'
import type { Part, ReasoningPart, TextPart, ToolResultPart, Turn } from '../../generation/request.ts'
import type { Signature } from '../../generation/signature.ts'
import { isObject } from '../../json/parse.ts'
import { collectExtras, refuseUnreadable, tryRead } from '../fields.ts'
import { ConversationReading } from '../pieces.ts'
import type { RawRequest } from '../protocol.ts'
import type { GoogleFields } from './fields.ts'
import { nativePart, type OpenCall, PartReader } from './read-request-parts.ts'
import { HIDDEN } from './shapes.ts'

/** Reads `contents` and `systemInstruction` of one request. */
export class ContentReader {
  readonly reading: ConversationReading
  readonly #parts: PartReader

  constructor(rawRequest: RawRequest, extras: Record<string, unknown>) {
    this.reading = new ConversationReading(extras)
    this.#parts = new PartReader(rawRequest, this.reading)
  }

  read(body: GoogleFields, contents: readonly unknown[]): void {
    const states: OpenCall[][] = []
    this.reading.read(contents, {
      owner: ContentReader,
      isBoundary,
      states,
      resume: () => this.#parts.open(states.at(-1)!),
      read: (index) => {
        const inPiece = body.inner(body.value, body.path, this.reading.extras)
        const content = inPiece.element('contents', contents, index)
        if (content !== undefined) this.#tryContent(content, index)
      },
      end: () => states.push(this.#parts.openCalls),
    })
  }

  #tryContent(content: GoogleFields, index: number): void {
    try {
      this.#readContent(content, index)
    } catch (error) {
      refuseUnreadable(error, this.reading.extras)
      this.reading.turns.push({ role: 'user', parts: [nativePart(content, 'content')], path: content.path })
    }
  }

  readSystem(body: GoogleFields): Part[] {
    return tryRead(() => this.#readSystem(body), body, this.reading.extras) ?? []
  }

  /** A Content of any role, or a string, as some clients send it. */
  #readSystem(body: GoogleFields): Part[] {
    const value = body.take('systemInstruction')
    const path = body.at('systemInstruction')
    if (value === undefined) return []
    if (typeof value === 'string') return [{ type: 'text', text: value, path }]
    const content = body.inner(value, path)
    content.string('role')
    const parts = (content.objects('parts') ?? []).flatMap((part) => this.#parts.read(part, undefined))
    collectExtras(content, this.reading.extras)
    if (parts.some(({ type }) => type === 'tool-result' || type === 'tool-call'))
      throw invalid(content.at('parts'), 'must not contain function calls or responses')
    return parts
  }

  #readContent(content: GoogleFields, index: number): void {
    const { path } = content
    // Earlier versions of the API had a role of its own for the results of calls.
    const role = content.oneOf('role', ['user', 'model', 'function'])
    content.require('parts', content.array('parts', { min: 1, of: 'parts' }), 'an array of at least one part')
    const turns: Turn[] = []
    const results: ToolResultPart[] = []
    for (const [number, part] of content.objects('parts')!.entries()) {
      for (const read of this.#parts.read(part, { content: index, number })) {
        if (read.type === 'tool-result') {
          results.push(read)
          continue
        }
        // A call and reasoning are the model's, also in a content of another role.
        const isModel = role === 'model' || read.type === 'tool-call' || read.type === 'reasoning'
        const turnRole = isModel ? 'assistant' : 'user'
        if (turns.at(-1)?.role !== turnRole) turns.push({ role: turnRole, parts: [], path })
        const { parts } = turns.at(-1)!
        if (!isModel || !continueText(parts.at(-1), read)) appendPart(parts, read)
      }
    }
    collectExtras(content, this.reading.extras)
    if (results.length > 0) this.#addResults(results, path)
    this.#addTurns(turns)
  }

  #addResults(results: ToolResultPart[], path: string): void {
    const last = this.reading.last('tool')
    if (last === undefined) this.reading.turns.push({ role: 'tool', parts: results, path })
    else for (const result of results) last.parts.push(result)
  }

  /** Google's SDK keeps each chunk of a stream as a content of its own: such contents are one turn. */
  #addTurns(turns: Turn[]): void {
    const last = turns[0]?.role === 'assistant' ? this.reading.last('assistant') : undefined
    if (last !== undefined)
      for (const part of turns.shift()!.parts) if (!continueText(last.parts.at(-1), part)) appendPart(last.parts, part)
    for (const turn of turns) this.reading.turns.push(turn)
  }
}

/** Reports whether contents of the model begin here. */
const isBoundary = (contents: readonly unknown[], at: number): boolean =>
  isOfModel(contents[at]) && !isOfModel(contents[at - 1])

const isOfModel = (content: unknown): boolean => isObject(content) && content.role === 'model'

/** Appends a piece of text to the text before it; false where either is not plain text. */
function continueText(last: Part | undefined, part: Part): boolean {
  if (last?.type !== 'text' || part.type !== 'text' || last.signature !== undefined || part.signature !== undefined)
    return false
  last.text += part.text
  return true
}

/**
 * Appends a part. Streamed responses come back in pieces: a piece of reasoning continues the piece before it, and a
 * piece with only a signature signs the text before it.
 */
function appendPart(parts: Part[], part: Part): void {
  const last = parts.at(-1)
  if (part.type === 'reasoning' && part.text !== '' && last?.type === 'reasoning' && last.signature === undefined) {
    last.text += part.text
    if (part.signature !== undefined) last.signature = part.signature
    return
  }
  // LiteLLM moves the signature of reasoning to the text behind it; only reasoning is signed in envelopes.
  const isMoved = part.type === 'text' && part.signature?.issuer !== undefined && last?.type === 'reasoning'
  if (isMoved && last.signature === undefined) {
    const { signature, ...text } = part
    last.signature = signature!
    if (text.text !== '') parts.push(text)
  } else if (!hasText(part) || part.text !== '' || part.signature === undefined) parts.push(part)
  else if (
    last !== undefined &&
    hasText(last) &&
    last.type === part.type &&
    last.signature === undefined &&
    part.signature.note !== HIDDEN
  )
    last.signature = part.signature
  else parts.push(part.type === 'reasoning' && isHidden(part.signature) ? { ...part, redacted: true } : part)
}

/** Google's own reasoning without text is hidden; of other providers, a note on the wrapped signature says so. */
const isHidden = ({ issuer, note }: Signature): boolean => issuer === undefined || note === HIDDEN

const hasText = (part: Part): part is TextPart | ReasoningPart => part.type === 'text' || part.type === 'reasoning'
