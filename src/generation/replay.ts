import { createHash } from 'node:crypto'
import type { GenerationEvent, PartHead } from './event.ts'
import { canonical } from '../json/parse.ts'
import type { Part, ReasoningPart, ToolCallPart, Turn } from './request.ts'
import type { Issuer } from './signature.ts'

/**
 * The parts of a response with tool calls that its provider requires in the next request, although many clients do not
 * send them: the reasoning, signed if the provider signs, and the signatures of other parts.
 */
export type ReplayState = {
  issuer: Issuer
  /**
   * The first tool call. Its id identifies the response in the next request; the digest of its name and arguments is
   * compared too, since some providers repeat their ids.
   */
  call: { id: string; digest: string }
  /** In the order of the response. */
  parts: ReplayPart[]
}

type ReplayReasoning = Pick<ReasoningPart, 'form' | 'redacted' | 'id'> & {
  type: 'reasoning'
  text: string
  signature?: string
}

/** Text, and the arguments of tool calls, are not stored: the client sends them. */
type ReplayPart =
  | ReplayReasoning
  | { type: 'text'; signature?: string }
  | { type: 'tool-call'; id: string; signature?: string }

/** Limit on the reasoning and signatures of one response; above it nothing of the response is stored. */
const CHARACTERS_MAX = 1024 * 1024

/** Records the events of a response and makes its replay state. */
export class ReplayRecorder {
  readonly #parts: ReplayPart[] = []
  #call: { id: string; name: string; arguments: string } | undefined
  #head: PartHead | undefined
  #text = ''
  #characters = 0
  readonly #issuer: Issuer
  readonly #keepsUnsigned: boolean
  #adopted: ReplayState | undefined

  /** `keepsUnsigned`: the provider also requires reasoning that it does not sign. */
  constructor(issuer: Issuer, keepsUnsigned: boolean) {
    this.#issuer = issuer
    this.#keepsUnsigned = keepsUnsigned
  }

  /** The arguments of a recorder in another process. */
  get terms(): { issuer: Issuer; keepsUnsigned: boolean } {
    return { issuer: this.#issuer, keepsUnsigned: this.#keepsUnsigned }
  }

  /** Takes the state that such a recorder made. */
  adopt(replayState: ReplayState | undefined): void {
    this.#adopted = replayState
  }

  record(events: readonly GenerationEvent[]): void {
    for (const event of events) {
      if (event.type === 'part-start') {
        this.#head = event.head
        this.#text = ''
      } else if (event.type === 'part-delta') this.#append(event.text)
      else if (event.type === 'part-end') this.#end(event.signature)
    }
  }

  #append(text: string): void {
    const type = this.#head?.type
    if (type === 'text') this.#text ||= text
    else if (
      this.#characters <= CHARACTERS_MAX &&
      (type === 'reasoning' || (type === 'tool-call' && this.#call === undefined))
    ) {
      this.#text += text
      this.#characters += text.length
    }
  }

  #end(signature: string | undefined): void {
    const head = this.#head
    this.#characters += signature?.length ?? 0
    const signed = signature === undefined ? {} : { signature }
    if (head?.type === 'reasoning' && (signature !== undefined || (this.#keepsUnsigned && this.#text !== '')))
      this.#parts.push({ ...head, text: this.#text, ...signed })
    else if (head?.type === 'text' && this.#text !== '') this.#parts.push({ type: 'text', ...signed })
    else if (head?.type === 'tool-call') {
      this.#call ??= { id: head.id, name: head.name, arguments: this.#text }
      this.#parts.push({ type: 'tool-call', id: head.id, ...signed })
    }
    this.#head = undefined
  }

  /** Undefined if there is no tool call, nothing to send with it, or too much. */
  get replayState(): ReplayState | undefined {
    if (this.#adopted !== undefined) return this.#adopted
    if (
      this.#call === undefined ||
      this.#characters > CHARACTERS_MAX ||
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
 * Assistant turns with tool calls but without any signature: their indexes, each with its first call. Turns that share
 * the id of that call are left out, since the id identifies neither.
 */
export function unsignedTurns(turns: readonly Turn[]): { index: number; call: ToolCallPart }[] {
  const uses = new Map<string, number>()
  const found: { index: number; call: ToolCallPart }[] = []
  for (const [index, { role, parts }] of turns.entries()) {
    const call = role === 'assistant' ? parts.find((part) => part.type === 'tool-call') : undefined
    if (call === undefined) continue
    uses.set(call.id, (uses.get(call.id) ?? 0) + 1)
    if (!parts.some((part) => 'signature' in part && part.signature !== undefined)) found.push({ index, call })
  }
  return found.filter(({ call }) => uses.get(call.id) === 1)
}

/**
 * True if the state belongs to this turn (the same first call) and the client did not send all of it. Unsigned
 * reasoning that the client sent is complete.
 */
export function lacksState({ call, parts }: ReplayState, turn: Turn, first: ToolCallPart): boolean {
  const isUnsigned = parts.every(({ signature }) => signature === undefined)
  return (
    call.id === first.id &&
    call.digest === digestOf(first) &&
    !(isUnsigned && turn.parts.some((part) => part.type === 'reasoning' && part.text !== ''))
  )
}

/** The replay states that this model issued. */
export const issuedBy = (
  replayStates: readonly ReplayState[] | undefined,
  { provider, model }: Issuer,
): readonly ReplayState[] =>
  (replayStates ?? []).filter(({ issuer }) => issuer.provider === provider && issuer.model === model)

/** An element of a turn as a client sent it. */
type ConversationElement = { type: string; id?: string }

/**
 * The positions of a state's reasoning and signatures among the elements of its turn. `before`: the index of the
 * element that the reasoning precedes; the number of elements for the end.
 */
export function replayPositions(
  { parts }: ReplayState,
  elements: readonly ConversationElement[],
): { reasoning: { part: ReplayReasoning; before: number }[]; signatures: { index: number; signature: string }[] } {
  const texts = elements.flatMap(({ type }, index) => (type === 'text' ? [index] : []))
  const reasoning: { part: ReplayReasoning; before: number }[] = []
  const signatures: { index: number; signature: string }[] = []
  let textsLeft = parts.filter(({ type }) => type === 'text').length
  let next = elements.length
  for (const part of parts.toReversed()) {
    if (part.type === 'reasoning') {
      reasoning.unshift({ part, before: next })
      continue
    }
    const index =
      part.type === 'text'
        ? (texts[--textsLeft] ?? -1)
        : elements.findIndex(({ type, id }) => type === 'tool-call' && id === part.id)
    if (index < 0) continue
    next = Math.min(next, index)
    if (part.signature !== undefined) signatures.push({ index, signature: part.signature })
  }
  return { reasoning, signatures }
}

/**
 * A turn with its reasoning and signatures restored. Unsigned reasoning that the client sent is replaced: the state has
 * the same text with its signature.
 */
export function restoreTurn(turn: Turn, replayState: ReplayState): Turn {
  const { issuer } = replayState
  const sent = turn.parts.filter((part) => part.type !== 'reasoning')
  const { reasoning, signatures } = replayPositions(
    replayState,
    sent.map((part) => (part.type === 'text' && part.text === '' ? { type: 'empty' } : (part as ConversationElement))),
  )
  const signedBy = new Map(signatures.map(({ index, signature }) => [index, { data: signature, issuer }]))
  const reasoningBefore = (index: number): Part[] =>
    reasoning
      .filter((one) => one.before === index)
      .map(({ part: { signature, ...part } }) =>
        signature === undefined ? part : { ...part, signature: { data: signature, issuer } },
      )
  const parts = sent.flatMap((part, index): Part[] => {
    const signature = signedBy.get(index)
    return [...reasoningBefore(index), signature === undefined ? part : ({ ...part, signature } as Part)]
  })
  return { ...turn, parts: [...parts, ...reasoningBefore(sent.length)] }
}
