import type { GenerationRequest, Turn } from '../generation/request.ts'
import { isObject, objectOf, objectsOf, stringOf } from '../json/parse.ts'
import { someElement } from './element-memory.ts'
import type { Capabilities } from './protocol.ts'
import type { RequestedClass } from './requested-output.ts'

/** OpenRouter's plugins and search engines, which all of its protocols have, and versions of search tools. */

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
    const type = stringOf(objectOf(tool).type)
    const { engine } = type === SEARCH_TOOL ? objectOf(objectOf(tool).parameters) : { engine: versionOf(type) }
    if (typeof engine === 'string') requested.push(search(type, `tools[${index}]`, engine))
  }
  return requested
}

const SEARCH_TOOL = 'openrouter:web_search'

/** OpenAI's older tool for searches. */
const versionOf = (type: string): string | undefined => (type.startsWith('web_search_preview') ? 'preview' : undefined)

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
 * Media for which a provider may charge apart from the tokens: audio, and PDFs that the models of some endpoints do not
 * read. Nothing in the request asks for their parsing, unless it has a plugin that says by which engine.
 */
export function chargedMedia(
  { turns }: Pick<GenerationRequest, 'turns'>,
  { plugins }: Record<string, unknown>,
  capabilities: readonly Capabilities[],
): RequestedClass[] {
  const media: RequestedClass[] = []
  if (someElement(turns, hasAudio)) media.push({ member: 'tool', value: 'audio', param: 'messages' })
  const readsFiles = capabilities.every(({ input }) => input === undefined || input.includes('file'))
  const hasParser = objectsOf(plugins).some((plugin) => plugin.id === 'file-parser')
  if (!readsFiles && !hasParser && someElement(turns, hasPdf))
    media.push({ member: 'tool', value: 'plugin file-parser', param: 'messages' })
  return media
}

const hasAudio = ({ parts }: Turn): boolean => parts.some(({ type }) => type === 'audio')

const hasPdf = ({ parts }: Turn): boolean =>
  parts.some(
    (part) => part.type === 'file' && (part.source.type !== 'data' || part.source.mediaType === 'application/pdf'),
  )
