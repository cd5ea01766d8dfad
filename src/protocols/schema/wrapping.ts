import type { GenerationEvent } from '../../generation/event.ts'
import type { OutputFormat } from '../../generation/request.ts'
import type { TransformFactory } from '../transforms.ts'
import { isObject } from '../fields.ts'
import { plainSchema } from './dialect.ts'
import { dereferenced } from './root.ts'
import { blank, type Schema, type SchemaBudget, takesAnything } from './schema.ts'

/**
 * OpenAI answers with objects alone. A schema of anything else (a list, one of several) becomes that of an object with
 * one member, and what the provider
 * writes is unwrapped again, so that the client reads what it asked for.
 */
const MEMBER = 'answer'

export function objectResponse(
  format: OutputFormat & { type: 'schema' },
  budget: SchemaBudget,
): { schema: Schema; wrapped: boolean } {
  const plain = plainSchema(format.schema, true)
  if (!isObject(plain)) return { schema: blank(plain ? {} : { not: {} }), wrapped: false }
  const schema = typeof plain.$ref === 'string' ? dereferenced(plain, budget) : plain
  const unions = ['anyOf', 'oneOf', 'allOf', '$ref', 'enum', 'const', 'not'].some((word) => schema[word] !== undefined)
  if (!unions && schema.type === undefined && isObject(schema.properties))
    return { schema: blank({ type: 'object' }, schema), wrapped: false }
  if (takesAnything(schema) || (!unions && schema.type === 'object')) return { schema, wrapped: false }
  // References to the root, or through it, would lead astray below the new root.
  const { $defs, ...rest } = dereferenced(plain, budget)
  return {
    schema: blank(
      { type: 'object', properties: { [MEMBER]: rest }, required: [MEMBER], additionalProperties: false },
      $defs === undefined ? {} : { $defs },
    ),
    wrapped: true,
  }
}

/** Takes the value out of the object in which the response was wrapped. */
export const unwrapping: TransformFactory = () => {
  let text: Unwrapped | undefined
  return (events) =>
    events.flatMap((event): GenerationEvent[] => {
      if (event.type === 'part-start') text = event.head.type === 'text' ? new Unwrapped() : undefined
      if (text === undefined || (event.type !== 'part-delta' && event.type !== 'part-end')) return [event]
      const unwrapped = event.type === 'part-delta' ? text.add(event.text) : text.rest()
      if (event.type === 'part-delta') return unwrapped === '' ? [] : [{ ...event, text: unwrapped }]
      return unwrapped === '' ? [event] : [{ type: 'part-delta', part: event.part, text: unwrapped }, event]
    })
}

const HEAD = new RegExp(`^\\s*\\{\\s*"${MEMBER}"\\s*:\\s*`)
const HEAD_LENGTH = 200

/** The member's value of the object that comes in pieces; text that is no such object as it is. */
class Unwrapped {
  #head: string | undefined = ''
  #depth = 0
  #inString = false
  #escaped = false
  #over = false
  #plain = false

  add(piece: string): string {
    if (this.#plain) return piece
    if (this.#head === undefined) return this.#value(piece)
    this.#head += piece
    const match = HEAD.exec(this.#head)
    // A value must have begun, as the space before it may still go on.
    if (match !== null && match[0].length < this.#head.length) {
      const value = this.#head.slice(match[0].length)
      this.#head = undefined
      return this.#value(value)
    }
    return this.#head.length > HEAD_LENGTH ? this.rest() : ''
  }

  /** What was held back and turned out to be no beginning of such an object. */
  rest(): string {
    const held = this.#head ?? ''
    if (this.#head !== undefined) this.#plain = true
    this.#head = ''
    return held
  }

  #value(piece: string): string {
    if (this.#over) return ''
    for (let i = 0; i < piece.length; i++) {
      const c = piece[i]
      if (this.#inString) {
        this.#inString = this.#escaped || c !== '"'
        this.#escaped = !this.#escaped && c === '\\'
      } else if (c === '"') this.#inString = true
      else if (c === '{' || c === '[') this.#depth++
      else if ((c === '}' || c === ']') && --this.#depth < 0) {
        this.#over = true
        return piece.slice(0, i)
      }
    }
    return piece
  }
}
