import type { PartHead } from '../../generation/event.ts'
import { isObject, objectOf } from '../../json/parse.ts'
import type { OpenPart, PartSequence } from '../part-sequence.ts'
import { JsonEnd } from '../../json/scan.ts'
import { nonEmpty, type Json } from './shapes.ts'

type Call = {
  /** Its place among the calls of the response. */
  number: number
  id: string | undefined
  name: string | undefined
  custom: boolean
  part?: OpenPart
  /** Where the arguments end; undefined for free text, which does not show it. */
  end?: JsonEnd
  /** Arguments that came before the name. */
  early: string
  signature?: string
}

/** The tool calls of one response, which servers send whole, in pieces or interleaved. */
export class ToolCalls {
  /** A call was opened. */
  any = false
  readonly #sequence: PartSequence
  readonly #open: (head: PartHead) => OpenPart
  readonly #calls: Call[] = []
  /** The last call of each index, and the first with each id: a search for each delta would take quadratic time. */
  readonly #byIndex = new Map<number, Call>()
  readonly #byId = new Map<string, Call>()
  readonly #byPart = new Map<OpenPart, Call>()
  /** Makes ids of calls without one; made for the first of them. */
  #salt: string | undefined

  /** `open`: opens a part behind all others of the sequence. */
  constructor(sequence: PartSequence, open: (head: PartHead) => OpenPart) {
    this.#sequence = sequence
    this.#open = open
  }

  /** The part is a call whose arguments are not complete. */
  isIncomplete(part: OpenPart): boolean {
    const call = this.#byPart.get(part)
    return call !== undefined && call.end?.complete !== true
  }

  /** A call or a piece of one. `position`: its index in a whole message. */
  add(delta: Json, position?: number): void {
    const inner = innerOf(delta)
    const call = this.#find(delta, nonEmpty(inner.name), position)
    call.custom ||= inner === delta.custom
    call.name ??= nonEmpty(inner.name)
    const args = inner.arguments ?? inner.input
    const text = typeof args === 'string' ? args : isObject(args) ? JSON.stringify(args) : ''
    this.#onSignature(call, delta)
    if (call.part === undefined) {
      call.early += text
      if (call.name !== undefined) this.#begin(call)
    } else if (text !== '') {
      this.#append(call, call.part, text)
      // Parts behind it wait for the end of its arguments.
      if (call.part !== this.#sequence.last && call.end?.complete === true) call.part.close()
    }
  }

  /** Calls that never got a name. */
  openNameless(): void {
    for (const call of this.#calls)
      if (call.part === undefined && (call.name !== undefined || call.early !== '')) this.#begin(call)
  }

  #append(call: Call, part: OpenPart, text: string): void {
    call.end?.add(text)
    part.append(text)
  }

  /**
   * The call of a delta: by index; a second id with a name under one index is another call (some servers number all
   * calls 0); without an index by id; without either it is the last one.
   */
  #find(delta: Json, name: string | undefined, position: number | undefined): Call {
    const index = typeof delta.index === 'number' ? delta.index : position
    const id = nonEmpty(delta.id)
    const known =
      index !== undefined
        ? this.#byIndex.get(index)
        : id !== undefined
          ? this.#byId.get(id)
          : name === undefined
            ? this.#calls.at(-1)
            : undefined
    const isAnother =
      known !== undefined && id !== undefined && name !== undefined && known.id !== undefined && known.id !== id
    if (known !== undefined && !isAnother) {
      if (known.id === undefined && id !== undefined) this.#setId(known, id)
      return known
    }
    const call: Call = { number: this.#calls.length, id: undefined, name, custom: false, early: '' }
    this.#calls.push(call)
    if (index !== undefined) this.#byIndex.set(index, call)
    if (id !== undefined) this.#setId(call, id)
    return call
  }

  #setId(call: Call, id: string): void {
    call.id = id
    const known = this.#byId.get(id)
    if (known === undefined || known.number > call.number) this.#byId.set(id, call)
  }

  #begin(call: Call): void {
    this.any = true
    const salt = (): string => (this.#salt ??= crypto.randomUUID().replaceAll('-', '').slice(0, 20))
    if (call.id === undefined) this.#setId(call, `call_${salt()}${call.number}`)
    const { name = '', custom, signature, early } = call
    const part = this.#open({ type: 'tool-call', id: call.id!, name, form: custom ? 'custom' : 'function' })
    call.part = part
    if (!custom) call.end = new JsonEnd()
    this.#byPart.set(part, call)
    part.signature = signature
    if (early !== '') this.#append(call, part, early)
  }

  /** Google's compatible endpoint signs calls in `extra_content`. */
  #onSignature(call: Call, { extra_content: extra }: Json): void {
    const google = isObject(extra) && isObject(extra.google) ? extra.google : {}
    const signature = nonEmpty(google.thought_signature)
    if (signature === undefined) return
    call.signature = signature
    if (call.part !== undefined) call.part.signature = signature
  }
}

/** The member with name and arguments. */
function innerOf({ function: inner, custom, type }: Json): Json {
  if (
    isObject(inner) &&
    (nonEmpty(inner.name) !== undefined || nonEmpty(inner.arguments) !== undefined || type !== 'custom')
  )
    return inner
  return objectOf(custom)
}
