import { isObject } from '../fields.ts'
import { isAddress, isNamed, isTextual, noFileId, notIssued, objectsIn, paramOf, textOf } from '../media.ts'
import type { MediaReference, Medium } from '../protocol.ts'

type Json = Record<string, unknown>
type Path = (string | number)[]

/** Files and addresses in a body's content blocks, however deep they stand. */
export function references(body: Json): MediaReference[] {
  const { container } = body
  if (isNamed(container)) throw notIssued('container', 'a container')
  if (isObject(container) && isNamed(container.id)) throw notIssued('container.id', 'a container')
  const found: MediaReference[] = []
  addBlocks(body.system, ['system'], found)
  for (const [m, message] of objectsIn(body.messages)) addBlocks(message.content, ['messages', m, 'content'], found)
  return found
}

function addBlocks(blocks: unknown, path: Path, found: MediaReference[]): void {
  for (const [b, block] of objectsIn(blocks)) {
    const at = [...path, b]
    if (block.type === 'container_upload') throw notIssued(paramOf([...at, 'file_id']), 'a file in a container')
    if (isObject(block.source)) addSource(block.source, [...at, 'source'], block.type === 'image' ? 'image' : 'file', found)
    addBlocks(block.content, [...at, 'content'], found)
  }
}

function addSource(source: Json, path: Path, kind: 'image' | 'file', found: MediaReference[]): void {
  const { type, file_id: id, url } = source
  if (type !== 'file') noFileId(source, path, 'sources of the type file')
  if (type === 'file' && isNamed(id)) found.push({ path, param: paramOf([...path, 'file_id']), source: { type: 'file', id }, kind, inline })
  else if (type === 'url' && isAddress(url)) found.push({ path, param: paramOf([...path, 'url']), source: { type: 'url', url }, kind, inline })
  else if (type === 'content') addBlocks(source.content, [...path, 'content'], found)
}

/** Documents that are written in text are sent as text. */
const inline = (medium: Medium): Json =>
  isTextual(medium.mediaType) ? { type: 'text', media_type: 'text/plain', data: textOf(medium) } : { type: 'base64', media_type: medium.mediaType, data: medium.data }
