import type { Tool } from '../generation/request.ts'
import { isObject } from './fields.ts'
import type { Loss } from './protocol.ts'

type Custom = Tool & { type: 'custom' }

/** A tool of free text as a function with one string, where a provider has no such tools. */
export const inputSchema = ({ format }: Custom): object => ({
  type: 'object',
  properties: { input: { type: 'string', description: grammarNote(format) } },
  required: ['input'],
  additionalProperties: false,
})

export const lossesOfFormat = ({ name, format }: Custom): Loss[] =>
  grammarOf(format) === undefined
    ? []
    : [
        {
          field: 'tool.format',
          of: name,
          what: 'approximated',
          why: 'the grammar is told in words: the provider holds no model to it',
        },
      ]

/** The responses protocol spells a grammar flat, chat completions in an object of its own. */
const grammarOf = (format: unknown): Record<string, unknown> | undefined =>
  isObject(format) && format.type === 'grammar' ? (isObject(format.grammar) ? format.grammar : format) : undefined

function grammarNote(format: unknown): string {
  const grammar = grammarOf(format)
  return typeof grammar?.definition === 'string'
    ? `The whole input as free text, in this ${String(grammar.syntax ?? '')} grammar:\n${grammar.definition}`
    : 'The whole input as free text.'
}
