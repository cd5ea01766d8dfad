import { createHash } from 'node:crypto'
import type { Translation } from '../translation.ts'
import type { SettingName } from '../request-paths.ts'
import type { MediaPart, Part, ReasoningPart, ToolCallPart, ToolResultPart, Turn } from '../../generation/request.ts'
import { belongsTo, type Signature } from '../../generation/signature.ts'
import { breakpointOf } from '../cache-breakpoints.ts'
import { audioFormat, dataUrl, unsupportedMedia } from '../media.ts'
import type { Target } from '../protocol.ts'
import { acceptedName, OPENAI_NAMES } from '../tool-names.ts'
import type { Json } from './shapes.ts'

const CALL_ID_MAX = 64

/** How a failed tool's result begins. */
const FAILED = { type: 'text', text: 'Error:' } as const

/** `call_id` has at most 64 characters; a longer one is hashed, so that both ends of a pair change alike. */
export const callId = (id: string): string =>
  id !== '' && id.length <= CALL_ID_MAX ? id : `call_${createHash('sha256').update(id).digest('hex').slice(0, 40)}`

/** Turns -> `input` items. Items carry no ids: a provider that stored nothing of ours looks them up in vain. */
export class InputWriter {
  readonly items: Json[] = []
  readonly #target: Target
  readonly #translation: Translation
  /** Calls that wait for their results. */
  readonly #calls = new Map<string, ToolCallPart>()

  constructor(target: Target, translation: Translation) {
    this.#target = target
    this.#translation = translation
  }

  /** Leading system text that is more than one plain string. */
  system(parts: Part[]): void {
    this.#message('system', parts)
  }

  /** Turns come with results right behind their calls. */
  turn(turn: Turn): void {
    if (turn.name !== undefined) this.#lose('name', 'left out', 'the provider has no names of speakers')
    if (turn.role === 'assistant') return this.#assistant(turn.parts)
    if (turn.role === 'tool') for (const part of turn.parts) this.#result(part)
    this.end()
    if (turn.role !== 'tool') this.#message(turn.role, turn.parts)
  }

  /** The provider refuses a call without an output. */
  end(): void {
    for (const call of this.#calls.values()) {
      this.#lose(
        'call',
        'approximated',
        'a call had no result, which the provider refuses; it is told that none was recorded',
        call.id,
      )
      this.#answer(call, `${FAILED.text} No result of this call was recorded.`)
    }
  }

  /** One message for neighbouring content; what is an item of its own stands between. */
  #message(role: string, parts: Part[]): void {
    const unheard = (role === 'system' || role === 'developer') && this.#target.capabilities.system === false
    let content: Json[] = []
    const flush = (): void => {
      if (content.length > 0)
        this.items.push(
          unheard
            ? { type: 'message', role: 'user', content: this.#marked(content) }
            : { type: 'message', role, content },
        )
      content = []
    }
    for (const part of parts) {
      if (part.type === 'native') {
        flush()
        this.#native(part)
      } else if (part.type === 'tool-result') {
        flush()
        this.#result(part)
      } else {
        const written = this.#inputPart(part)
        if (written !== undefined) content.push(written)
      }
    }
    flush()
  }

  /** Models that refuse instructions get them as marked text of the user. */
  #marked(content: Json[]): Json[] {
    this.#lose('system', 'approximated', 'the model takes no instructions: they are sent as marked text of the user')
    return [{ type: 'input_text', text: '<system>\n' }, ...content, { type: 'input_text', text: '\n</system>' }]
  }

  #inputPart(part: Part): Json | undefined {
    const written = this.#bare(part)
    return written !== undefined && 'cache' in part
      ? { ...written, ...breakpointOf(part, breakpoints(this.#target)) }
      : written
  }

  #bare(part: Part): Json | undefined {
    switch (part.type) {
      case 'text':
      case 'refusal':
        return { type: 'input_text', text: part.text }
      case 'image':
      case 'file':
      case 'audio':
      case 'video':
        return writeMedia(part, this.#translation)
      default:
        this.#lose('part', 'left out', `${part.type} stands in a turn where the provider does not take it`, part.type)
        return undefined
    }
  }

  #assistant(parts: Part[]): void {
    let content: Json[] = []
    let thoughts: Json[] = []
    // A reasoning item is refused without the item that it led to.
    const push = (item: Json): void => {
      for (const thought of thoughts) this.items.push(thought)
      this.items.push(item)
      thoughts = []
    }
    const flush = (): void => {
      const [only] = content
      // As a plain string an earlier answer needs no id and no status.
      if (only !== undefined)
        push({
          type: 'message',
          role: 'assistant',
          content: content.length === 1 && only.type === 'output_text' ? only.text : content,
        })
      content = []
    }
    for (const part of parts) {
      if (part.type === 'text' || part.type === 'refusal') {
        if (part.type === 'text' && (part.signature?.data ?? '') !== '')
          this.#lose('signature', 'left out', 'another model made it')
        if (part.text !== '')
          content.push(
            part.type === 'text' ? { type: 'output_text', text: part.text } : { type: 'refusal', refusal: part.text },
          )
        continue
      }
      flush()
      if (part.type === 'reasoning') thoughts.push(...this.#thought(part))
      else if (part.type === 'tool-call') {
        push(this.#call(part))
      } else if (part.type === 'native') this.#native(part, push)
      else this.#shown(part)
    }
    flush()
    if (thoughts.length > 0)
      this.#lose('thoughts', 'left out', 'nothing follows it, and the provider refuses reasoning by itself')
  }

  #thought(part: ReasoningPart): Json[] {
    const { signature } = part
    if (signature === undefined || !belongsTo(signature, this.#target, false)) {
      this.#lose('thoughts', 'left out', 'another model made it')
      return []
    }
    return [reasoningItem({ ...part, signature })]
  }

  #call(part: ToolCallPart): Json {
    this.#calls.set(part.id, part)
    if (part.signature !== undefined) this.#lose('signature', 'left out', 'another model made it', part.id)
    const call_id = callId(part.id)
    return part.form === 'custom'
      ? { type: 'custom_tool_call', call_id, name: acceptedName(part.name, OPENAI_NAMES), input: part.arguments }
      : {
          type: 'function_call',
          call_id,
          name: acceptedName(part.name, OPENAI_NAMES),
          arguments: part.arguments.trim() === '' ? '{}' : part.arguments,
        }
  }

  #answer(call: ToolCallPart, output: string | Json[]): void {
    this.#calls.delete(call.id)
    this.items.push({
      type: call.form === 'custom' ? 'custom_tool_call_output' : 'function_call_output',
      call_id: callId(call.id),
      output,
    })
  }

  /** An image that the model made: the provider takes images from a user only. */
  #shown(part: Part): void {
    this.#lose('part', 'approximated', 'shown as a message of the user: the provider takes it from nobody else')
    this.#message('user', [part])
  }

  #result(part: Part): void {
    if (part.type !== 'tool-result') return this.#message('user', [part])
    const call = this.#calls.get(part.callId)
    if (part.isError === true)
      this.#lose(
        'result.isError',
        'approximated',
        'the provider has no mark for a failed tool: its result begins with a word',
        part.callId,
      )
    if (call === undefined) {
      this.#lose(
        'result',
        'approximated',
        'shown as a message of the user: the call it answers is not right before it',
        part.callId,
      )
      const head = {
        type: 'text' as const,
        text: `Result of the tool call ${part.callId}${part.name === undefined ? '' : ` (${part.name})`}:`,
      }
      return this.#message('user', [head, ...(part.isError === true ? [FAILED] : []), ...part.content])
    }
    this.#answer(call, this.#output(part))
  }

  /**
   * One string; pieces where each may bear a cache mark, whether it does or not, so that a mark that moves changes
   * nothing else.
   */
  #output({ content: given, isError, cache }: Pick<ToolResultPart, 'content' | 'isError' | 'cache'>): string | Json[] {
    const content =
      cache === undefined
        ? given
        : given.map((part, index) => (index === given.length - 1 && part.type !== 'native' ? { ...part, cache } : part))
    const [only] = content
    if (only === undefined) return isError === true ? FAILED.text : ''
    if (content.length === 1 && only.type === 'text' && breakpoints(this.#target) === undefined)
      return isError === true ? `${FAILED.text} ${only.text}` : only.text
    if (isError === true) return this.#output({ content: [FAILED, ...content] })
    return content.flatMap((part): Json[] => {
      if (part.type !== 'native') return [this.#inputPart(part)].filter((written) => written !== undefined)
      if (part.protocol === 'responses') return [part.value as Json]
      this.#lose('part', 'left out', `only its own protocol understands ${part.kind}`, part.kind)
      return []
    })
  }

  #native(part: Part & { type: 'native' }, push: (item: Json) => void = (item) => void this.items.push(item)): void {
    if (part.protocol === 'responses') push(part.value as Json)
    else this.#lose('part', 'left out', `only its own protocol understands ${part.kind}`, part.kind)
  }

  #lose(_word: string, what: 'left out' | 'approximated', why: string, _of?: string): void {
    this.#translation.lose(
      what === 'left out' ? 'todo_dropped' : 'todo_approximated',
      this.#translation.setting('conversation'),
      why,
    )
  }
}

/** How prefixes are marked, where this protocol knows how. */
export const breakpoints = ({ capabilities: { cacheBreakpoints } }: Target): 'prompt_cache_breakpoint' | undefined =>
  cacheBreakpoints === 'cache_control' ? undefined : cacheBreakpoints

/** Signed reasoning as an item of the input, without an id: a provider that stored nothing looks it up in vain. */
export function reasoningItem({
  form,
  text,
  signature,
}: Pick<ReasoningPart, 'form' | 'text'> & { signature: Signature }): Json {
  const raw = form === 'raw'
  return {
    type: 'reasoning',
    summary: text === '' || raw ? [] : [{ type: 'summary_text', text }],
    ...(raw && text !== '' ? { content: [{ type: 'reasoning_text', text }] } : {}),
    encrypted_content: signature.data,
  }
}

function writeMedia(part: MediaPart, translation: Translation): Json {
  const { source } = part
  if (source.type === 'text') {
    translation.lose(
      'todo_approximated',
      translation.setting('conversation') /* part */,
      'a plain-text document travels as a text part',
    )
    return { type: 'input_text', text: part.filename === undefined ? source.text : `${part.filename}:\n${source.text}` }
  }
  if (part.type !== 'file' && part.filename !== undefined)
    translation.lose(
      'todo_dropped',
      translation.setting('conversation') /* filename */,
      'the provider has names of files only',
    )
  if (part.type === 'audio' && source.type === 'data')
    return { type: 'input_audio', input_audio: { data: source.data, format: audioFormat(source.mediaType) } }
  if (part.type === 'audio' || part.type === 'video') throw unsupportedMedia(part, translation)
  return part.type === 'image'
    ? { type: 'input_image', ...writeDetail(part.detail, translation), ...imageSource(source) }
    : { type: 'input_file', ...fileSource(part, source) }
}

const DETAILS = new Set(['low', 'high', 'auto', 'original'])

function writeDetail(detail: string | undefined, translation: Translation): Json {
  if (detail === undefined) return {}
  if (DETAILS.has(detail)) return { detail }
  translation.lose(
    'todo_approximated',
    translation.setting('conversation') /* detail */,
    `the provider knows no detail '${detail}'`,
  )
  return { detail: detail === 'medium' ? 'auto' : 'high' }
}

type Source = Exclude<MediaPart['source'], { type: 'text' }>

const imageSource = (source: Source): Json =>
  source.type === 'file' ? { file_id: source.id } : { image_url: source.type === 'url' ? source.url : dataUrl(source) }

function fileSource(part: MediaPart, source: Source): Json {
  if (source.type === 'file') return { file_id: source.id }
  if (source.type === 'url') return { file_url: source.url }
  // The provider refuses file data without a name, and reads the kind of file off it.
  const filename =
    part.filename ?? `file.${source.mediaType === 'text/plain' ? 'txt' : source.mediaType.split(/[/.+]/).at(-1)}`
  return { filename, file_data: dataUrl(source) }
}
