import { createHash } from 'node:crypto'
import type { GenerationEvent, PartHead } from './event.ts'
import { canonical } from './json-text.ts'
import type { Part, ReasoningPart, ToolCallPart, Turn } from './request.ts'
import type { Maker } from './signature.ts'

/**
 * What a provider wants back of an answer that called tools: the reasoning, signed where its provider signs, and which
 * of its parts bore a signature.
 */
export type Trace = {
  maker: Maker
  /**
   * The first call, by whose id the answer is known again, and a digest of its name and arguments: some providers give
   * every answer the same ids.
   */
  call: { id: string; digest: string }
  /** In their order. */
  parts: TracePart[]
}

export type TraceReasoning = Pick<ReasoningPart, 'form' | 'redacted' | 'id'> & {
  type: 'reasoning'
  text: string
  signature?: string
}

/** What calls and texts say is the client's to send. */
export type TracePart =
  | TraceReasoning
  | { type: 'text'; signature?: string }
  | { type: 'tool-call'; id: string; signature?: string }

/** Characters of one answer's reasoning and signatures: beyond, nothing of it is kept. */
const MOST_CHARACTERS = 1024 * 1024

/** Hears an answer, and tells what its provider will want back of it. */
export class Tracer {
  readonly #parts: TracePart[] = []
  #call: { id: string; name: string; arguments: string } | undefined
  #head: PartHead | undefined
  #text = ''
  #kept = 0
  readonly #maker: Maker
  readonly #bare: boolean

  /** `bare`: the provider wants reasoning back that it does not sign, too. */
  constructor(maker: Maker, bare: boolean) {
    this.#maker = maker
    this.#bare = bare
  }

  hear(events: readonly GenerationEvent[]): void {
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
  get trace(): Trace | undefined {
    if (
      this.#call === undefined ||
      this.#kept > MOST_CHARACTERS ||
      this.#parts.every(({ type, signature }) => type !== 'reasoning' && signature === undefined)
    )
      return undefined
    return { maker: this.#maker, call: { id: this.#call.id, digest: digestOf(this.#call) }, parts: this.#parts }
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
export function isMissing({ call, parts }: Trace, turn: Turn, first: ToolCallPart): boolean {
  const bare = parts.every(({ signature }) => signature === undefined)
  return (
    call.id === first.id &&
    call.digest === digestOf(first) &&
    !(bare && turn.parts.some((part) => part.type === 'reasoning' && part.text !== ''))
  )
}

/** What this model made of what was recalled. */
export const madeBy = (traces: readonly Trace[] | undefined, { provider, model }: Maker): readonly Trace[] =>
  (traces ?? []).filter(({ maker }) => maker.provider === provider && maker.model === model)

/** An element of a turn as a client sent it. */
export type Element = { type: string; id?: string }

/**
 * Where a trace's reasoning and signatures belong among the elements of its turn: `before` is an index, or their number
 * for the end.
 */
export function placesOf(
  { parts }: Trace,
  elements: readonly Element[],
): { reasoning: { part: TraceReasoning; before: number }[]; signatures: { index: number; signature: string }[] } {
  const texts = elements.flatMap(({ type }, index) => (type === 'text' ? [index] : []))
  const reasoning: { part: TraceReasoning; before: number }[] = []
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
export function restored(turn: Turn, trace: Trace): Turn {
  const { maker } = trace
  const sent = turn.parts.filter((part) => part.type !== 'reasoning')
  const { reasoning, signatures } = placesOf(
    trace,
    sent.map((part) => (part.type === 'text' && part.text === '' ? { type: 'nothing' } : (part as Element))),
  )
  const signedBy = new Map(signatures.map(({ index, signature }) => [index, { data: signature, maker }]))
  const before = (place: number): Part[] =>
    reasoning
      .filter((one) => one.before === place)
      .map(({ part: { signature, ...part } }) =>
        signature === undefined ? part : { ...part, signature: { data: signature, maker } },
      )
  const parts = sent.flatMap((part, index): Part[] => {
    const signature = signedBy.get(index)
    return [...before(index), signature === undefined ? part : ({ ...part, signature } as Part)]
  })
  return { ...turn, parts: [...parts, ...before(sent.length)] }
}
