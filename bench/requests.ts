import { conversation, ID_LENGTH } from './agent-body.ts'
import type { Conversation } from './agent-body.ts'

/** Width of the `content-length` field, so that the length can be changed in place. */
const LENGTH_DIGITS = 9

/** The requests that one connection sends, one after the other. */
export interface Requests {
  /** The bytes of the next request; they are valid until the call after this one. */
  next(): Buffer
}

/** The same request again and again. */
export class SameRequest implements Requests {
  readonly #request: Buffer

  constructor(head: string, body: string) {
    this.#request = Buffer.from(`${head}content-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`)
  }

  next(): Buffer {
    return this.#request
  }
}

/**
 * Conversations one after the other, each with an id of its own. All requests are written into one buffer: the next
 * one differs from the last by a turn in the middle and by its length, or, in a new conversation, by the id. So a
 * request of a megabyte costs the load generator no more than a small one.
 */
export class ConversationRequests implements Requests {
  readonly #conversation: Conversation
  readonly #buffer: Buffer
  readonly #bodyAt: number
  #turns = 0
  #turnsEnd: number

  /** `turns`: those that the first conversation already has. */
  constructor(head: string, spoken: Conversation, turns: number) {
    const { start, end } = spoken
    const headBytes = Buffer.from(`${head}content-length: ${' '.repeat(LENGTH_DIGITS)}\r\n\r\n`)
    const newBytes = spoken.turns.reduce((sum, turn) => sum + turn.length, 0)
    this.#conversation = spoken
    this.#bodyAt = headBytes.length
    this.#buffer = Buffer.alloc(headBytes.length + start.length + newBytes + end.length)
    headBytes.copy(this.#buffer)
    start.copy(this.#buffer, this.#bodyAt)
    this.#turnsEnd = this.#bodyAt + start.length
    this.#begin()
    while (this.#turns < turns) this.#append()
  }

  next(): Buffer {
    const { turns, end } = this.#conversation
    if (this.#turns < turns.length) this.#append()
    else this.#begin()
    const length = this.#turnsEnd + end.copy(this.#buffer, this.#turnsEnd)
    const bodyLength = String(length - this.#bodyAt).padStart(LENGTH_DIGITS)
    this.#buffer.write(bodyLength, this.#bodyAt - 4 - LENGTH_DIGITS, 'latin1')
    return this.#buffer.subarray(0, length)
  }

  #begin(): void {
    const { start, idAt } = this.#conversation
    const id = Bun.randomUUIDv7('hex').replaceAll('-', '').slice(-ID_LENGTH)
    this.#buffer.write(id, this.#bodyAt + idAt, 'latin1')
    this.#turns = 0
    this.#turnsEnd = this.#bodyAt + start.length
  }

  #append(): void {
    this.#turnsEnd += this.#conversation.turns[this.#turns]!.copy(this.#buffer, this.#turnsEnd)
    this.#turns += 1
  }
}

/** An agent's conversations of about `bytes`. `grows`: each request is the next turn of the last, or all are new. */
export type Agent = { model: string; bytes: number; grows: boolean }

/** Gives the requests of each of `connections` connections. Those that grow do not all begin at the same time. */
export const conversations = (
  head: string,
  path: string,
  { model, bytes, grows }: Agent,
  connections: number,
): Requests[] => {
  const spoken = conversation(path, model, bytes, grows)
  return Array.from(
    { length: connections },
    (_, i) => new ConversationRequests(head, spoken, Math.floor((spoken.turns.length * i) / connections)),
  )
}
