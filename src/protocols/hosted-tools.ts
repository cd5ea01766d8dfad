import type {
  GenerationRequest,
  HostedStep,
  HostedTool,
  NativePart,
  Part,
  Tool,
  TextPart,
  Turn,
} from '../generation/request.ts'
import { objectOf, stringOf } from '../json/parse.ts'
import { someElement } from './element-memory.ts'
import { isImageTool } from './image-config.ts'
import { refuseTool } from './provider-native.ts'
import type { RequestedClass } from './requested-output.ts'
import type { Translation } from './translation.ts'

type NativeTool = Tool & { type: 'native' }

/**
 * A tool that another protocol's provider runs, as this protocol's own tools. Throws unsupported_parameter for one
 * without a counterpart, unless it is optional. `write`: undefined for a tool that this protocol does not have.
 */
export function writeHosted<T>(
  tool: NativeTool,
  translation: Translation,
  write: (hosted: HostedTool) => T | undefined,
): T[] {
  const written = tool.hosted?.map(write)
  if (written !== undefined && !written.includes(undefined)) return written as T[]
  refuseTool(tool)
  translation.lose('tool_native', translation.at(tool))
  return []
}

/**
 * The tools that a provider may run for a request. Code has one name for all protocols, beside its own. A shell is the
 * client's unless it is in a container.
 */
export function hostedTools(tools: readonly Tool[]): RequestedClass[] {
  const requested: RequestedClass[] = []
  for (const tool of tools) {
    if (tool.type !== 'native') continue
    const { kind, value, path = 'tools', hosted = [] } = tool
    if (kind === 'shell' && !isInContainer(value)) continue
    const names = new Set([kind, ...hosted.map(({ type }) => type)])
    for (const name of names) requested.push({ member: 'tool', value: name, param: path })
  }
  return requested
}

/**
 * The image model that a provider may draw with for a request, as a list of one or none: by the request's tool, or by
 * one that is written for its modalities (at `path`). Only the responses API has such a tool.
 */
export function requestedImageModel(
  { outputModalities, tools }: Pick<GenerationRequest, 'outputModalities' | 'tools'>,
  endpoints: readonly { protocol: string }[],
  path: () => string,
): RequestedClass[] {
  if (!endpoints.some(({ protocol }) => protocol === 'responses')) return []
  const tool = tools.find(isImageTool)
  if (tool?.type !== 'native')
    return outputModalities?.includes('image') === true ? [{ member: 'image', value: '', param: path() }] : []
  return [{ member: 'image', value: stringOf(objectOf(tool.value).model), param: tool.path ?? 'tools' }]
}

/** Searches of the web and of X, in the names of all protocols. */
const SEARCH = /^(?:openrouter:)?(?:web|x)_search(?:_|$)/

/**
 * The search that a provider may run for a request, as a list of one or none. `isForwarded`: a provider gets the
 * client's own tools; others get only a search that all protocols have.
 */
export function requestedSearch(
  { webSearch }: Pick<GenerationRequest, 'webSearch'>,
  tools: readonly Tool[],
  isForwarded: boolean,
): RequestedClass[] {
  if (webSearch !== undefined) return [search('web_search', webSearch.path)]
  if (!isForwarded) return []
  const found = tools.find((tool) => tool.type === 'native' && SEARCH.test(tool.kind))
  return found?.type === 'native' ? [search(found.kind, found.path)] : []
}

const search = (value: string, path = 'tools'): RequestedClass => ({ member: 'search', value, param: path })

const isInContainer = (shell: unknown): boolean => {
  const { type } = objectOf(objectOf(shell).environment)
  return typeof type === 'string' && type.startsWith('container')
}

/**
 * The request with the steps of another provider's tools as text, since no provider accepts the items of another: a
 * conversation in which code was run goes on with any model.
 */
export function withStepsAsText(request: GenerationRequest, report: (part: NativePart) => void): GenerationRequest {
  if (!someElement(request.turns, hasSteps)) return request
  const turns = request.turns.map((turn) => (hasSteps(turn) ? { ...turn, parts: withTexts(turn.parts, report) } : turn))
  return { ...request, turns }
}

const hasSteps = ({ parts }: Turn): boolean =>
  parts.some((part) => part.type === 'native' && textOf(part) !== undefined)

/** The steps of a tool, or other readable text of a native part. */
const textOf = ({ steps, readable }: NativePart): string | undefined => steps?.map(textOfStep).join('\n\n') ?? readable

/** Neighbouring texts become one: OpenAI accepts an earlier response only as one text. */
function withTexts(parts: readonly Part[], report: (part: NativePart) => void): Part[] {
  const written: Part[] = []
  for (const part of parts) {
    const said = part.type === 'native' ? textOf(part) : undefined
    if (part.type === 'native' && said !== undefined) report(part)
    const text: Part = said === undefined ? part : { type: 'text', text: said, path: part.path }
    const last = written.at(-1)
    if (last !== undefined && isPlainText(last) && text.type === 'text')
      written[written.length - 1] = { ...text, text: `${last.text}\n\n${text.text}` }
    else written.push(text)
  }
  return written
}

/** A text without a signature: text after it can be added to it. */
const isPlainText = (part: Part): part is TextPart => part.type === 'text' && part.signature === undefined

function textOfStep(step: HostedStep): string {
  switch (step.type) {
    case 'code':
      return `[Code that was run:]\n${fenced(step.code)}`
    case 'mcp-call':
      return `[Call of the tool ${step.name} of the server ${step.server}:]\n${fenced(step.arguments)}`
    case 'code-result':
    case 'mcp-result':
      return `[${step.failed ? 'It failed' : 'Its result'}:]\n${fenced(step.output)}`
  }
}

/** A text between lines that show where it begins and ends. */
export const fenced = (text: string): string => `\`\`\`\n${text}${text.endsWith('\n') ? '' : '\n'}\`\`\``
