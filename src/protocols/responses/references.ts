import { invalid } from '../../error.ts'
import { isObject } from '../../json/parse.ts'
import { someElement } from '../element-memory.ts'
import {
  dataUrl,
  isRemoteUrl,
  isNonEmptyString,
  providerReferences,
  refuseFileId,
  listedIn,
  objectsIn,
  refuseSeveral,
  pathText,
  omit,
} from '../media.ts'
import type { MediaData, MemberPath, References } from '../protocol.ts'
import type { Json } from './shapes.ts'

/** For error texts: where a file id is accepted. */
const FILE_PARTS = 'input_file and input_image parts'

/**
 * Files and URLs in the items of a body, in the variables of its prompt and in the mask of its image tool; prompts,
 * vector stores and containers that only a provider has.
 */
export function references(body: Json, inserted = 0): References {
  const found: References = []
  for (const [i, item] of listedIn(body.instructions, ['instructions'])) addItem(item, ['instructions', i], found)
  if (!Array.isArray(body.input) || someElement(body.input, mayRefer))
    for (const [i, item] of listedIn(body.input, ['input'])) addInputItem(item, i, inserted, found)
  if (isObject(body.prompt)) addPrompt(body.prompt, found)
  addTools(body, [], found)
  return found
}

/** Reports whether an item has references, or some that are refused. */
function mayRefer(item: unknown): boolean {
  const found: References = []
  try {
    if (isObject(item)) addItem(item, [], found)
    return found.length > 0
  } catch {
    return true
  }
}

function addPrompt({ id, variables }: Json, found: References): void {
  found.push(...providerReferences(id, ['prompt', 'id'], 'a prompt'))
  if (isObject(variables))
    for (const [name, value] of Object.entries(variables))
      if (isObject(value)) addPart(value, ['prompt', 'variables', name], found)
}

/** An item of the input: `param` has the client's own index, `path` that in the body. */
function addInputItem(item: Json, index: number, inserted: number, found: References): void {
  const shown = index < inserted ? ['previous_response_id'] : ['input', index - inserted]
  const own: References = []
  addItem(item, shown, own)
  for (const one of own)
    found.push('path' in one ? { ...one, path: ['input', index, ...one.path.slice(shown.length)] } : one)
}

/** Items whose content or output is text, or a list of parts. */
const LISTING = /^(message|agent_message|function_call_output|custom_tool_call_output)$/

function addItem(item: Json, path: MemberPath, found: References): void {
  // Outputs of other tools may be objects.
  const { type = 'message' } = item
  const partsIn = typeof type === 'string' && !LISTING.test(type) ? objectsIn : listedIn
  for (const name of ['content', 'output'])
    for (const [p, part] of partsIn(item[name], [...path, name])) addPart(part, [...path, name, p], found)
  if (item.type === 'computer_call_output' && isObject(item.output)) addImage(item.output, [...path, 'output'], found)
  if (item.type === 'additional_tools') addTools(item, path, found)
  refuseFileId(item, path, FILE_PARTS)
}

function addPart(part: Json, path: MemberPath, found: References): void {
  if (part.type === 'input_file') addFile(part, path, found)
  else if (part.type === 'input_image') addImage(part, path, found)
  else if (part.type === 'input_video') addUrl(part, 'video', path, found)
  else refuseFileId(part, path, FILE_PARTS)
}

function addImage(image: Json, path: MemberPath, found: References): void {
  refuseSeveral(image, path, 'file_id', 'image_url')
  const { file_id: id, image_url: url } = image
  if (isObject(url)) throw invalid(pathText([...path, 'image_url']), 'must be a string, not an object')
  if (isNonEmptyString(id))
    found.push({
      path,
      param: pathText([...path, 'file_id']),
      source: { type: 'file', id },
      kind: 'image',
      inline: (medium) => ({ ...omit(image, 'file_id', 'image_url'), image_url: dataUrl(medium) }),
    })
  else addUrl(image, 'image', path, found)
}

function addUrl(part: Json, kind: 'image' | 'video', path: MemberPath, found: References): void {
  const at = [...path, `${kind}_url`]
  const url = part[`${kind}_url`]
  if (isRemoteUrl(url))
    found.push({ path: at, param: pathText(at), source: { type: 'url', url }, kind, inline: dataUrl })
}

function addFile(file: Json, path: MemberPath, found: References): void {
  refuseSeveral(file, path, 'file_id', 'file_url', 'file_data')
  const { file_id: id, file_url: url, filename } = file
  const inline = (medium: MediaData): Json => ({
    ...omit(file, 'file_id', 'file_url', 'file_data'),
    filename: isNonEmptyString(filename) ? filename : medium.filename,
    file_data: dataUrl(medium),
  })
  if (isNonEmptyString(id))
    found.push({ path, param: pathText([...path, 'file_id']), source: { type: 'file', id }, kind: 'file', inline })
  else if (isRemoteUrl(url))
    found.push({ path, param: pathText([...path, 'file_url']), source: { type: 'url', url }, kind: 'file', inline })
}

function addTools(holder: Json, path: MemberPath, found: References): void {
  for (const [t, tool] of listedIn(holder.tools, [...path, 'tools'])) {
    const at = [...path, 'tools', t]
    if (isObject(tool.input_image_mask)) addImage(tool.input_image_mask, [...at, 'input_image_mask'], found)
    found.push(...providerReferences(tool.vector_store_ids, [...at, 'vector_store_ids'], 'a vector store'))
    addContainer(tool.container, [...at, 'container'], found)
    // Here it is the operating system of the client's computer.
    if (tool.type !== 'computer_use_preview') addContainer(tool.environment, [...at, 'environment'], found)
  }
}

/** A container of the provider, or files and skills of the provider for a new one. */
function addContainer(container: unknown, path: MemberPath, found: References): void {
  if (!isObject(container)) return void found.push(...providerReferences(container, path, 'a container'))
  found.push(
    ...providerReferences(container.container_id, [...path, 'container_id'], 'a container'),
    ...providerReferences(container.file_ids, [...path, 'file_ids'], 'a file'),
  )
  for (const [s, skill] of objectsIn(container.skills))
    found.push(...providerReferences(skill.skill_id, [...path, 'skills', s, 'skill_id'], 'a skill'))
}

/** The ids of containers, and of files in them or found by searches, in the items of a response. */
export function issuedIds(data: Json): string[] {
  const output = isObject(data.response) ? data.response.output : data.output
  const parts = [data.part, { annotations: [data.annotation] }]
  const found: unknown[] = []
  for (const [, item] of objectsIn([data.item, ...(Array.isArray(output) ? output : [])])) {
    if (typeof item.type === 'string' && item.type.endsWith('_call')) {
      found.push(item.container_id, isObject(item.environment) ? item.environment.container_id : undefined)
      for (const [, result] of objectsIn(item.results)) found.push(result.file_id)
    }
    for (const [, part] of objectsIn(item.content)) parts.push(part)
  }
  for (const [, part] of objectsIn(parts))
    for (const [, annotation] of objectsIn(part.annotations)) found.push(annotation.container_id, annotation.file_id)
  return found.filter(isNonEmptyString)
}
