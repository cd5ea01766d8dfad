import type { GenerationRequest, Part, Sampling, Tool } from '../../generation/request.ts'
import { isObject } from '../../json/parse.ts'
import { present } from '../fields.ts'
import { isImageTool } from '../image-config.ts'
import type { SettingName } from '../request-paths.ts'
import { forcesCall } from '../tool-choice.ts'
import type { Translation } from '../translation.ts'
import type { Json } from './shapes.ts'

/** A conversation as a prompt: the text of its last user turn. */
export function writeRequest(translation: Translation): Json {
  const { request, target } = translation
  const last = request.turns.findLast(({ role }) => role === 'user')
  const prompt = textOf(last?.parts ?? [])
  if (prompt === '') throw translation.emptyConversation()
  loseConversation(translation, last?.parts ?? [])
  loseSettings(translation)
  const { imageOutput: { count, size, quality, background, format, compression } = {} } = request
  return {
    model: target.model,
    prompt,
    ...(target.capabilities.base64Only === true ? {} : { response_format: 'b64_json' }),
    ...present('n', count),
    ...present('size', size && `${size.width}x${size.height}`),
    ...present('quality', quality),
    ...present('background', background),
    ...present('output_format', format),
    ...present('output_compression', compression),
    ...present('user', request.user),
    ...(request.stream ? { stream: true } : {}),
  }
}

const textOf = (parts: readonly Part[]): string =>
  parts
    .flatMap((part) => (part.type === 'text' ? [part.text] : []))
    .join('\n')
    .trim()

/** Reports everything of the conversation but the text of the last user turn, and tools. */
function loseConversation(translation: Translation, prompt: readonly Part[]): void {
  const { system, turns, tools, webSearch } = translation.request
  for (const part of [...system, ...turns.flatMap(({ parts }) => parts)])
    if (part.type !== 'text' || !prompt.includes(part))
      translation.lose('content_dropped', translation.at(part), 'an images API takes the text of the last user turn')
  for (const tool of tools)
    if (!isImageTool(tool)) translation.lose('tool_native', translation.at(tool), NO_TOOLS)
    else loseToolOptions(tool, translation)
  if (webSearch !== undefined) translation.lose('tool_native', translation.at(webSearch), NO_TOOLS)
}

/** Options of the image tool that are read as those of the image. */
const READ_OPTIONS = ['type', 'quality', 'background']

function loseToolOptions(tool: Tool, translation: Translation): void {
  if (tool.type !== 'native' || !isObject(tool.value)) return
  const isSized = translation.request.imageOutput?.size !== undefined || tool.value.size === 'auto'
  for (const [name, value] of Object.entries(tool.value))
    if (!READ_OPTIONS.includes(name) && value !== null && !(name === 'size' && isSized))
      translation.lose('unsupported_field', `${translation.at(tool)}.${name}`, 'an images API has no such field')
}

const NO_TOOLS = 'an images API has no tools'

function loseSettings(translation: Translation): void {
  const { request } = translation
  const { imageOutput } = request
  const settings: [SettingName, boolean][] = [
    ...(Object.keys(request.sampling) as (keyof Sampling)[]).map((name): [SettingName, boolean] => [
      name,
      request.sampling[name] !== undefined,
    ]),
    ['maxOutputTokens', request.maxOutputTokens !== undefined],
    ['reasoning', request.reasoning !== undefined],
    ['outputFormat', request.outputFormat !== undefined && request.outputFormat.type !== 'text'],
    ['imageOutput', hasRatio(imageOutput)],
    ['metadata', request.metadata !== undefined],
    ['serviceTier', request.serviceTier !== undefined],
    ['verbosity', request.verbosity !== undefined],
    ['cacheKey', request.cacheKey !== undefined],
    ['toolChoice', forcesCall(request.toolChoice)],
    ['cacheRetention', request.cacheRetention !== undefined],
  ]
  for (const [name, isSet] of settings)
    if (isSet) translation.lose('unsupported_field', translation.setting(name), 'an images API has no such field')
}

/** An images API takes pixels, not aspect ratios. */
const hasRatio = (output: GenerationRequest['imageOutput']): boolean =>
  output?.aspectRatio !== undefined || output?.imageSize !== undefined
