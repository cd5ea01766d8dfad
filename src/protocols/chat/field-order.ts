import { lose } from '../losses.ts'
import type { ResponseContext } from '../protocol.ts'

/** The fields of a message for parts of a response, in the order in which most responses have the parts. */
const FIELDS = [
  { type: 'reasoning', one: 'reasoning', all: 'reasoning' },
  { type: 'text', one: 'text', all: 'text' },
  { type: 'image', one: 'an image', all: 'images' },
  { type: 'tool-call', one: 'a tool call', all: 'calls' },
] as const

/**
 * Reports parts in another order than that of the fields of a message, of which each has all parts of a type: a client
 * that adds up a stream has these fields, too.
 */
export class FieldOrder {
  readonly #context: ResponseContext
  #last = 0

  constructor(context: ResponseContext) {
    this.#context = context
  }

  /** Takes the type of the next part, or of the same one again. */
  add(type: string): void {
    const index = FIELDS.findIndex((field) => field.type === type)
    if (index >= this.#last) this.#last = index
    else if (index >= 0) {
      const after = FIELDS[this.#last]!.one
      const reason = `a message has one field for ${FIELDS[index]!.all}: the place after ${after} is lost`
      lose(this.#context, 'response_field_adjusted', type, reason)
    }
  }
}
