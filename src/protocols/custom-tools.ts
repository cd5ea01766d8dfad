import type { Tool } from '../generation/request.ts'
import { isObject, stringOf } from '../json/parse.ts'
import type { Translation } from './translation.ts'

type CustomTool = Tool & { type: 'custom' }

/** The parameters of a function that replaces a custom tool (free text) at a provider without such tools. */
export const customToolSchema = ({ format }: CustomTool): object => ({
  type: 'object',
  properties: { input: { type: 'string', description: grammarNote(format) } },
  required: ['input'],
  additionalProperties: false,
})

/** Reports a grammar that the provider reads only as a description, and any other format but free text. */
export function loseGrammar(tool: CustomTool, translation: Translation): void {
  const { format } = tool
  const isFree = isObject(format) && format.type === 'text' && Object.keys(format).length === 1
  if (grammarOf(format) !== undefined) translation.lose('tool_grammar_described', translation.at(tool, 'format'))
  else if (format !== undefined && !isFree) translation.lose('unsupported_field', translation.at(tool, 'format'))
}

/** The grammar's fields are in `format` in the responses protocol, in `format.grammar` in chat completions. */
const grammarOf = (format: unknown): Record<string, unknown> | undefined =>
  isObject(format) && format.type === 'grammar' ? (isObject(format.grammar) ? format.grammar : format) : undefined

function grammarNote(format: unknown): string {
  const grammar = grammarOf(format)
  return typeof grammar?.definition === 'string'
    ? `The whole input as free text, in this ${stringOf(grammar.syntax)} grammar:\n${grammar.definition}`
    : 'The whole input as free text.'
}
