import type { Located } from '../generation/request.ts'
import { isObject } from '../json/parse.ts'
import { snakeCase } from './fields.ts'
import type { RawRequest } from './protocol.ts'

/** Settings of a request by which a loss or a refusal can be located. */
export type SettingName =
  | 'conversation'
  | 'system'
  | 'cache'
  | 'webSearch'
  | 'toolChoice'
  | 'parallelTools'
  | 'temperature'
  | 'topP'
  | 'topK'
  | 'frequencyPenalty'
  | 'presencePenalty'
  | 'seed'
  | 'stop'
  | 'logitBias'
  | 'logprobs'
  | 'topLogprobs'
  | 'maxOutputTokens'
  | 'reasoning'
  | 'reasoning.effort'
  | 'reasoning.off'
  | 'reasoning.budgetTokens'
  | 'reasoning.adaptive'
  | 'reasoning.visible'
  | 'reasoning.summary'
  | 'outputFormat'
  | 'outputFormat.schema'
  | 'outputFormat.name'
  | 'outputModalities'
  | 'imageOutput'
  | 'imageOutput.count'
  | 'imageOutput.size'
  | 'imageOutput.quality'
  | 'imageOutput.background'
  | 'imageOutput.format'
  | 'imageOutput.compression'
  | 'verbosity'
  | 'user'
  | 'metadata'
  | 'serviceTier'
  | 'cacheKey'
  | 'cacheRetention'

/** Members of an element (a turn, a part, a tool, a web search) by which a loss can be located more closely. */
export type ElementField =
  | 'name'
  | 'detail'
  | 'filename'
  | 'cache'
  | 'citations'
  | 'signature'
  | 'arguments'
  | 'content'
  | 'isError'
  | 'parameters'
  | 'strict'
  | 'format'
  | 'contextSize'
  | 'userLocation'
  | 'allowedDomains'
  | 'blockedDomains'
  | 'maxUses'

/**
 * Paths of a protocol: each setting from the body down, each field from its element down (`/` at the start: from the
 * body down; `../`: from the object that holds the element down). Of several spellings the first that the request has
 * is its path.
 */
export type RequestPaths = {
  settings: { readonly [Name in SettingName]?: readonly string[] }
  fields: { readonly [Name in ElementField]?: readonly string[] }
}

/** The body that the client sent, to which paths refer: without the items that were put in front of its input. */
export const bodyAsSent = ({ body, inserted = 0 }: Pick<RawRequest, 'body' | 'inserted'>): Record<string, unknown> =>
  inserted > 0 && Array.isArray(body.input) ? { ...body, input: body.input.slice(inserted) } : body

/** The path of a setting in this body. */
export function settingPath({ settings }: RequestPaths, body: Record<string, unknown>, name: SettingName): string {
  const spellings = settings[name] ?? settings.conversation ?? ['body']
  return present(body, spellings) ?? spellings[0]!
}

/** The path of an element's field in this body; of the element where the field is not there. */
export function fieldPath(
  { settings, fields }: RequestPaths,
  body: Record<string, unknown>,
  { path }: Located,
  name: ElementField,
): string {
  if (path === undefined) return settings.conversation![0]!
  const spellings = (fields[name] ?? []).map((field) => pathOfField(path, field))
  return present(body, spellings) ?? path
}

/** The path of a field of the element at `path`. */
function pathOfField(path: string, field: string): string {
  if (field.startsWith('/')) return field.slice(1)
  return field.startsWith('../') ? `${path.slice(0, path.lastIndexOf('.'))}.${field.slice(3)}` : `${path}.${field}`
}

/** The first of the paths at which the body has a value, as the client spelled it. */
function present(body: unknown, paths: readonly string[]): string | undefined {
  for (const path of paths) {
    const found = spelled(body, path)
    if (found !== undefined) return found
  }
  return undefined
}

/** The path as the client spelled it (Google's fields have two spellings); undefined where the body has no value. */
function spelled(body: unknown, path: string): string | undefined {
  let value = body
  let found = ''
  for (const step of path.match(/\[\d+\]|[^.[\]]+/g) ?? []) {
    if (step.startsWith('[')) {
      value = Array.isArray(value) ? value[Number(step.slice(1, -1))] : undefined
      found += step
    } else {
      if (!isObject(value)) return undefined
      const name = Object.hasOwn(value, step) ? step : snakeCase(step)
      value = Object.hasOwn(value, name) ? value[name] : undefined
      found += found === '' ? name : `.${name}`
    }
    if (value === undefined || value === null) return undefined
  }
  return found
}
