import type { MediaPart, Part, TextPart, ToolCallPart, ToolResultPart } from '../../generation/request.ts'
import type { Translation } from '../translation.ts'
import type { SettingName } from '../request-paths.ts'
import { belongsTo } from '../../generation/signature.ts'
import { isTextual, unsupportedMedia } from '../media.ts'
import type { Target } from '../protocol.ts'
import type { ToolNames } from '../tool-names.ts'
import { readInput } from './write-response.ts'
import type { Block } from './shapes.ts'

/** A block of a message, and which call it makes or answers. */
export type Item = { block: Block; calls?: string; answers?: string }

/** Parts -> blocks. Losses gather while it writes. */
export class PartWriter {
  readonly #target: Target
  readonly #names: ToolNames
  readonly #translation: Translation

  constructor(target: Target, names: ToolNames, translation: Translation) {
    this.#target = target
    this.#names = names
    this.#translation = translation
  }

  items(parts: Part[], role: 'user' | 'assistant'): Item[] {
    return parts.flatMap((part) => this.#item(part, role) ?? [])
  }

  #item(part: Part, role: 'user' | 'assistant'): Item | undefined {
    switch (part.type) {
      case 'text':
        return block(this.#text(part))
      case 'refusal':
        this.#lose('refusal', 'approximated', 'an earlier refusal is sent as text')
        return block(this.#text({ type: 'text', text: part.text }))
      case 'reasoning':
        return block(this.#reasoning(part))
      case 'tool-call':
        return { block: this.#call(part), calls: part.id }
      case 'tool-result':
        return { block: this.#result(part), answers: part.callId }
      case 'native':
        if (part.protocol === 'messages') return { block: part.value as Block }
        return this.#lose('part', 'left out', `only the protocol it came from knows ${part.kind}`, part.kind)
      default:
        if (role === 'assistant')
          return this.#lose(
            'part',
            'left out',
            `the provider takes media from the user only, and this is ${part.type}`,
            part.type,
          )
        return block(this.#media(part))
    }
  }

  /** Anthropic refuses texts of nothing but space. */
  #text(part: TextPart): Block | undefined {
    if (part.citations !== undefined)
      this.#lose('citations', 'left out', 'the provider takes back only its own citations')
    if (part.signature !== undefined) this.#lose('signature', 'left out', 'another model made it')
    return part.text.trim() === '' ? undefined : { type: 'text', text: part.text, ...cacheControl(part) }
  }

  /** Only the model that thought it may read it again: Anthropic checks every signature. */
  #reasoning(part: Part & { type: 'reasoning' }): Block | undefined {
    const signature = part.signature
    if (signature === undefined || !belongsTo(signature, this.#target, false)) {
      this.#lose('thoughts', 'left out', 'the provider takes back only reasoning that this model has signed')
      return undefined
    }
    return thinkingBlock({ ...part, signature: signature.data })
  }

  #call(part: ToolCallPart): Block {
    if (part.signature !== undefined) this.#lose('signature', 'left out', 'another model made it', part.id)
    const input = part.form === 'custom' ? { input: part.arguments } : readInput(part.arguments)
    if (input === undefined) this.#lose('call.arguments', 'left out', 'they are not a JSON object', part.id)
    return {
      type: 'tool_use',
      id: part.id,
      name: this.#names.sent(part.name),
      input: input ?? {},
      ...cacheControl(part),
    }
  }

  #result(part: ToolResultPart): Block {
    // A mark within a result covers no more than one on the result itself, which is where every server of this protocol
    // looks for it.
    const cache =
      part.cache ?? part.content.flatMap((inner) => (inner.type === 'native' ? [] : (inner.cache ?? []))).at(-1)
    const content = part.content.flatMap(
      (inner) => this.#item(inner.type === 'native' ? inner : { ...inner, cache: undefined }, 'user')?.block ?? [],
    )
    return {
      type: 'tool_result',
      tool_use_id: part.callId,
      ...(content.length === 0 ? {} : { content }),
      ...(part.isError === true ? { is_error: true } : {}),
      ...cacheControl({ cache }),
    }
  }

  #media(part: MediaPart): Block {
    if (part.detail !== undefined && part.detail !== 'auto')
      this.#lose('detail', 'left out', 'the provider decides at which resolution it looks')
    if (part.type === 'file') return this.#file(part)
    if (part.type !== 'image') throw unsupportedMedia(part, this.#translation)
    if (part.filename !== undefined) this.#lose('filename', 'left out', 'the provider has no names of images')
    return { type: 'image', source: imageSource(part, this.#translation), ...cacheControl(part) }
  }

  #file(part: MediaPart): Block {
    const { source } = part
    const title = part.filename === undefined ? {} : { title: part.filename }
    const rest = { ...title, ...cacheControl(part) }
    switch (source.type) {
      case 'url':
        return { type: 'document', source: { type: 'url', url: source.url }, ...rest }
      case 'text':
        return { type: 'document', source: { type: 'text', media_type: 'text/plain', data: source.text }, ...rest }
      case 'file':
        throw unsupportedMedia(part, this.#translation, 'a file that is stored elsewhere')
    }
    const mediaType = source.mediaType.split(';')[0]!.trim().toLowerCase()
    if (mediaType === 'application/pdf')
      return { type: 'document', source: { type: 'base64', media_type: mediaType, data: source.data }, ...rest }
    if (mediaType.startsWith('image/'))
      return { type: 'image', source: imageSource(part, this.#translation), ...cacheControl(part) }
    if (!isTextual(mediaType)) throw unsupportedMedia(part, this.#translation, `a file of the type ${mediaType}`)
    return {
      type: 'document',
      source: { type: 'text', media_type: 'text/plain', data: Buffer.from(source.data, 'base64').toString() },
      ...rest,
    }
  }

  #lose(_word: string, what: 'left out' | 'approximated', why: string, _of?: string): undefined {
    this.#translation.lose(
      what === 'left out' ? 'todo_dropped' : 'todo_approximated',
      this.#translation.setting('conversation'),
      why,
    )
  }
}

/** Signed reasoning as the block it was. */
export const thinkingBlock = ({
  text,
  redacted,
  signature,
}: {
  text: string
  redacted?: boolean
  signature: string
}): Block =>
  redacted === true && text === ''
    ? { type: 'redacted_thinking', data: signature }
    : { type: 'thinking', thinking: text, signature }

const block = (value: Block | undefined): Item | undefined => (value === undefined ? undefined : { block: value })

const cacheControl = ({ cache }: { cache?: { ttl?: '5m' | '1h' } | undefined }): { cache_control?: object } =>
  cache === undefined ? {} : { cache_control: { type: 'ephemeral', ...cache } }

const IMAGES = new Set(['image/jpeg', 'image/png', 'image/gif', 'image/webp'])

function imageSource(part: MediaPart, translation: Translation): object {
  const { source } = part
  if (source.type === 'url') return { type: 'url', url: source.url }
  if (source.type !== 'data') throw unsupportedMedia(part, translation, 'an image that is stored elsewhere')
  const mediaType = source.mediaType.split(';')[0]!.trim().toLowerCase()
  // `image/jpg` is a common slip that Anthropic does not forgive.
  const known = mediaType === 'image/jpg' ? 'image/jpeg' : mediaType
  if (!IMAGES.has(known)) throw unsupportedMedia(part, translation, `an image of the type ${mediaType}`)
  return { type: 'base64', media_type: known, data: source.data }
}
