import type { GenerationRequest } from '../generation/request.ts'
import { isObject, objectOf, objectsOf, stringOf } from '../json/parse.ts'
import { someElement } from './element-memory.ts'
import type { Capabilities } from './protocol.ts'
import type { RequestedClass } from './requested-output.ts'

/** OpenRouter's plugins and search engines, which all of its protocols have. */

/** The plugins of a request, as `plugin file-parser mistral-ocr`, and its searches by a plugin or a named engine. */
export function requestedPlugins({ plugins, tools }: Record<string, unknown>): RequestedClass[] {
  const requested: RequestedClass[] = []
  for (const [index, plugin] of listOf(plugins).entries()) {
    if (!isObject(plugin) || typeof plugin.id !== 'string' || plugin.enabled === false) continue
    const param = `plugins[${index}]`
    if (plugin.id === 'web') requested.push(search('web', param, plugin.engine))
    else requested.push({ member: 'tool', value: ['plugin', plugin.id, ...engineOf(plugin)].join(' '), param })
  }
  for (const [index, tool] of listOf(tools).entries()) {
    const { type, parameters } = objectOf(tool)
    const { engine } = objectOf(parameters)
    if (type === SEARCH_TOOL && typeof engine === 'string') requested.push(search(type, `tools[${index}]`, engine))
  }
  return requested
}

const SEARCH_TOOL = 'openrouter:web_search'

const listOf = (value: unknown): unknown[] => (Array.isArray(value) ? value : [])

const search = (value: string, param: string, engine: unknown): RequestedClass => ({
  member: 'search',
  value,
  param,
  ...(typeof engine === 'string' ? { engine } : {}),
})

const engineOf = ({ pdf }: Record<string, unknown>): string[] => {
  const engine = stringOf(objectOf(pdf).engine)
  return engine === '' ? [] : [engine]
}

/**
 * The parsing of PDFs that the models of some endpoints do not read, as a list of one or none: nothing in the request
 * asks for it, unless it has a plugin that says by which engine.
 */
export function parsedFiles(
  { turns }: Pick<GenerationRequest, 'turns'>,
  { plugins }: Record<string, unknown>,
  capabilities: readonly Capabilities[],
): RequestedClass[] {
  if (capabilities.every(({ input }) => input === undefined || input.includes('file'))) return []
  if (objectsOf(plugins).some((plugin) => plugin.id === 'file-parser')) return []
  const hasPdf = someElement(turns, ({ parts }) => parts.some(isPdf))
  return hasPdf ? [{ member: 'tool', value: 'plugin file-parser', param: 'messages' }] : []
}

const isPdf = (part: GenerationRequest['turns'][number]['parts'][number]): boolean =>
  part.type === 'file' && (part.source.type !== 'data' || part.source.mediaType === 'application/pdf')
