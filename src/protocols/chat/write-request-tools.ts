import type { GenerationRequest, Tool, ToolChoice } from '../../generation/request.ts'
import { breakpointOf } from '../cache-breakpoints.ts'
import { customToolSchema, loseGrammar } from '../custom-tools.ts'
import { rememberLike, WrittenArrays } from '../element-memory.ts'
import { isObject } from '../../json/parse.ts'
import { present } from '../fields.ts'
import type { Quirks } from '../quirks.ts'
import { writeHosted } from '../hosted-tools.ts'
import { functionSchema } from '../schema/openai.ts'
import { forcesCall, loseToolChoice, acceptedToolChoice } from '../tool-choice.ts'
import type { ToolNames } from '../tool-names.ts'
import type { Translation } from '../translation.ts'
import type { Json } from './shapes.ts'

/** `tools`, `tool_choice` and `parallel_tool_calls`. `reasons`: the model may reason. */
export function writeTools(
  request: GenerationRequest,
  reasons: boolean,
  names: ToolNames,
  translation: Translation,
): Json {
  const { quirks, capabilities } = translation.target
  const choice =
    request.toolChoice === undefined
      ? undefined
      : acceptedToolChoice(request.toolChoice, capabilities, reasons, translation)
  const chosen = choice === undefined ? undefined : chosenTools(choice, quirks)
  if (chosen !== undefined)
    translation.lose('tool_choice_adjusted', translation.setting('toolChoice'), 'only the allowed tools are sent')
  const write = (): Json[] =>
    request.tools
      .filter((tool) => tool.type === 'native' || chosen?.includes(tool.name) !== false)
      .flatMap((tool) => writeTool(tool, names, translation))
  const tools =
    chosen === undefined
      ? writtenTools.of(request.tools, translation, () => rememberLike(request.tools, write(), translation.target))
      : write()
  if (tools.length === 0) {
    loseToolChoice(translation)
    return {}
  }
  return {
    tools,
    ...(choice === undefined
      ? {}
      : {
          tool_choice:
            chosen === undefined
              ? writeToolChoice(choice, request, names, quirks)
              : forcesCall(choice)
                ? 'required'
                : 'auto',
        }),
    ...writeParallelTools(request, translation),
  }
}

function writeParallelTools({ parallelTools }: GenerationRequest, translation: Translation): Json {
  if (translation.target.capabilities.parallelTools !== false) return present('parallel_tool_calls', parallelTools)
  if (parallelTools === false)
    translation.lose(
      'unsupported_by_model',
      translation.setting('parallelTools'),
      'the model decides how many tools it calls at once',
    )
  return {}
}

/**
 * The tools that may be called, where the provider's `tool_choice` cannot represent the choice: sending only these has
 * the same effect.
 */
function chosenTools(choice: ToolChoice, { toolChoices = 'named' }: Quirks): string[] | undefined {
  const chosen = choice.type === 'tool' ? [choice.name] : choice.type === 'allowed' ? choice.names : undefined
  if (chosen === undefined || toolChoices === 'allowed') return undefined
  return toolChoices === 'named' && chosen.length === 1 && forcesCall(choice) ? undefined : chosen
}

const writtenTools = new WrittenArrays<Json[]>()

function writeTool(tool: Tool, names: ToolNames, translation: Translation): Json[] {
  const { quirks, capabilities } = translation.target
  if (tool.type === 'native') return writeHosted<Json>(tool, translation, () => undefined)
  const name = names.sent(tool.name)
  const described = present('description', tool.description)
  if (tool.type === 'function')
    return [
      {
        type: 'function',
        function: {
          name,
          ...described,
          ...(tool.parameters === undefined && tool.strict !== true
            ? present('strict', tool.strict)
            : translation.schemaCache.write(functionSchema, tool, translation)),
        },
        ...(capabilities.cacheBreakpoints === 'cache_control' ? breakpointOf(tool, 'cache_control') : {}),
      },
    ]
  if (quirks.customTools === true)
    return [
      {
        type: 'custom',
        custom: { name, ...described, ...(tool.format === undefined ? {} : { format: writeGrammar(tool.format) }) },
      },
    ]
  loseGrammar(tool, translation)
  return [{ type: 'function', function: { name, ...described, parameters: customToolSchema(tool) } }]
}

/** Chat completions has the grammar in an object of its own; the responses protocol does not. */
function writeGrammar(format: unknown): unknown {
  if (!isObject(format) || format.type !== 'grammar' || format.grammar !== undefined) return format
  const { type, ...grammar } = format
  return { type, grammar }
}

function writeToolChoice(
  choice: ToolChoice,
  { tools }: GenerationRequest,
  names: ToolNames,
  { customTools }: Quirks,
): unknown {
  const named = (name: string): Json => {
    const custom = customTools === true && tools.some((tool) => tool.type === 'custom' && tool.name === name)
    const sent = { name: names.sent(name) }
    return custom ? { type: 'custom', custom: sent } : { type: 'function', function: sent }
  }
  if (choice.type === 'tool') return named(choice.name)
  if (choice.type !== 'allowed') return choice.type
  if (choice.required && choice.names.length === 1) return named(choice.names[0]!)
  return {
    type: 'allowed_tools',
    allowed_tools: { mode: choice.required ? 'required' : 'auto', tools: choice.names.map(named) },
  }
}
