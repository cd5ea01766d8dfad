import type { Tool, ToolChoice, WebSearch } from '../../generation/request.ts'
import { customToolSchema as customSchema, loseGrammar } from '../custom-tools.ts'
import { rememberLike, WrittenArrays } from '../element-memory.ts'
import { present } from '../fields.ts'
import type { Capabilities } from '../protocol.ts'
import { writeHosted } from '../hosted-tools.ts'
import { forcesCall, acceptedToolChoice } from '../tool-choice.ts'
import { toolNameRule, type ToolNames } from '../tool-names.ts'
import type { Translation } from '../translation.ts'
import { loseSearchOptions, locationFields } from '../web-search.ts'
import { MCP, writeHostedTool, type WrittenTool } from './hosted-tools.ts'
import { inputSchema, strictSchemas } from './schema.ts'
import { type Json, TOOL_NAME } from './shapes.ts'

/** Anthropic's rule for tool names. */
export const ANTHROPIC_NAMES = toolNameRule({ valid: TOOL_NAME, invalid: /[^a-zA-Z0-9_-]/g, longest: 64 })

export function writeTools(names: ToolNames, translation: Translation): WrittenTools {
  const { toolChoice, tools, webSearch } = translation.request
  const allowed = toolChoice?.type === 'allowed' ? new Set(toolChoice.names) : undefined
  if (allowed !== undefined)
    translation.lose('tool_choice_adjusted', translation.setting('toolChoice'), 'only the allowed tools are sent')
  const written =
    allowed === undefined
      ? writtenTools.of(tools, translation, () => {
          const all = writeOwnTools(tools, names, translation)
          rememberLike(tools, all.tools, translation.target)
          return all
        })
      : writeOwnTools(
          tools.filter((tool) => tool.type === 'native' || allowed.has(tool.name)),
          names,
          translation,
        )
  if (written.servers.length > 0) translation.headers['anthropic-beta'] = MCP.beta
  if (webSearch === undefined) return written
  return { ...written, tools: [...written.tools, writeWebSearch(webSearch, translation)] }
}

type WrittenTools = { tools: Json[]; servers: Json[] }

const writtenTools = new WrittenArrays<WrittenTools>()

function writeOwnTools(sent: Tool[], names: ToolNames, translation: Translation): WrittenTools {
  const strict = strictSchemas(sent, translation)
  const written = sent.flatMap((tool): WrittenTool[] =>
    tool.type === 'native' ? writeNative(tool, translation) : [{ tool: writeTool(tool, names, strict, translation) }],
  )
  return {
    tools: written.map(({ tool }) => tool),
    servers: written.map(({ server }) => server).filter((server) => server !== undefined),
  }
}

function writeNative(tool: Tool & { type: 'native' }, translation: Translation): WrittenTool[] {
  return tool.protocol === 'messages'
    ? [{ tool: tool.value as Json }]
    : writeHosted(tool, translation, (hosted) => writeHostedTool(hosted))
}

function writeTool(
  tool: Exclude<Tool, { type: 'native' }>,
  names: ToolNames,
  strict: ReadonlyMap<Tool, Json>,
  translation: Translation,
): Json {
  switch (tool.type) {
    case 'function':
      return {
        name: names.sent(tool.name),
        ...present('description', tool.description),
        ...(strict.has(tool)
          ? { input_schema: strict.get(tool), strict: true }
          : { input_schema: translation.schemaCache.write(inputSchema, tool, translation) }),
        ...(tool.cache === undefined ? {} : { cache_control: { type: 'ephemeral', ...tool.cache } }),
      }
    case 'custom':
      loseGrammar(tool, translation)
      return {
        name: names.sent(tool.name),
        ...present('description', tool.description),
        input_schema: customSchema(tool),
      }
  }
}

function writeWebSearch(search: WebSearch, translation: Translation): Json {
  const { allowedDomains, blockedDomains, maxUses } = search
  loseSearchOptions(search, translation, 'userLocation', 'allowedDomains', 'blockedDomains', 'maxUses')
  const location = locationFields(search)
  return {
    type: 'web_search_20250305',
    name: 'web_search',
    ...present('max_uses', maxUses),
    ...present('allowed_domains', allowedDomains),
    ...present('blocked_domains', blockedDomains),
    ...(location === undefined ? {} : { user_location: { ...location, type: 'approximate' } }),
  }
}

/** Most models do not accept a forced call while they reason. */
export const forcedToolsOf = ({ forcedTools = 'idle' }: Capabilities): boolean | 'idle' => forcedTools

/** `reasons`: the model reasons in this request. */
export function writeToolChoice(names: ToolNames, reasons: boolean, translation: Translation): Json | undefined {
  const { request, target } = translation
  const forcedTools = forcedToolsOf(target.capabilities)
  const choice =
    request.toolChoice === undefined
      ? undefined
      : acceptedToolChoice(request.toolChoice, { forcedTools }, reasons, translation)
  const single = request.parallelTools === false
  if (choice === undefined && !single) return undefined
  if (choice?.type === 'none') return { type: 'none' }
  const written = writeChoice(choice, names)
  return single ? { ...written, disable_parallel_tool_use: true } : written
}

function writeChoice(choice: ToolChoice | undefined, names: ToolNames): Json {
  if (!forcesCall(choice)) return { type: 'auto' }
  return choice?.type === 'tool' ? { type: 'tool', name: names.sent(choice.name) } : { type: 'any' }
}
