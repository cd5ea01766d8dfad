import { isObject } from '../../json/parse.ts'
import {
  isRemoteUrl,
  isNonEmptyString,
  isTextual,
  providerReferences,
  refuseFileId,
  listedIn,
  objectsIn,
  pathText,
  decodedText,
} from '../media.ts'
import type { MediaData, MemberPath, References } from '../protocol.ts'
import type { Json } from './shapes.ts'

/** Files and URLs in a body's content blocks, at any depth; containers, skills and profiles that a provider stores. */
export function references(body: Json): References {
  const found: References = []
  addContainer(body.container, found)
  found.push(...providerReferences(body.user_profile_id, ['user_profile_id'], 'a user profile'))
  addListed(body.system, ['system'], found)
  for (const [m, message] of listedIn(body.messages, ['messages']))
    addListed(message.content, ['messages', m, 'content'], found)
  return found
}

function addContainer(container: unknown, found: References): void {
  if (!isObject(container)) return void found.push(...providerReferences(container, ['container'], 'a container'))
  found.push(...providerReferences(container.id, ['container', 'id'], 'a container'))
  // The provider's own skills belong to no account.
  for (const [s, skill] of objectsIn(container.skills))
    if (skill.type === 'custom')
      found.push(...providerReferences(skill.skill_id, ['container', 'skills', s, 'skill_id'], 'a skill'))
}

function addListed(blocks: unknown, path: MemberPath, found: References): void {
  listedIn(blocks, path)
  addBlocks(blocks, path, found)
}

function addBlocks(blocks: unknown, path: MemberPath, found: References): void {
  for (const [b, block] of objectsIn(blocks)) {
    const at = [...path, b]
    if (block.type === 'container_upload')
      found.push(...providerReferences(block.file_id, [...at, 'file_id'], 'a file'))
    if (isObject(block.source))
      addSource(block.source, [...at, 'source'], block.type === 'image' ? 'image' : 'file', found)
    // Results of the provider's own tools are objects.
    const add = block.type === 'tool_result' ? addListed : addBlocks
    add(block.content, [...at, 'content'], found)
  }
}

function addSource(source: Json, path: MemberPath, kind: 'image' | 'file', found: References): void {
  const { type, file_id: id, url } = source
  if (type !== 'file') refuseFileId(source, path, 'sources of the type file')
  if (type === 'file' && isNonEmptyString(id))
    found.push({ path, param: pathText([...path, 'file_id']), source: { type: 'file', id }, kind, inline })
  else if (type === 'url' && isRemoteUrl(url))
    found.push({ path, param: pathText([...path, 'url']), source: { type: 'url', url }, kind, inline })
  else if (type === 'content') addListed(source.content, [...path, 'content'], found)
}

/** The source of a medium; documents of text are sent as text. */
const inline = (medium: MediaData): Json =>
  isTextual(medium.mediaType)
    ? { type: 'text', media_type: 'text/plain', data: decodedText(medium) }
    : { type: 'base64', media_type: medium.mediaType, data: medium.data }

/** The ids of the container of a response and of the files that tools wrote in it. */
export function issuedIds(data: Json): string[] {
  const found: unknown[] = []
  for (const holder of [data, data.message, data.delta])
    if (isObject(holder) && isObject(holder.container)) found.push(holder.container.id)
  for (const [, block] of objectsIn([data.content_block, ...(Array.isArray(data.content) ? data.content : [])]))
    if (typeof block.type === 'string' && block.type.endsWith('_tool_result') && isObject(block.content))
      for (const [, output] of objectsIn(block.content.content)) found.push(output.file_id)
  return found.filter(isNonEmptyString)
}
