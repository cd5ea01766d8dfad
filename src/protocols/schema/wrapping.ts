import type { GenerationEvent } from '../../generation/event.ts'
import type { OutputFormat } from '../../generation/request.ts'
import type { Transform } from '../transforms.ts'
import { isObject } from '../../json/parse.ts'
import { standardSchema } from './dialect.ts'
import { dereferenced } from './root.ts'
import { blank, type Schema, type SchemaBudget, acceptsAnything } from './schema.ts'

/** Member of the object in which a response is wrapped. */
const MEMBER = 'answer'

/**
 * The schema of a response with an object at its root, since OpenAI accepts no other. A schema of anything else (a
 * list, a union) is wrapped: it becomes the one member of an object, and `unwrap` takes the value out of the
 * response.
 */
export function objectResponse(
  format: OutputFormat & { type: 'schema' },
  budget: SchemaBudget,
): { schema: Schema; wrapped: boolean } {
  const plain = standardSchema(format.schema, true)
  if (!isObject(plain)) return { schema: blank(plain ? {} : { not: {} }), wrapped: false }
  const schema = typeof plain.$ref === 'string' ? dereferenced(plain, budget) : plain
  const unions = ['anyOf', 'oneOf', 'allOf', '$ref', 'enum', 'const', 'not'].some(
    (keyword) => schema[keyword] !== undefined,
  )
  if (!unions && schema.type === undefined && isObject(schema.properties))
    return { schema: blank({ type: 'object' }, schema), wrapped: false }
  if (acceptsAnything(schema) || (!unions && schema.type === 'object')) return { schema, wrapped: false }
  // References through the root would have other targets below the new root.
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
export function unwrap(): Transform {
  let text: ValueExtractor | undefined
  return (events) =>
    events.flatMap((event): GenerationEvent[] => {
      if (event.type === 'part-start') text = event.head.type === 'text' ? new ValueExtractor() : undefined
      if (text === undefined) return [event]
      if (event.type === 'part-delta') {
        const value = text.add(event.text)
        return value === '' ? [] : [{ ...event, text: value }]
      }
      if (event.type !== 'part-end') return [event]
      const held = text.end()
      return held === '' ? [event] : [{ type: 'part-delta', part: event.part, text: held }, event]
    })
}

const HEAD = new RegExp(`^\\s*\\{\\s*"${MEMBER}"\\s*:\\s*`)
const HEAD_LENGTH = 200

/** Extracts the member's value from an object that arrives in pieces; other text is passed unchanged. */
class ValueExtractor {
  /** Text up to the beginning of the value; undefined once the value has begun. */
  #head: string | undefined = ''
  #depth = 0
  #inString = false
  #escaped = false
  #ended = false
  /** The text is not a wrapped value. */
  #isPlain = false

  add(piece: string): string {
    if (this.#isPlain) return piece
    if (this.#head === undefined) return this.#value(piece)
    this.#head += piece
    const match = HEAD.exec(this.#head)
    // At least one character of the value is required, since whitespace before it may continue.
    if (match !== null && match[0].length < this.#head.length) {
      const value = this.#head.slice(match[0].length)
      this.#head = undefined
      return this.#value(value)
    }
    return this.#head.length > HEAD_LENGTH ? this.end() : ''
  }

  /** Held back text that is not the beginning of a wrapped value. */
  end(): string {
    const held = this.#head ?? ''
    if (this.#head !== undefined) this.#isPlain = true
    this.#head = ''
    return held
  }

  #value(piece: string): string {
    if (this.#ended) return ''
    for (let i = 0; i < piece.length; i++) {
      const c = piece[i]
      if (this.#inString) {
        this.#inString = this.#escaped || c !== '"'
        this.#escaped = !this.#escaped && c === '\\'
      } else if (c === '"') this.#inString = true
      else if (c === '{' || c === '[') this.#depth++
      else if ((c === '}' || c === ']') && --this.#depth < 0) {
        this.#ended = true
        return piece.slice(0, i)
      }
    }
    return piece
  }
}
