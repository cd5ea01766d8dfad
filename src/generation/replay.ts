import { createHash } from 'node:crypto'
import type { GenerationEvent, PartHead } from './event.ts'
import { canonical } from '../json/parse.ts'
import type { Part, ReasoningPart, ToolCallPart, Turn } from './request.ts'
import type { Issuer } from './signature.ts'

/**
 * What a provider wants back of an answer that called tools: the reasoning, signed where its provider signs, and which
 * of its parts bore a signature.
 */
export type ReplayState = {
  issuer: Issuer
  /**
   * The first call, by whose id the answer is known again, and a digest of its name and arguments: some providers give
   * every answer the same ids.
   */
  call: { id: string; digest: string }
  /** In their order. */
  parts: ReplayPart[]
}

export type ReplayReasoning = Pick<ReasoningPart, 'form' | 'redacted' | 'id'> & {
  type: 'reasoning'
  text: string
  signature?: string
}

/** What calls and texts say is the client's to send. */
export type ReplayPart =
  | ReplayReasoning
  | { type: 'text'; signature?: string }
  | { type: 'tool-call'; id: string; signature?: string }

/** Characters of one answer's reasoning and signatures: beyond, nothing of it is kept. */
const MOST_CHARACTERS = 1024 * 1024

/** Hears an answer, and tells what its provider will want back of it. */
export class ReplayRecorder {
  readonly #parts: ReplayPart[] = []
  #call: { id: string; name: string; arguments: string } | undefined
  #head: PartHead | undefined
  #text = ''
  #kept = 0
  readonly #issuer: Issuer
  readonly #bare: boolean

  /** `bare`: the provider wants reasoning back that it does not sign, too. */
  constructor(issuer: Issuer, bare: boolean) {
    this.#issuer = issuer
    this.#bare = bare
  }

  record(events: readonly GenerationEvent[]): void {
    for (const event of events) {
      if (event.type === 'part-start') {
        this.#head = event.head
        this.#text = ''
      } else if (event.type === 'part-delta') this.#keep(event.text)
      else if (event.type === 'part-end') this.#end(event.signature)
    }
  }

  #keep(text: string): void {
    const type = this.#head?.type
    if (type === 'text') this.#text ||= text
    else if (
      this.#kept <= MOST_CHARACTERS &&
      (type === 'reasoning' || (type === 'tool-call' && this.#call === undefined))
    ) {
      this.#text += text
      this.#kept += text.length
    }
  }

  #end(signature: string | undefined): void {
    const head = this.#head
    this.#kept += signature?.length ?? 0
    const signed = signature === undefined ? {} : { signature }
    if (head?.type === 'reasoning' && (signature !== undefined || (this.#bare && this.#text !== '')))
      this.#parts.push({ ...head, text: this.#text, ...signed })
    else if (head?.type === 'text' && this.#text !== '') this.#parts.push({ type: 'text', ...signed })
    else if (head?.type === 'tool-call') {
      this.#call ??= { id: head.id, name: head.name, arguments: this.#text }
      this.#parts.push({ type: 'tool-call', id: head.id, ...signed })
    }
    this.#head = undefined
  }

  /** Undefined where there is nothing to send back: no call, nothing beside it, or too much. */
  get replayState(): ReplayState | undefined {
    if (
      this.#call === undefined ||
      this.#kept > MOST_CHARACTERS ||
      this.#parts.every(({ type, signature }) => type !== 'reasoning' && signature === undefined)
    )
      return undefined
    return { issuer: this.#issuer, call: { id: this.#call.id, digest: digestOf(this.#call) }, parts: this.#parts }
  }
}

const digestOf = ({ name, arguments: text }: Pick<ToolCallPart, 'name' | 'arguments'>): string =>
  createHash('sha256')
    .update(`${name}\n${canonical(text)}`)
    .digest('base64url')

/**
 * Turns that came back without what their provider signed, by their places, each with the first of its calls. An id
 * that stands in two turns tells neither.
 */
export function unsigned(turns: readonly Turn[]): { place: number; call: ToolCallPart }[] {
  const uses = new Map<string, number>()
  const found: { place: number; call: ToolCallPart }[] = []
  for (const [place, { role, parts }] of turns.entries()) {
    const call = role === 'assistant' ? parts.find((part) => part.type === 'tool-call') : undefined
    if (call === undefined) continue
    uses.set(call.id, (uses.get(call.id) ?? 0) + 1)
    if (!parts.some((part) => 'signature' in part && part.signature !== undefined)) found.push({ place, call })
  }
  return found.filter(({ call }) => uses.get(call.id) === 1)
}

/**
 * Whether a turn lacks what the trace has: it begins with the same call, and what its client sent of reasoning is not
 * all that its provider wants.
 */
export function isMissing({ call, parts }: ReplayState, turn: Turn, first: ToolCallPart): boolean {
  const bare = parts.every(({ signature }) => signature === undefined)
  return (
    call.id === first.id &&
    call.digest === digestOf(first) &&
    !(bare && turn.parts.some((part) => part.type === 'reasoning' && part.text !== ''))
  )
}

/** What this model made of what was recalled. */
export const issuedBy = (
  replayStates: readonly ReplayState[] | undefined,
  { provider, model }: Issuer,
): readonly ReplayState[] =>
  (replayStates ?? []).filter(({ issuer }) => issuer.provider === provider && issuer.model === model)

/** An element of a turn as a client sent it. */
export type ConversationElement = { type: string; id?: string }

/**
 * Where a trace's reasoning and signatures belong among the elements of its turn: `before` is an index, or their number
 * for the end.
 */
export function placesOf(
  { parts }: ReplayState,
  elements: readonly ConversationElement[],
): { reasoning: { part: ReplayReasoning; before: number }[]; signatures: { index: number; signature: string }[] } {
  const texts = elements.flatMap(({ type }, index) => (type === 'text' ? [index] : []))
  const reasoning: { part: ReplayReasoning; before: number }[] = []
  const signatures: { index: number; signature: string }[] = []
  let text = parts.filter(({ type }) => type === 'text').length
  let next = elements.length
  for (const part of parts.toReversed()) {
    if (part.type === 'reasoning') {
      reasoning.unshift({ part, before: next })
      continue
    }
    const index =
      part.type === 'text'
        ? (texts[--text] ?? -1)
        : elements.findIndex(({ type, id }) => type === 'tool-call' && id === part.id)
    if (index < 0) continue
    next = Math.min(next, index)
    if (part.signature !== undefined) signatures.push({ index, signature: part.signature })
  }
  return { reasoning, signatures }
}

/**
 * A turn with what its provider wants back, in its place. Reasoning that came back bare is what the signed one says
 * already.
 */
export function restored(turn: Turn, replayState: ReplayState): Turn {
  const { issuer } = replayState
  const sent = turn.parts.filter((part) => part.type !== 'reasoning')
  const { reasoning, signatures } = placesOf(
    replayState,
    sent.map((part) =>
      part.type === 'text' && part.text === '' ? { type: 'nothing' } : (part as ConversationElement),
    ),
  )
  const signedBy = new Map(signatures.map(({ index, signature }) => [index, { data: signature, issuer }]))
  const before = (place: number): Part[] =>
    reasoning
      .filter((one) => one.before === place)
      .map(({ part: { signature, ...part } }) =>
        signature === undefined ? part : { ...part, signature: { data: signature, issuer } },
      )
  const parts = sent.flatMap((part, index): Part[] => {
    const signature = signedBy.get(index)
    return [...before(index), signature === undefined ? part : ({ ...part, signature } as Part)]
  })
  return { ...turn, parts: [...parts, ...before(sent.length)] }
}
