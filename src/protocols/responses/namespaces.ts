import type { RawRequest } from '../protocol.ts'
import { isObject, objectsOf } from '../../json/parse.ts'
import { ReadArrays, someElement } from '../element-memory.ts'
import { omit } from '../media.ts'
import type { Json } from './shapes.ts'

/** A tool inside a `namespace` tool. */
type NamespacedTool = { namespace: string; name: string }

/** Names under which the tools of namespaces are known outside this protocol, and the way back. */
export type NamespaceNames = {
  flatten(namespace: string, name: string): string
  /** Undefined for a tool without a namespace. */
  resolve(flatName: string): NamespacedTool | undefined
  /** The function as which the client's search of tools is known; undefined where it has none. */
  search?: string
}

type InputOf = Pick<RawRequest, 'body' | 'inserted'>

/** Path of an input item: items of `previous_response_id`, which were put in front, have the path of that field. */
export const inputPath = (index: number, { inserted = 0 }: Pick<RawRequest, 'inserted'>): string =>
  index < inserted ? 'previous_response_id' : `input[${index - inserted}]`

/** Every list of tools in a request, with its path: `tools`, and the lists of input items. */
export function toolLists(rawRequest: InputOf): { path: string; tools: unknown }[] {
  const { body } = rawRequest
  const lists = [{ path: 'tools', tools: body.tools }]
  const input: unknown[] = Array.isArray(body.input) ? body.input : []
  if (!someElement(input, bringsTools)) return lists
  for (const [index, item] of input.entries())
    if (bringsTools(item)) lists.push({ path: `${inputPath(index, rawRequest)}.tools`, tools: item.tools })
  return lists
}

const bringsTools = (item: unknown): item is Json =>
  isObject(item) && (item.type === 'additional_tools' || item.type === 'tool_search_output')

const NONE: NamespaceNames = { flatten: (_, name) => name, resolve: () => undefined }

/**
 * A tool keeps its own name if it is unique in the request; otherwise its namespace is put before it. The same object
 * for the same tools.
 */
export function namespaceNames(body: Json): NamespaceNames {
  const lists = toolLists({ body })
  return lists.length === 1 ? known.of(body.tools, {}, () => namesIn(lists)) : namesIn(lists)
}

/** A search of tools that the client runs, not the provider. */
export const isClientSearch = ({ type, execution }: Json): boolean => type === 'tool_search' && execution === 'client'

/** The name of that tool elsewhere, which has none in this protocol. */
const SEARCH = 'tool_search'

const known = new ReadArrays<NamespaceNames>()

function namesIn(lists: readonly { tools: unknown }[]): NamespaceNames {
  const namespacesByName = new Map<string, Set<string>>()
  const namespaced: NamespacedTool[] = []
  const add = (name: string, namespace: string): void => {
    namespacesByName.set(name, (namespacesByName.get(name) ?? new Set()).add(namespace))
  }
  for (const tool of lists.flatMap(({ tools }) => objectsOf(tools))) {
    if (typeof tool.name !== 'string') continue
    if (tool.type !== 'namespace') {
      add(tool.name, '')
      continue
    }
    for (const inner of objectsOf(tool.tools)) {
      if (typeof inner.name !== 'string') continue
      add(inner.name, tool.name)
      namespaced.push({ namespace: tool.name, name: inner.name })
    }
  }
  const isSearched = objectsOf(lists[0]?.tools).some(isClientSearch) && !namespacesByName.has(SEARCH)
  const search = isSearched ? { search: SEARCH } : {}
  if (namespaced.length === 0) return isSearched ? { ...NONE, ...search } : NONE
  const flatten = (namespace: string, name: string): string =>
    (namespacesByName.get(name)?.size ?? 0) > 1 ? `${namespace}__${name}` : name
  const byFlatName = new Map(namespaced.map((tool) => [flatten(tool.namespace, tool.name), tool]))
  return { flatten, resolve: (flatName) => byFlatName.get(flatName), ...search }
}

/** The members that a response repeats, and the tools by which its calls are named. */
export const repeatedMembers = (body: Json): Json => ({
  ...omit(body, 'input'),
  input: toolLists({ body })
    .slice(1)
    .map(({ tools }) => ({ type: 'additional_tools', tools })),
})
