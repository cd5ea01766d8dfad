import { isObject } from '../fields.ts'
import { objectsOf, type Json } from './shapes.ts'

/** A tool of a `namespace` tool: where it lives and what it is called there. */
export type Spaced = { namespace: string; name: string }

/** Names under which the tools inside `namespace` tools are known outside this protocol, and the way back. */
export type FlatNames = { flat(namespace: string, name: string): string; spaced(flat: string): Spaced | undefined }

/** Every list of tools in a request, with its path: `tools`, and those that input items bring along. */
export function toolLists(body: Json): { path: string; tools: unknown }[] {
  const lists = [{ path: 'tools', tools: body.tools }]
  for (const [index, item] of (Array.isArray(body.input) ? body.input : []).entries())
    if (isObject(item) && (item.type === 'additional_tools' || item.type === 'tool_search_output'))
      lists.push({ path: `input[${index}].tools`, tools: item.tools })
  return lists
}

/** A tool keeps its own name where nothing else in the request has it; otherwise its namespace is put before it. */
export function flatNames(body: Json): FlatNames {
  const seen = new Map<string, Set<string>>()
  const spaced: Spaced[] = []
  const note = (name: string, namespace: string): void => {
    seen.set(name, (seen.get(name) ?? new Set()).add(namespace))
  }
  for (const tool of toolLists(body).flatMap(({ tools }) => objectsOf(tools))) {
    if (typeof tool.name !== 'string') continue
    if (tool.type !== 'namespace') {
      note(tool.name, '')
      continue
    }
    for (const inner of objectsOf(tool.tools)) {
      if (typeof inner.name !== 'string') continue
      note(inner.name, tool.name)
      spaced.push({ namespace: tool.name, name: inner.name })
    }
  }
  const flat = (namespace: string, name: string): string =>
    (seen.get(name)?.size ?? 0) > 1 ? `${namespace}__${name}` : name
  const back = new Map(spaced.map((tool) => [flat(tool.namespace, tool.name), tool]))
  return { flat, spaced: (name) => back.get(name) }
}
