import type { Tool } from '../generation/request.ts'
import { isObject, stringOf, tryParse } from '../json/parse.ts'
import type { Translation } from './translation.ts'

type CustomTool = Tool & { type: 'custom' }

/** The parameters of a function that replaces a custom tool (free text) at a provider without such tools. */
export const customToolSchema = ({ format }: CustomTool): object => ({
  type: 'object',
  properties: { input: { type: 'string', description: grammarNote(format) } },
  required: ['input'],
  additionalProperties: false,
})

/** The text in the arguments of such a function, as far as they came; another object stays as it is. */
export function freeText(argumentsText: string): string {
  const value = tryParse(argumentsText) ?? completed(argumentsText)
  if (!isObject(value)) return argumentsText
  if (typeof value.input === 'string') return value.input
  return Object.keys(value).length === 0 ? '' : argumentsText
}

/** The object that begins with this text, without what is cut in an escape or before the value. */
function completed(text: string): unknown {
  if ('{"input":"'.startsWith(text.replace(/\s/g, ''))) return {}
  const value = tryParse(`${text}}`) ?? tryParse(`${text}"}`) ?? tryParse(`${text.slice(0, text.lastIndexOf('\\'))}"}`)
  return isObject(value) && typeof value.input === 'string'
    ? { input: value.input.replace(/[\ud800-\udbff]$/, '') }
    : value
}

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
