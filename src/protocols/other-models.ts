import { isObject } from '../json/parse.ts'
import type { RequestedClass } from './requested-output.ts'

/** Tools of clients, and one whose images are billed by their number. */
const USES_NO_MODEL = new Set(['function', 'custom', 'image_generation'])

const MODEL = /^(?:analysis_)?models?$/

/**
 * The other models that a body has its provider use beside the requested one: those that Anthropic and LiteLLM ask
 * where that refuses or fails (`fallbacks`), and those that tools (Anthropic's advisor, OpenRouter's server tools) and
 * plugins ask. What they cost is not in the usage of the response, or not at the price of the requested model.
 */
export function otherModels({ fallbacks, tools, plugins }: Record<string, unknown>): RequestedClass[] {
  const asked: RequestedClass[] = []
  for (const [index, one] of listOf(fallbacks).entries())
    if (typeof one === 'string') asked.push(modelAt(`fallbacks[${index}]`, one))
    else readModels(one, `fallbacks[${index}]`, asked)
  for (const [index, tool] of listOf(tools).entries()) {
    if (!isObject(tool) || typeof tool.type !== 'string' || USES_NO_MODEL.has(tool.type)) continue
    readModels(tool, `tools[${index}]`, asked)
    readModels(tool.parameters, `tools[${index}].parameters`, asked)
  }
  for (const [index, plugin] of listOf(plugins).entries()) readModels(plugin, `plugins[${index}]`, asked)
  return asked
}

const listOf = (value: unknown): unknown[] => (Array.isArray(value) ? value : [])

const modelAt = (param: string, value: string): RequestedClass => ({ member: 'model', value, param })

function readModels(value: unknown, path: string, asked: RequestedClass[]): void {
  if (!isObject(value)) return
  for (const name of Object.keys(value)) {
    if (!MODEL.test(name)) continue
    const models = value[name]
    for (const model of Array.isArray(models) ? models : [models])
      if (typeof model === 'string') asked.push(modelAt(`${path}.${name}`, model))
  }
}
