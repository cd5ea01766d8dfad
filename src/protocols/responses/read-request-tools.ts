import { invalid } from '../../error.ts'
import type { GenerationRequest, ImageOutput, Tool, ToolChoice, WebSearch } from '../../generation/request.ts'
import { collectExtras, type Extras, Fields, present, refuseElsewhere, refuseUnreadable } from '../fields.ts'
import { isObject } from '../../json/parse.ts'
import { ReadArrays, rememberLike } from '../element-memory.ts'
import { isImageTool, parseSize } from '../image-config.ts'
import type { RawRequest } from '../protocol.ts'
import { hostedTool, ownMembers } from './hosted-tools.ts'
import { isClientSearch, toolLists, type NamespaceNames } from './namespaces.ts'

/**
 * Tools that agents offer with each request: a model works without them. All others that a provider runs are required.
 */
const OPTIONAL = /^(web_search|namespace|tool_search|programmatic_tool_calling)(_preview)?(_\d{4}_\d{2}_\d{2})?$/

export type ReadTools = { tools: Tool[]; webSearch?: WebSearch; imageOutput?: ImageOutput }

/** `tools`, and the tools that input items bring along (`additional_tools`, `tool_search_output`). */
export function readTools(body: Fields, rawRequest: RawRequest, names: NamespaceNames, extras: Extras): ReadTools {
  body.array('tools')
  const lists = toolLists(rawRequest)
  const read = (): Tool[] => rememberLike(body.value.tools, readLists(lists, names, extras))
  // Items may bring tools that change the names of those listed here.
  const tools = lists.length > 1 ? readLists(lists, names, extras) : readings.of(body.value.tools, extras, read)
  return { ...readWebSearch(body, tools, extras), ...present('imageOutput', readImageOutput(tools)) }
}

const readings = new ReadArrays<Tool[]>()

function readLists(lists: ReturnType<typeof toolLists>, names: NamespaceNames, extras: Extras): Tool[] {
  const tools: Tool[] = []
  const seen = new Set<string>()
  for (const { path, tools: list } of lists) {
    if (list === undefined || list === null) continue
    if (!Array.isArray(list)) {
      refuseElsewhere(extras, invalid(path, 'must be an array of tools'))
      continue
    }
    for (const [index, value] of list.entries()) {
      for (const tool of tryTool(value, `${path}[${index}]`, names, extras)) {
        const known = tool.type !== 'native' && seen.has(tool.name)
        // A tool found by a search was often listed before, to be loaded later.
        if (known && path !== 'tools') continue
        if (tool.type !== 'native') seen.add(tool.name)
        tools.push(tool)
      }
    }
  }
  return tools
}

function tryTool(tool: unknown, path: string, names: NamespaceNames, extras: Extras): Tool[] {
  try {
    return readTool(new Fields(tool, path, extras), names, extras)
  } catch (error) {
    refuseUnreadable(error, extras)
    return [{ type: 'native', protocol: 'responses', kind: 'unknown', value: tool, path }]
  }
}

/**
 * A web search without functions beside it is a setting that every protocol has. Beside functions it stays a tool of
 * this protocol, which agents offer with each request.
 */
function readWebSearch(body: Fields, tools: Tool[], extras: Extras): ReadTools {
  const search = tools.find((tool) => tool.type === 'native' && tool.kind.startsWith('web_search'))
  if (search?.type !== 'native' || tools.some((tool) => tool.type !== 'native')) return { tools }
  const tool = new Fields(search.value, search.path, extras)
  tool.take('type')
  const filters = tool.object('filters')
  const webSearch = {
    ...present('contextSize', tool.string('search_context_size')),
    ...present('userLocation', tool.take('user_location')),
    ...present('allowedDomains', filters?.strings('allowed_domains')),
    ...present('blockedDomains', filters?.strings('blocked_domains')),
    // It counts all calls of tools that the provider runs: of those there are no others.
    ...(tools.length === 1 ? present('maxUses', body.integer('max_tool_calls')) : {}),
    path: tool.path,
  }
  // The default is no requested option.
  if (tool.value.external_web_access === true) tool.take('external_web_access')
  collectExtras(tool, extras)
  return { tools: tools.filter((one) => one !== search), webSearch }
}

/** Options of the image generation tool: models of other protocols have them too. */
function readImageOutput(tools: Tool[]): ImageOutput | undefined {
  const tool = tools.find(isImageTool)
  if (tool?.type !== 'native' || !isObject(tool.value)) return undefined
  const { size, quality, background } = tool.value
  return {
    ...present('size', typeof size === 'string' ? parseSize(size) : undefined),
    ...present('quality', typeof quality === 'string' ? quality : undefined),
    ...present('background', typeof background === 'string' ? background : undefined),
  }
}

function readTool(tool: Fields, names: NamespaceNames, extras: Extras, namespace?: string): Tool[] {
  const type = tool.require('type', tool.string('type'), 'the kind of tool')
  switch (type) {
    case 'function':
      return [readFunction(tool, names, extras, namespace)]
    case 'custom':
      return [readCustom(tool, names, extras, namespace)]
    case 'namespace':
      return readNamespace(tool, names, extras)
    case 'tool_search':
      if (names.search !== undefined && isClientSearch(tool.value)) return [readSearch(tool, names.search, extras)]
      return [nativeTool(tool, type)]
    default: {
      const hosted = hostedTool(type, tool.value)
      if (hosted !== undefined) for (const [path, value] of ownMembers(tool.value)) extras[tool.at(path)] = value
      return [{ ...nativeTool(tool, type), ...present('hosted', hosted) }]
    }
  }
}

function readName(tool: Fields, names: NamespaceNames, namespace: string | undefined): string {
  const name = tool.require('name', tool.string('name'), 'the name of the tool')
  if (name === '') throw invalid(tool.at('name'), 'must not be empty')
  return namespace === undefined ? name : names.flatten(namespace, name)
}

function readFunction(tool: Fields, names: NamespaceNames, extras: Extras, namespace: string | undefined): Tool {
  const name = readName(tool, names, namespace)
  const description = tool.string('description'),
    parameters = tool.record('parameters'),
    strict = tool.boolean('strict')
  collectExtras(tool, extras)
  return {
    type: 'function',
    name,
    ...(description === undefined ? {} : { description }),
    ...(parameters === undefined ? {} : { parameters }),
    ...(strict === undefined ? {} : { strict }),
    path: tool.path,
  }
}

/** A search that the client runs is a function elsewhere. */
function readSearch(tool: Fields, name: string, extras: Extras): Tool {
  tool.take('execution')
  const description = tool.string('description'),
    parameters = tool.record('parameters')
  collectExtras(tool, extras)
  return {
    type: 'function',
    name,
    ...present('description', description),
    ...present('parameters', parameters),
    path: tool.path,
  }
}

function readCustom(tool: Fields, names: NamespaceNames, extras: Extras, namespace: string | undefined): Tool {
  const name = readName(tool, names, namespace)
  const description = tool.string('description'),
    format = readGrammar(tool)
  collectExtras(tool, extras)
  return {
    type: 'custom',
    name,
    ...(description === undefined ? {} : { description }),
    ...(format === undefined ? {} : { format }),
    path: tool.path,
  }
}

/** The format of free text; of a kind that is not known, all of it. */
function readGrammar(tool: Fields): Record<string, unknown> | undefined {
  const format = tool.object('format')
  if (format === undefined || format.value.type !== 'grammar') return format?.whole()
  for (const name of ['type', 'syntax', 'definition']) format.take(name)
  return format.value
}

/** OpenAI refuses longer descriptions of functions. */
const DESCRIPTION_MAX = 1024

/** The tools of a namespace are ordinary tools elsewhere, and its description is in that of the first one. */
function readNamespace(tool: Fields, names: NamespaceNames, extras: Extras): Tool[] {
  const name = tool.require('name', tool.string('name'), 'the name of the namespace')
  const inner = tool.require('tools', tool.objects('tools'), 'the tools of the namespace')
  const tools = inner.flatMap((one) =>
    one.value.type === 'namespace' ? [nativeTool(one, 'namespace')] : readTool(one, names, extras, name),
  )
  if (describe(tool.value.description, name, tools)) tool.take('description')
  collectExtras(tool, extras)
  return tools
}

/** False where the description of a namespace has no place in a description of its tools. */
function describe(description: unknown, namespace: string, tools: Tool[]): boolean {
  if (typeof description !== 'string') return false
  if (description === '') return true
  const callable = tools.filter((tool) => tool.type !== 'native')
  const [first] = callable
  if (first === undefined) return false
  const names = callable.map(({ name }) => name).join(', ')
  const own = first.description === undefined ? '' : `\n\n${first.description}`
  const joined = `The tools of ${namespace} (${names}): ${description}${own}`
  if (joined.length > DESCRIPTION_MAX) return false
  first.description = joined
  return true
}

const nativeTool = (tool: Fields, kind: string): Tool & { type: 'native' } => ({
  type: 'native',
  protocol: 'responses',
  kind,
  value: tool.whole(),
  path: tool.path,
  ...(OPTIONAL.test(kind) ? { optional: true } : {}),
})

const MODES = ['none', 'auto', 'required'] as const

/**
 * `tool_choice`: a mode, one tool, or a list of allowed ones. Of the tools that a provider runs, only a web search
 * without other tools can be required elsewhere.
 */
export function readToolChoice(
  body: Fields,
  names: NamespaceNames,
  { webSearch }: ReadTools,
  extras: Extras,
): Pick<GenerationRequest, 'toolChoice'> {
  const value = body.take('tool_choice')
  if (value === undefined) return {}
  if (typeof value === 'string') {
    const type = body.oneOf('tool_choice', MODES)
    return type === undefined ? {} : { toolChoice: { type } }
  }
  const choice = new Fields(value, 'tool_choice', extras)
  const type = choice.require(
    'type',
    choice.string('type'),
    'function, custom, allowed_tools or the type of a hosted tool',
  )
  const allowed = type === 'allowed_tools' ? readAllowed(choice, names) : undefined
  const chosen: ToolChoice | undefined =
    type === 'function' || type === 'custom' ? { type: 'tool', name: readChosen(choice, names), form: type } : allowed
  if (chosen !== undefined) {
    collectExtras(choice, extras)
    return { toolChoice: chosen }
  }
  if (webSearch !== undefined && type.startsWith('web_search')) return { toolChoice: { type: 'required' } }
  extras.tool_choice = value
  return {}
}

function readChosen(tool: Fields, names: NamespaceNames): string {
  const name = tool.require('name', tool.string('name'), 'the name of the tool'),
    namespace = tool.string('namespace')
  return namespace === undefined ? name : names.flatten(namespace, name)
}

/** Undefined where it allows nothing but tools that the provider runs. */
function readAllowed(choice: Fields, names: NamespaceNames): ToolChoice | undefined {
  const mode = choice.oneOf('mode', ['auto', 'required'])
  const tools = choice.require('tools', choice.objects('tools'), 'the tools that may be called')
  const callable = tools.filter((tool) =>
    ['function', 'custom'].includes(tool.require('type', tool.string('type'), 'the kind of tool')),
  )
  for (const tool of tools) if (!callable.includes(tool)) choice.extras![tool.path] = tool.whole()
  return callable.length === 0
    ? undefined
    : { type: 'allowed', names: callable.map((tool) => readChosen(tool, names)), required: mode === 'required' }
}
