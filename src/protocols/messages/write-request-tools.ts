import { createHash } from 'node:crypto'
import type { Translation } from '../translation.ts'
import type { GenerationRequest, Tool, ToolChoice, WebSearch } from '../../generation/request.ts'
import type { Target } from '../protocol.ts'
import { inputSchema as customSchema, loseGrammar } from '../custom-tools.ts'
import { present } from '../fields.ts'
import { refuseTool } from '../provider-native.ts'
import type { NameRule, ToolNames } from '../tool-names.ts'
import { forces, unforced } from '../tool-choice.ts'
import { loseSearchOptions, placeOf } from '../web-search.ts'
import { inputSchema, strictSchemas } from './schema.ts'
import { type Json, TOOL_NAME } from './shapes.ts'

/** Anthropic's grammar of tool names. */
export const ANTHROPIC_NAMES: NameRule = { valid: TOOL_NAME, invalid: /[^a-zA-Z0-9_-]/g, longest: 64 }

export const shortHash = (text: string): string => createHash('sha256').update(text).digest('hex').slice(0, 12)

export function writeTools(request: GenerationRequest, names: ToolNames, translation: Translation): Json[] {
  const allowed = request.toolChoice?.type === 'allowed' ? new Set(request.toolChoice.names) : undefined
  if (allowed !== undefined)
    translation.lose('todo_approximated', translation.setting('toolChoice'), 'only the allowed tools are sent')
  const wanted = request.tools.filter(
    (tool) => allowed === undefined || tool.type === 'native' || allowed.has(tool.name),
  )
  const strict = strictSchemas(wanted, translation)
  const tools = wanted.map((tool) => writeTool(tool, names, strict, translation)).filter((tool) => tool !== undefined)
  if (request.webSearch !== undefined) tools.push(writeWebSearch(request.webSearch, translation))
  return tools
}

function writeTool(
  tool: Tool,
  names: ToolNames,
  strict: ReadonlyMap<Tool, Json>,
  translation: Translation,
): Json | undefined {
  switch (tool.type) {
    case 'function':
      return {
        name: names.sent(tool.name),
        ...(tool.description === undefined ? {} : { description: tool.description }),
        ...(strict.has(tool)
          ? { input_schema: strict.get(tool), strict: true }
          : { input_schema: translation.schemaCache.write(inputSchema, tool, translation) }),
        ...(tool.cache === undefined ? {} : { cache_control: { type: 'ephemeral', ...tool.cache } }),
      }
    case 'custom':
      loseGrammar(tool, translation)
      return {
        name: names.sent(tool.name),
        ...(tool.description === undefined ? {} : { description: tool.description }),
        input_schema: customSchema(tool),
      }
    case 'native':
      if (tool.protocol === 'messages') return tool.value as Json
      refuseTool(tool)
      translation.lose(
        'todo_dropped',
        translation.setting('conversation') /* tool of tool.kind */,
        `the provider has no tool '${tool.kind}'`,
      )
      return undefined
  }
}

function writeWebSearch(search: WebSearch, translation: Translation): Json {
  const { allowedDomains, blockedDomains, maxUses } = search
  loseSearchOptions(search, translation, 'userLocation', 'allowedDomains', 'blockedDomains', 'maxUses')
  const place = placeOf(search)
  return {
    type: 'web_search_20250305',
    name: 'web_search',
    ...present('max_uses', maxUses),
    ...present('allowed_domains', allowedDomains),
    ...present('blocked_domains', blockedDomains),
    ...(place === undefined ? {} : { user_location: { ...place, type: 'approximate' } }),
  }
}

export function writeToolChoice(
  { toolChoice, parallelTools }: GenerationRequest,
  { capabilities: { forcedTools = 'idle' } }: Target,
  names: ToolNames,
  thinks: boolean,
  translation: Translation,
): Json | undefined {
  const choice = toolChoice === undefined ? undefined : unforced(toolChoice, { forcedTools }, thinks, translation)
  const single = parallelTools === false
  if (choice === undefined && !single) return undefined
  if (choice?.type === 'none') return { type: 'none' }
  const written = !forces(choice)
    ? { type: 'auto' }
    : choice?.type === 'tool'
      ? { type: 'tool', name: names.sent(choice.name) }
      : { type: 'any' }
  return single ? { ...written, disable_parallel_tool_use: true } : written
}
