import { invalid } from '../../error.ts'
import type { MediaSource } from '../../generation/request.ts'
import { collectExtras, describeType, type Extras, Fields } from '../fields.ts'
import { checkBase64, checkMediaType } from '../media.ts'

/** The source of a medium; undefined for a kind that only Anthropic has. */
export function readSource(source: Fields, type: 'image' | 'file', extras: Extras): MediaSource | undefined {
  const kind = source.require('type', source.string('type'), "one of 'base64', 'url', 'file'")
  const mediaType = source.string('media_type')
  switch (kind) {
    case 'base64':
      return {
        type: 'data',
        mediaType: checkMediaType(
          source.require('media_type', mediaType, 'the media type of the data'),
          source.at('media_type'),
        ),
        data: checkBase64(source.require('data', source.string('data'), 'the content as base64'), source.at('data')),
      }
    case 'url':
      return { type: 'url', url: source.require('url', source.string('url'), 'the URL of the content') }
    case 'file':
      return { type: 'file', id: source.require('file_id', source.string('file_id'), 'the id of the file') }
    case 'text':
      if (type !== 'file') return undefined
      return {
        type: 'text',
        text: source.require('data', source.string('data'), 'the text'),
        mediaType: mediaType ?? 'text/plain',
      }
    case 'content':
      return type === 'file' ? readContentSource(source, extras) : undefined
    default:
      return undefined
  }
}

/** The problem of a value that is not content. */
export const contentProblem = (value: unknown): string =>
  value === undefined
    ? 'is required: a string or an array of content blocks'
    : `must be a string or an array of content blocks, not ${describeType(value)}`

/** A document of content blocks; undefined where a block is not text: such a document is native. */
export function readContentSource(source: Fields, extras: Extras): MediaSource | undefined {
  const content = source.take('content')
  if (typeof content === 'string') return { type: 'text', text: content, mediaType: 'text/plain' }
  if (!Array.isArray(content)) throw invalid(source.at('content'), contentProblem(content))
  const blocks = content.map((block, index) => new Fields(block, `${source.at('content')}[${index}]`, extras))
  const texts = blocks.map((block) => (block.take('type') === 'text' ? block.string('text') : undefined))
  if (texts.includes(undefined)) return undefined
  for (const block of blocks) collectExtras(block, extras)
  return { type: 'text', text: texts.join('\n'), mediaType: 'text/plain' }
}
