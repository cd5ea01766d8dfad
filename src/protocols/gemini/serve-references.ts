import { invalid } from '../../error.ts'
import { isObject } from '../fields.ts'
import { isNamed, isTextual, mediaKind, objectsIn, paramOf, without } from '../media.ts'
import type { MediaReference, Medium } from '../protocol.ts'
import { either } from './fields.ts'
import { INLINE_TYPES } from './shapes.ts'

type Json = Record<string, unknown>
type Path = (string | number)[]

/** Files and addresses in a body's contents, in its system instruction and in the results of functions. */
export function references(body: Json): MediaReference[] {
  const found: MediaReference[] = []
  for (const [c, content] of objectsIn(body.contents)) addParts(content, ['contents', c], found)
  const system = named(body, 'systemInstruction', 'system_instruction')
  if (system !== undefined) addParts(system.value, [system.name], found)
  return found
}

function addParts(holder: Json, path: Path, found: MediaReference[]): void {
  for (const [p, part] of objectsIn(holder.parts)) {
    const at = [...path, 'parts', p]
    const response = named(part, 'functionResponse', 'function_response')
    const file = named(part, 'fileData', 'file_data')
    if (response !== undefined && file !== undefined) throw invalid(paramOf(at), `must have only one of ${response.name} and ${file.name}`)
    if (response !== undefined) addParts(response.value, [...at, response.name], found)
    if (file !== undefined) addFile(part, file, at, found)
  }
}

function addFile(part: Json, { name, value }: { name: string; value: Json }, path: Path, found: MediaReference[]): void {
  const uri = either(value, 'fileUri')
  if (!isNamed(uri)) return
  const mimeType = either(value, 'mimeType'), displayName = either(value, 'displayName')
  const param = paramOf([...path, name, Object.hasOwn(value, 'fileUri') ? 'fileUri' : 'file_uri'])
  found.push({
    path, param, source: sourceOf(uri), ...(isNamed(mimeType) ? { kind: mediaKind(mimeType) } : {}),
    inline: (medium) => ({ ...without(part, 'fileData', 'file_data'), inlineData: { mimeType: typeOf(medium, param), data: medium.data, ...(isNamed(displayName) ? { displayName } : {}) } }),
  })
}

/** A file's own name or its address at a server of files is an id; anything else is where the medium is. */
function sourceOf(uri: string): MediaReference['source'] {
  const address = /^[a-z][\w+.-]*:/i.test(uri)
  const ours = /^(?:https?:\/\/[^?#]*\/v1(?:beta)?\/)?(?:files\/)?(file-[0-9a-f]+)$/i.exec(uri)?.[1]
  if (ours !== undefined) return { type: 'file', id: ours }
  // Google's own files are another's as likely as this client's.
  return address && !/^https?:\/\/generativelanguage\.googleapis\.com\//i.test(uri) ? { type: 'url', url: uri } : { type: 'file', id: uri }
}

function typeOf({ mediaType }: Medium, param: string): string {
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
