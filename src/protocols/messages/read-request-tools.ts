import type { GenerationRequest, Tool, WebSearch } from '../../generation/request.ts'
import { readLifetime } from '../cache-breakpoints.ts'
import { ReadArrays, rememberLike } from '../element-memory.ts'
import { collectExtras, type Extras, type Fields, present, tryRead } from '../fields.ts'
import { hostedServers, hostedTool, MCP, ownMembers } from './hosted-tools.ts'

/** Tools that the provider runs and that a response can do without. */
const OPTIONAL = /^(web_search|web_fetch|tool_search_tool)_/

type ToolsReading = Pick<GenerationRequest, 'tools' | 'webSearch'>

const readings = new ReadArrays<ToolsReading>()

/**
 * `tools` and `mcp_servers`. Tools without a type, or of the type `custom`, are functions of the client; all other
 * types are Anthropic's own tools.
 */
export function readTools(fields: Fields, extras: Extras): ToolsReading {
  if (fields.has(MCP.member)) return readOwnTools(fields, extras)
  const source = fields.take('tools')
  return readings.of(source, extras, () => readOwnTools(fields, extras))
}

function readOwnTools(fields: Fields, extras: Extras): ToolsReading {
  const defined = fields.objects('tools') ?? []
  const hasFunctions = defined.some((tool) => isFunction(tool.string('type')))
  const search = hasFunctions ? undefined : defined.find((tool) => tool.string('type')?.startsWith('web_search_'))
  const servers = fields.objects(MCP.member) ?? []
  const tools = defined
    .filter((tool) => tool !== search)
    .map((tool) => {
      const type = tool.string('type')
      return isFunction(type) ? readFunction(tool, extras) : nativeTool(type!, tool, servers, extras)
    })
  if (servers.length > 0) tools.push(readServers(fields, servers, defined))
  return {
    tools: rememberLike(fields.value.tools, tools),
    ...(search === undefined ? {} : { webSearch: readSearch(search, extras) }),
  }
}

/** `mcp_servers` as a tool. `tools`: of which the toolsets say what may be used of them. */
function readServers(fields: Fields, servers: readonly Fields[], tools: readonly Fields[]): Tool {
  const hosted = hostedServers(
    servers.map(({ value }) => value),
    tools.map(({ value }) => value),
  )
  for (const server of servers) {
    if (hosted === undefined) server.whole()
    for (const name of ['type', 'name', 'url', 'authorization_token']) server.take(name)
    const configuration = server.object('tool_configuration')
    for (const name of ['enabled', 'allowed_tools']) configuration?.take(name)
  }
  return {
    type: 'native',
    protocol: 'messages',
    kind: MCP.member,
    value: fields.value[MCP.member],
    path: MCP.member,
    ...present('hosted', hosted),
  }
}

const isFunction = (type: string | undefined): boolean => type === undefined || type === 'custom'

/**
 * A web search that is the only tool is a request to search, which every protocol has. Beside functions it stays a
 * native tool, since agents offer it for every task.
 */
function readSearch(tool: Fields, extras: Extras): WebSearch {
  const userLocation = tool.take('user_location')
  const search = {
    path: tool.path,
    ...present('userLocation', userLocation),
    ...present('allowedDomains', tool.strings('allowed_domains')),
    ...present('blockedDomains', tool.strings('blocked_domains')),
    ...present('maxUses', tool.integer('max_uses', { min: 1 })),
  }
  tool.take('name')
  collectExtras(tool, extras)
  return search
}

const readFunction = (tool: Fields, extras: Extras): Tool =>
  tryRead(readOwnFunction, tool, extras) ?? nativeTool('custom', tool, [], extras)

function readOwnFunction(tool: Fields, extras: Extras): Tool {
  tool.string('type')
  const name = tool.require('name', tool.string('name'), 'the name of the tool')
  const description = tool.string('description')
  const parameters = tool.record('input_schema')
  const strict = tool.boolean('strict')
  const cache = readCache(tool)
  collectExtras(tool, extras)
  return {
    type: 'function',
    path: tool.path,
    name,
    ...(description === undefined ? {} : { description }),
    ...(parameters === undefined ? {} : { parameters }),
    ...(strict === undefined ? {} : { strict }),
    ...cache,
  }
}

/** Members of hosted tools that other protocols have too. */
const CARRIED = new Set(['type', 'name', 'mcp_server_name', 'default_config', 'configs'])

/** `servers`: of the request, to which toolsets refer. */
function nativeTool(kind: string, tool: Fields, servers: readonly Fields[], extras: Extras): Tool {
  const serverValues = servers.map(({ value }) => value)
  const hosted = hostedTool(kind, tool.value, serverValues)
  if (hosted !== undefined) {
    for (const [name, value] of Object.entries(tool.value))
      if (value !== null && !CARRIED.has(name)) extras[tool.at(name)] = value
    for (const [name, value] of ownMembers(tool.value)) extras[tool.at(name)] = value
  }
  return {
    type: 'native',
    protocol: 'messages',
    kind,
    value: tool.whole(),
    path: tool.path,
    ...(OPTIONAL.test(kind) ? { optional: true } : {}),
    ...present('hosted', hosted),
  }
}

/** `cache_control` of a block or a tool. */
export function readCache(fields: Fields): { cache?: { ttl?: '5m' | '1h' } } {
  const control = fields.object('cache_control')
  control?.take('type')
  return control === undefined ? {} : { cache: readLifetime(control) }
}
