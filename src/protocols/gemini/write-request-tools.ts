import type { GenerationRequest, Tool, ToolChoice, WebSearch } from '../../generation/request.ts'
import { customToolSchema, loseGrammar } from '../custom-tools.ts'
import { rememberLike, WrittenArrays } from '../element-memory.ts'
import { present } from '../fields.ts'
import { writeHosted } from '../hosted-tools.ts'
import { loseToolChoice } from '../tool-choice.ts'
import { toolNameRule, type ToolNames } from '../tool-names.ts'
import type { Translation } from '../translation.ts'
import { loseSearchOptions } from '../web-search.ts'
import { writeHostedTool } from './hosted-tools.ts'
import { parametersSchema } from './schema.ts'

type Json = Record<string, unknown>

/** Google's names of functions: a letter or underscore first, up to 64 characters. */
export const GOOGLE_NAMES = toolNameRule({
  valid: /^[A-Za-z_][A-Za-z0-9_.:-]{0,63}$/,
  invalid: /[^A-Za-z0-9_-]/g,
  longest: 64,
  prefix: '_',
})

/** `tools` and `toolConfig`. */
export function writeTools(
  request: GenerationRequest,
  names: ToolNames,
  translation: Translation,
): { tools: Json[]; toolConfig: Json | undefined } {
  const written = writtenTools.of(request.tools, translation, () => {
    const own = writeOwnTools(request.tools, names, translation)
    rememberLike(request.tools, own.tools, translation.target)
    return own
  })
  const { hasFunctions } = written
  const { webSearch, toolChoice } = request
  const others = webSearch === undefined ? [] : writeSearch(webSearch, toolChoice, hasFunctions, translation)
  if (!hasFunctions) loseToolChoice(translation)
  if (request.parallelTools === false && request.toolChoice?.type !== 'none')
    translation.lose('unsupported_field', translation.setting('parallelTools'))
  return {
    tools: others.length === 0 ? written.tools : [...written.tools, ...others],
    toolConfig: hasFunctions ? writeToolChoice(request, names, translation) : undefined,
  }
}

type WrittenTools = { tools: Json[]; hasFunctions: boolean }

const writtenTools = new WrittenArrays<WrittenTools>()

function writeOwnTools(all: readonly Tool[], names: ToolNames, translation: Translation): WrittenTools {
  const declarations: Json[] = []
  const others: Json[] = []
  for (const tool of all) {
    if (tool.type === 'native') others.push(...writeNative(tool, translation))
    else declarations.push(writeDeclaration(tool, names, translation))
  }
  const hasFunctions = declarations.length > 0
  return { tools: [...(hasFunctions ? [{ functionDeclarations: declarations }] : []), ...others], hasFunctions }
}

function writeNative(tool: Tool & { type: 'native' }, translation: Translation): Json[] {
  return tool.protocol === 'generateContent' ? [tool.value as Json] : writeHosted(tool, translation, writeHostedTool)
}

/**
 * Newer models accept search together with functions, but require each search to be sent back with the conversation,
 * which no other protocol can represent.
 */
function writeSearch(
  search: WebSearch,
  toolChoice: ToolChoice | undefined,
  hasFunctions: boolean,
  translation: Translation,
): Json[] {
  if (toolChoice?.type === 'none') return []
  if (hasFunctions) {
    translation.lose(
      'unsupported_combination',
      translation.at(search),
      'the provider does not accept web search together with functions',
    )
    return []
  }
  loseSearchOptions(search, translation)
  return [{ googleSearch: {} }]
}

function writeDeclaration(tool: Exclude<Tool, { type: 'native' }>, names: ToolNames, translation: Translation): Json {
  const declaration = { name: names.sent(tool.name), ...present('description', tool.description) }
  if (tool.type === 'custom') {
    loseGrammar(tool, translation)
    return { ...declaration, parametersJsonSchema: customToolSchema(tool) }
  }
  if (tool.parameters === undefined) return declaration
  return {
    ...declaration,
    parametersJsonSchema: translation.schemaCache.write(parametersSchema, tool, translation),
  }
}

/** Google holds forced calls to their schemas, others only in the mode VALIDATED. */
function writeToolChoice(
  { toolChoice, tools }: GenerationRequest,
  names: ToolNames,
  translation: Translation,
): Json | undefined {
  switch (toolChoice?.type) {
    case undefined:
      return areStrict(tools, translation) ? { functionCallingConfig: { mode: 'VALIDATED' } } : undefined
    case 'auto':
      return { functionCallingConfig: { mode: areStrict(tools, translation) ? 'VALIDATED' : 'AUTO' } }
    case 'none':
      return { functionCallingConfig: { mode: 'NONE' } }
    case 'required':
      return { functionCallingConfig: { mode: 'ANY' } }
    case 'tool':
      return { functionCallingConfig: { mode: 'ANY', allowedFunctionNames: [names.sent(toolChoice.name)] } }
    // AUTO does not accept names; VALIDATED does.
    case 'allowed':
      return {
        functionCallingConfig: {
          mode: toolChoice.required ? 'ANY' : 'VALIDATED',
          allowedFunctionNames: toolChoice.names.map((name) => names.sent(name)),
        },
      }
  }
}

/**
 * All functions are strict, since the mode applies to all calls. A free-text tool has a schema with one string, to
 * which its calls can be held as well.
 */
function areStrict(tools: readonly Tool[], translation: Translation): boolean {
  const functions = tools.filter((tool) => tool.type === 'function')
  const strict = functions.filter((tool) => tool.strict === true)
  if (strict.length === functions.length) return strict.length > 0
  for (const tool of strict)
    translation.lose(
      'strict_not_enforced',
      translation.at(tool, 'strict'),
      'the provider holds either all calls to their schemas or none, and some tools are not strict',
    )
  return false
}
