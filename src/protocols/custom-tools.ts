import type { Tool } from '../generation/request.ts'
import { isObject } from './fields.ts'
import type { Translation } from './translation.ts'

type Custom = Tool & { type: 'custom' }

/** A tool of free text as a function with one string, where a provider has no such tools. */
export const inputSchema = ({ format }: Custom): object => ({
  type: 'object',
  properties: { input: { type: 'string', description: grammarNote(format) } },
  required: ['input'],
  additionalProperties: false,
})

/** Reports a grammar that is only described. */
export function loseGrammar(tool: Custom, translation: Translation): void {
  if (grammarOf(tool.format) !== undefined) translation.lose('tool_grammar_described', translation.at(tool, 'format'))
}

/** The responses protocol spells a grammar flat, chat completions in an object of its own. */
const grammarOf = (format: unknown): Record<string, unknown> | undefined =>
  isObject(format) && format.type === 'grammar' ? (isObject(format.grammar) ? format.grammar : format) : undefined

function grammarNote(format: unknown): string {
  const grammar = grammarOf(format)
  return typeof grammar?.definition === 'string'
    ? `The whole input as free text, in this ${String(grammar.syntax ?? '')} grammar:\n${grammar.definition}`
    : 'The whole input as free text.'
}
