import { createHash } from 'node:crypto'
import type { GenerationRequest, Tool, ToolChoice, WebSearch } from '../../generation/request.ts'
import type { Loss, Target } from '../protocol.ts'
import { inputSchema as customSchema, lossesOfFormat } from '../custom-tools.ts'
import { present } from '../fields.ts'
import { refuseTool } from '../provider-native.ts'
import { forces, unforced } from '../tool-choice.ts'
import { lossesOfSearch, placeOf } from '../web-search.ts'
import { inputSchema, strictSchemas } from './schema.ts'
import { type Json, TOOL_NAME } from './shapes.ts'

/** Tool names of one request: the client's own, and those that Anthropic's grammar allows. */
export type ToolNames = {
  rawRequest(name: string): string
  original(name: string): { name: string; form: 'function' | 'custom' }
}

/** Deterministic, so that writing a request and reading its answer agree without sharing state. */
export function toolNames(request: GenerationRequest | undefined): ToolNames {
  const tools = (request?.tools ?? []).filter((tool) => tool.type !== 'native')
  const taken = new Set(tools.map(({ name }) => name).filter((name) => TOOL_NAME.test(name)))
  const rawRequest = new Map<string, string>()
  const original = new Map<string, { name: string; form: 'function' | 'custom' }>()
  for (const { name, type } of tools) {
    const written = taken.has(name) ? name : unusual(name)
    rawRequest.set(name, written)
    original.set(written, { name, form: type })
  }
  return {
    rawRequest: (name) => rawRequest.get(name) ?? (TOOL_NAME.test(name) ? name : unusual(name)),
    original: (name) => original.get(name) ?? { name, form: 'function' },
  }
}

/** The readable rest of a name and a hash of all of it, so that two names never become one. */
const unusual = (name: string): string => `${name.replace(/[^a-zA-Z0-9_-]/g, '_').slice(0, 48)}_${shortHash(name)}`

export const shortHash = (text: string): string => createHash('sha256').update(text).digest('hex').slice(0, 12)

export function writeTools(request: GenerationRequest, names: ToolNames, losses: Loss[]): Json[] {
  const allowed = request.toolChoice?.type === 'allowed' ? new Set(request.toolChoice.names) : undefined
  if (allowed !== undefined)
    losses.push({ field: 'toolChoice', what: 'approximated', why: 'only the allowed tools are sent' })
  const wanted = request.tools.filter(
    (tool) => allowed === undefined || tool.type === 'native' || allowed.has(tool.name),
  )
  const strict = strictSchemas(wanted, losses)
  const tools = wanted.map((tool) => writeTool(tool, names, strict, losses)).filter((tool) => tool !== undefined)
  if (request.webSearch !== undefined) tools.push(writeWebSearch(request.webSearch, losses))
  return tools
}

function writeTool(tool: Tool, names: ToolNames, strict: ReadonlyMap<Tool, Json>, losses: Loss[]): Json | undefined {
  switch (tool.type) {
    case 'function':
      return {
        name: names.rawRequest(tool.name),
        ...(tool.description === undefined ? {} : { description: tool.description }),
        ...(strict.has(tool)
          ? { input_schema: strict.get(tool), strict: true }
          : { input_schema: inputSchema(tool, losses) }),
        ...(tool.cache === undefined ? {} : { cache_control: { type: 'ephemeral', ...tool.cache } }),
      }
    case 'custom':
      losses.push(...lossesOfFormat(tool))
      return {
        name: names.rawRequest(tool.name),
        ...(tool.description === undefined ? {} : { description: tool.description }),
        input_schema: customSchema(tool),
      }
    case 'native':
      if (tool.protocol === 'messages') return tool.value as Json
      refuseTool(tool)
      losses.push({ field: 'tool', of: tool.kind, what: 'left out', why: `the provider has no tool '${tool.kind}'` })
      return undefined
  }
}

function writeWebSearch(search: WebSearch, losses: Loss[]): Json {
  const { allowedDomains, blockedDomains, maxUses } = search
  losses.push(...lossesOfSearch(search, 'userLocation', 'allowedDomains', 'blockedDomains', 'maxUses'))
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
  losses: Loss[],
): Json | undefined {
  const choice = toolChoice === undefined ? undefined : unforced(toolChoice, { forcedTools }, thinks, losses)
  const single = parallelTools === false
  if (choice === undefined && !single) return undefined
  if (choice?.type === 'none') return { type: 'none' }
  const written = !forces(choice)
    ? { type: 'auto' }
    : choice?.type === 'tool'
      ? { type: 'tool', name: names.rawRequest(choice.name) }
      : { type: 'any' }
  return single ? { ...written, disable_parallel_tool_use: true } : written
}
