import { invalid } from '../../error.ts'
import { isObject } from '../fields.ts'
import { isNamed, isTextual, keptAt, mediaKind, objectsIn, paramOf, without } from '../media.ts'
import type { ProviderReference, MediaReference, MediaData } from '../protocol.ts'
import { either } from './fields.ts'
import { INLINE_TYPES } from './shapes.ts'

type Json = Record<string, unknown>
type Path = (string | number)[]
type Found = (MediaReference | ProviderReference)[]

/**
 * Files and addresses in a body's contents, in its system instruction and in the results of functions; contents and
 * stores that a provider keeps.
 */
export function references(body: Json): Found {
  const found: Found = []
  for (const name of ['cachedContent', 'cached_content']) found.push(...keptAt(body[name], [name], 'a cached content'))
  for (const [t, tool] of objectsIn(body.tools)) addStores(tool, ['tools', t], found)
  for (const [c, content] of objectsIn(body.contents)) addParts(content, ['contents', c], found)
  const system = named(body, 'systemInstruction', 'system_instruction')
  if (system !== undefined) addParts(system.value, [system.name], found)
  return found
}

function addStores(tool: Json, path: Path, found: Found): void {
  const search = named(tool, 'fileSearch', 'file_search')
  if (search !== undefined)
    for (const name of ['fileSearchStoreNames', 'file_search_store_names'])
      found.push(...keptAt(search.value[name], [...path, search.name, name], 'a store'))
  // Vertex names its data stores in several ways, all of them those of one project.
  if (tool.retrieval !== undefined)
    found.push({ param: paramOf([...path, 'retrieval']), source: { type: 'provider', what: 'a store' } })
}

function addParts(holder: Json, path: Path, found: Found): void {
  for (const [p, part] of objectsIn(holder.parts)) {
    const at = [...path, 'parts', p]
    const response = named(part, 'functionResponse', 'function_response')
    const file = named(part, 'fileData', 'file_data')
    if (response !== undefined && file !== undefined)
      throw invalid(paramOf(at), `must have only one of ${response.name} and ${file.name}`)
    if (response !== undefined) addParts(response.value, [...at, response.name], found)
    if (file !== undefined) addFile(part, file, at, found)
  }
}

function addFile(part: Json, { name, value }: { name: string; value: Json }, path: Path, found: Found): void {
  const uri = either(value, 'fileUri')
  if (!isNamed(uri)) return
  const mimeType = either(value, 'mimeType'),
    displayName = either(value, 'displayName')
  const param = paramOf([...path, name, Object.hasOwn(value, 'fileUri') ? 'fileUri' : 'file_uri'])
  found.push({
    path,
    param,
    source: sourceOf(uri),
    ...(isNamed(mimeType) ? { kind: mediaKind(mimeType) } : {}),
    inline: (medium) => ({
      ...without(part, 'fileData', 'file_data'),
      inlineData: {
        mimeType: typeOf(medium, param),
        data: medium.data,
        ...(isNamed(displayName) ? { displayName } : {}),
      },
    }),
  })
}

/** A file's own name or its address at a server of files is an id; anything else is where the medium is. */
function sourceOf(uri: string): MediaReference['source'] {
  const address = /^[a-z][\w+.-]*:/i.test(uri)
  const ours = /^(?:https?:\/\/[^?#]*\/v1(?:beta)?\/)?(?:files\/)?(file-[0-9a-f]+)$/i.exec(uri)?.[1]
  if (ours !== undefined) return { type: 'file', id: ours }
  // Google's own files are another's as likely as this client's.
  return address && !/^https?:\/\/generativelanguage\.googleapis\.com\//i.test(uri)
    ? { type: 'url', url: uri }
    : { type: 'file', id: uri }
}

function typeOf({ mediaType }: MediaData, param: string): string {
  if (INLINE_TYPES.has(mediaType)) return mediaType
  if (isTextual(mediaType)) return 'text/plain'
  throw invalid(param, `is ${mediaType}, and generateContent carries only ${[...INLINE_TYPES].join(', ')}`)
}

/** A member that is an object, under the spelling in which it was written. Both at once are refused by the reader. */
function named(object: Json, ...spellings: [string, string]): { name: string; value: Json } | undefined {
  const name = spellings.find((spelling) => Object.hasOwn(object, spelling))
  const value = name === undefined ? undefined : object[name]
  return name !== undefined && isObject(value) ? { name, value } : undefined
}
