import { invalid } from '../../error.ts'
import { isObject } from '../../json/parse.ts'
import {
  isNonEmptyString,
  isTextual,
  providerReferences,
  mediaKind,
  listedIn,
  objectsIn,
  pathText,
  omit,
} from '../media.ts'
import type { MediaData, MediaReference, MemberPath, References } from '../protocol.ts'
import { either } from './fields.ts'

type Json = Record<string, unknown>

/**
 * Files and URLs in contents, in the system instruction and in function responses, and cached contents and stores that
 * are kept at a provider. Throws invalid_request for a part of which it is not clear what it refers to.
 */
export function references(body: Json): References {
  const found: References = []
  for (const name of ['cachedContent', 'cached_content'])
    found.push(...providerReferences(body[name], [name], 'a cached content'))
  for (const [t, tool] of listedIn(body.tools, ['tools'])) addStores(tool, ['tools', t], found)
  for (const [c, content] of listedIn(body.contents, ['contents'])) addParts(content, ['contents', c], found)
  const system = memberOf(body, 'systemInstruction', 'system_instruction')
  if (system !== undefined) addParts(system.value, [system.name], found)
  return found
}

function addStores(tool: Json, path: MemberPath, found: References): void {
  const search = memberOf(tool, 'fileSearch', 'file_search')
  if (search !== undefined)
    for (const name of ['fileSearchStoreNames', 'file_search_store_names'])
      found.push(...providerReferences(search.value[name], [...path, search.name, name], 'a store'))
  // Vertex has several ways to name data stores; all of them are of the provider's project.
  if (tool.retrieval !== undefined)
    found.push({ param: pathText([...path, 'retrieval']), source: { type: 'provider', what: 'a store', ids: [] } })
}

function addParts(holder: Json, path: MemberPath, found: References): void {
  for (const [p, part] of listedIn(holder.parts, [...path, 'parts'])) {
    const at = [...path, 'parts', p]
    const response = memberOf(part, 'functionResponse', 'function_response')
    const file = memberOf(part, 'fileData', 'file_data')
    if (response !== undefined && file !== undefined)
      throw invalid(pathText(at), `must have only one of ${response.name} and ${file.name}`)
    if (response !== undefined) addParts(response.value, [...at, response.name], found)
    if (file !== undefined) addFile(part, file, at, found)
  }
}

function addFile(
  part: Json,
  { name, value }: { name: string; value: Json },
  path: MemberPath,
  found: References,
): void {
  const uri = either(value, 'fileUri')
  if (!isNonEmptyString(uri)) return
  const mimeType = either(value, 'mimeType'),
    displayName = either(value, 'displayName')
  const param = pathText([...path, name, Object.hasOwn(value, 'fileUri') ? 'fileUri' : 'file_uri'])
  found.push({
    path,
    param,
    source: sourceOf(uri),
    ...(isNonEmptyString(mimeType) ? { kind: mediaKind(mimeType) } : {}),
    inline: (medium) => ({
      ...omit(part, 'fileData', 'file_data'),
      inlineData: {
        mimeType: inlineTypeOf(medium),
        data: medium.data,
        ...(isNonEmptyString(displayName) ? { displayName } : {}),
      },
    }),
  })
}

/** The name of an uploaded file, or its URL at a file server, is an id; any other URI is the medium's URL. */
function sourceOf(uri: string): MediaReference['source'] {
  const isUrl = /^[a-z][\w+.-]*:/i.test(uri)
  const uploaded = /^(?:https?:\/\/[^?#]*\/v1(?:beta)?\/)?(?:files\/)?(file-[0-9a-f]+)$/i.exec(uri)?.[1]
  if (uploaded !== undefined) return { type: 'file', id: uploaded }
  // Files at Google belong to the key of the provider, so they may be another account's.
  return isUrl && !/^https?:\/\/generativelanguage\.googleapis\.com\//i.test(uri)
    ? { type: 'url', url: uri }
    : { type: 'file', id: uri }
}

/** Google takes text as plain text only; of other types, it judges itself. */
const inlineTypeOf = ({ mediaType }: MediaData): string => (isTextual(mediaType) ? 'text/plain' : mediaType)

/** A member that is an object, under the name that the client wrote. The request reader refuses both names together. */
function memberOf(object: Json, ...spellings: [string, string]): { name: string; value: Json } | undefined {
  const name = spellings.find((spelling) => Object.hasOwn(object, spelling))
  const value = name === undefined ? undefined : object[name]
  return name !== undefined && isObject(value) ? { name, value } : undefined
}

/** The ids of files that a response refers to. */
export const issuedIds = (data: Json): string[] =>
  objectsIn(data.candidates)
    .flatMap(([, { content }]) => objectsIn(isObject(content) ? content.parts : undefined))
    .map(([, part]) => either(either(part, 'fileData'), 'fileUri'))
    .filter(isNonEmptyString)
