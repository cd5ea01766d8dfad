import type { MediaPart } from '../../generation/request.ts'
import { audioFormat, dataUrl, unsupportedMedia } from '../media.ts'
import type { Translation } from '../translation.ts'
import type { Json } from './shapes.ts'

/** A medium as a content part. Throws unsupported_parameter for audio that is not in the body, and for video. */
export function writeMedia(part: MediaPart, translation: Translation): Json {
  const { source } = part
  if (source.type === 'text') {
    translation.lose('content_as_text', translation.at(part))
    return { type: 'input_text', text: part.filename === undefined ? source.text : `${part.filename}:\n${source.text}` }
  }
  if (part.type !== 'file' && part.filename !== undefined)
    translation.lose('unsupported_field', translation.at(part, 'filename'), 'only files have a name')
  if (part.type === 'audio' && source.type === 'data')
    return { type: 'input_audio', input_audio: { data: source.data, format: audioFormat(source.mediaType) } }
  if (part.type === 'audio' || part.type === 'video') throw unsupportedMedia(part, translation)
  return part.type === 'image'
    ? { type: 'input_image', ...writeDetail(part, translation), ...imageSource(source) }
    : { type: 'input_file', ...fileSource(part, source, translation) }
}

const DETAILS: ReadonlySet<string> = new Set(['low', 'high', 'auto', 'original'])

function writeDetail(part: MediaPart, translation: Translation): Json {
  const { detail } = part
  if (detail === undefined) return {}
  if (DETAILS.has(detail)) return { detail }
  const nearest = detail === 'medium' ? 'auto' : 'high'
  translation.lose('detail_adjusted', translation.at(part, 'detail'), `'${detail}' is sent as '${nearest}'`)
  return { detail: nearest }
}

type Source = Exclude<MediaPart['source'], { type: 'text' }>

const imageSource = (source: Source): Json =>
  source.type === 'file' ? { file_id: source.id } : { image_url: source.type === 'url' ? source.url : dataUrl(source) }

function fileSource(part: MediaPart, source: Source, translation: Translation): Json {
  if (source.type !== 'data') {
    if (part.filename !== undefined)
      translation.lose('unsupported_field', translation.at(part, 'filename'), 'only files in the request have a name')
    return source.type === 'file' ? { file_id: source.id } : { file_url: source.url }
  }
  // The provider refuses file data without a name, and takes the type of the file from it.
  const filename =
    part.filename ?? `file.${source.mediaType === 'text/plain' ? 'txt' : source.mediaType.split(/[/.+]/).at(-1)}`
  return { filename, file_data: dataUrl(source) }
}
