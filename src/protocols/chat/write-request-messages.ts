import type {
  GenerationRequest,
  MediaPart,
  Part,
  ReasoningPart,
  TextPart,
  ToolCallPart,
  ToolResultPart,
  Turn,
} from '../../generation/request.ts'
import type { Translation } from '../translation.ts'
import type { SettingName } from '../request-paths.ts'
import { belongsTo } from '../../generation/signature.ts'
import { present } from '../fields.ts'
import { audioFormat, dataUrl, isTextual, textOf, unsupportedMedia } from '../media.ts'
import { breakpointOf } from '../cache-breakpoints.ts'
import type { Refusable, Target } from '../protocol.ts'
import { resultsBehindCalls } from '../tool-results.ts'
import { acceptedName, OPENAI_NAMES } from '../tool-names.ts'
import { acceptedId } from './call-ids.ts'
import { entryOf } from './reasoning-details.ts'
import type { Json } from './shapes.ts'

/** What the assistant says between a result and the user where somebody has to. */
const BRIDGE = 'I have read the results.'

export const REFUSED = 'the provider refuses this field'

/** Our turns as the provider's `messages`. Lives as long as one request is written. */
export class MessagesWriter {
  readonly #target: Target
  readonly #translation: Translation
  readonly #messages: Json[] = []
  /** What stands in an assistant's message without reasoning. */
  readonly #owed: Json

  constructor(request: GenerationRequest, target: Target, translation: Translation) {
    this.#target = target
    this.#translation = translation
    this.#owed = owesReasoning(target, request.tools) ? { reasoning_content: '' } : {}
  }

  write(system: Part[], turns: Turn[]): Json[] {
    const lead = this.#texts(system, 'system', '\n\n')
    if (lead.length > 0) this.#instruct(lead)
    let asked: ToolCallPart[] = []
    for (const turn of resultsBehindCalls(turns)) {
      if (turn.role === 'tool') {
        this.#writeResults(turn, asked)
        asked = []
        continue
      }
      this.#answerMissing(asked)
      asked = this.#writeTurn(turn)
    }
    this.#answerMissing(asked)
    return this.#target.quirks.strictRoles === true ? this.#ordered() : this.#messages
  }

  /** Models that refuse instructions, or refuse them here, get them as marked text of the user. */
  #instruct(content: string | Json[], name?: string): void {
    const { quirks, capabilities } = this.#target
    const misplaced =
      quirks.strictRoles === true && ['assistant', 'tool'].includes(this.#messages.at(-1)?.role as string)
    if (capabilities.system !== false && !misplaced)
      return this.#push({ role: quirks.systemRole ?? 'system', content }, name)
    if (misplaced)
      this.#lose(
        'instruction',
        'approximated',
        'the provider takes no instructions after an answer or a result: they are sent as marked text of the user',
      )
    else
      this.#lose('system', 'approximated', 'the model takes no instructions: they are sent as marked text of the user')
    const marked =
      typeof content === 'string'
        ? `<system>\n${content}\n</system>`
        : [{ type: 'text', text: '<system>\n' }, ...content, { type: 'text', text: '\n</system>' }]
    this.#push({ role: 'user', content: marked }, name)
  }

  /** The messages in an order that is not refused. */
  #ordered(): Json[] {
    const ordered = this.#messages.flatMap((message, place) =>
      message.role === 'user' && this.#messages[place - 1]?.role === 'tool'
        ? [{ role: 'assistant', content: BRIDGE }, message]
        : [message],
    )
    if (ordered.length > this.#messages.length)
      this.#lose(
        'conversation',
        'approximated',
        `the provider takes no words of the user right after a result: the assistant says '${BRIDGE}' between`,
      )
    const last = ordered.at(-1)
    return last?.role === 'assistant' ? [...ordered.slice(0, -1), { ...last, prefix: true }] : ordered
  }

  /** Gives the calls that now wait for results. */
  #writeTurn(turn: Turn): ToolCallPart[] {
    if (turn.role === 'user') this.#push({ role: 'user', content: this.#userContent(turn.parts) }, turn.name)
    else if (turn.role === 'assistant') return this.#writeAssistant(turn)
    else {
      const content = this.#texts(turn.parts, turn.role, '\n\n')
      if (content.length > 0) this.#instruct(content, turn.name)
    }
    return []
  }

  #push(message: Json, name: string | undefined): void {
    const refused = name !== undefined && this.#refuses('messages[].name')
    if (refused) this.#lose('name', 'left out', REFUSED)
    this.#messages.push(!refused && name !== undefined && /^[\w-]{1,64}$/.test(name) ? { ...message, name } : message)
  }

  #refuses(field: Refusable): boolean {
    return this.#target.quirks.refuses?.includes(field) === true
  }

  /**
   * Text only; what is no text is lost and said so. One string, since few servers take arrays outside user messages;
   * pieces where each may bear a
   * cache mark, whether it does or not, so that a mark that moves changes nothing else.
   */
  #texts(parts: Part[], where: string, separator: string): string | Json[] {
    const texts = parts.flatMap((part) => {
      if (part.type === 'text') return part.text === '' ? [] : [part]
      this.#lose(
        'part',
        'left out',
        `chat completions takes only text in ${where} messages, not ${nameOf(part)}`,
        nameOf(part),
      )
      return []
    })
    return this.#inPieces
      ? texts.map((part) => ({ type: 'text', text: part.text, ...this.#mark(part) }))
      : texts.map(({ text }) => text).join(separator)
  }

  get #inPieces(): boolean {
    return this.#target.capabilities.cacheBreakpoints !== undefined
  }

  #mark(part: Part | MediaPart): Json {
    return 'cache' in part ? breakpointOf(part, this.#target.capabilities.cacheBreakpoints) : {}
  }

  #userContent(parts: Part[]): string | Json[] {
    const written = parts.flatMap((part) => this.#userPart(part))
    const [only] = written
    if (only === undefined) return ''
    return written.length === 1 && only.type === 'text' && !this.#inPieces ? (only.text as string) : written
  }

  #userPart(part: Part): Json[] {
    switch (part.type) {
      case 'text':
        return part.text === '' ? [] : [{ type: 'text', text: part.text, ...this.#mark(part) }]
      case 'image':
      case 'audio':
      case 'video':
      case 'file':
        return [{ ...this.#media(part), ...this.#mark(part) }]
      default:
        this.#lose('part', 'left out', `chat completions has no ${nameOf(part)} in user messages`, nameOf(part))
        return []
    }
  }

  #media(part: MediaPart): Json {
    const { source } = part
    const text =
      source.type === 'text'
        ? source.text
        : part.type === 'file' && source.type === 'data' && isTextual(source.mediaType)
          ? textOf(source)
          : undefined
    if (source.type === 'text' || text !== undefined) {
      this.#lose('part', 'approximated', 'a plain-text document travels as a text part')
      return { type: 'text', text: part.filename === undefined ? text : `${part.filename}:\n${text}` }
    }
    if (part.type !== 'file' && part.filename !== undefined)
      this.#lose('filename', 'left out', 'the provider has names of files only')
    if (part.type === 'image' && source.type !== 'file')
      return {
        type: 'image_url',
        image_url: { url: source.type === 'url' ? source.url : dataUrl(source), ...this.#detail(part.detail) },
      }
    if (this.#target.quirks.mediaParts === 'strings') {
      if (part.type === 'audio' && source.type === 'data') return { type: 'input_audio', input_audio: source.data }
      if (part.type === 'file' && source.type !== 'file')
        return {
          type: 'document_url',
          document_url: source.type === 'url' ? source.url : dataUrl(source),
          ...present('document_name', part.filename),
        }
    }
    if (part.type === 'audio' && source.type === 'data')
      return { type: 'input_audio', input_audio: { data: source.data, format: audioFormat(source.mediaType) } }
    if (part.type === 'file' && source.type === 'data')
      return {
        type: 'file',
        file: { filename: part.filename ?? `file.${source.mediaType.split('/').at(-1)}`, file_data: dataUrl(source) },
      }
    // Only where the provider fetches addresses of files itself does one come this far.
    if (part.type === 'file' && source.type === 'url')
      return { type: 'file', file: { filename: part.filename ?? 'file', file_data: source.url } }
    throw unsupportedMedia(
      part,
      this.#translation,
      `${part.type} input given as ${source.type === 'data' ? 'data' : source.type === 'url' ? 'a URL' : 'a file id'}`,
    )
  }

  #detail(detail: string | undefined): { detail?: string } {
    if (detail === undefined || detail === 'low' || detail === 'high' || detail === 'auto')
      return detail === undefined ? {} : { detail }
    this.#lose('detail', 'approximated', `'${detail}' is 'auto' here`)
    return { detail: 'auto' }
  }

  /** Gives the calls that wait for results. */
  #writeAssistant(turn: Turn): ToolCallPart[] {
    const inText = this.#refuses('messages[].refusal')
    const spoken = turn.parts.flatMap((part): Part[] =>
      part.type === 'text' ? [part] : part.type === 'refusal' && inText ? [{ type: 'text', text: part.text }] : [],
    )
    const text = this.#texts(spoken, 'assistant', '')
    const refusal = inText
      ? ''
      : turn.parts
          .filter((part) => part.type === 'refusal')
          .map((part) => part.text)
          .join('')
    const calls = turn.parts.filter((part) => part.type === 'tool-call')
    for (const part of turn.parts) {
      if (
        part.type === 'native' ||
        part.type === 'image' ||
        part.type === 'audio' ||
        part.type === 'video' ||
        part.type === 'file'
      )
        this.#lose(
          'part',
          'left out',
          `chat completions takes only text and calls in assistant messages, not ${nameOf(part)}`,
          nameOf(part),
        )
    }
    if (turn.parts.some((part) => part.type === 'text' && (part.signature?.data ?? '') !== ''))
      this.#lose('signature', 'left out', 'another model made it')
    if (text.length === 0 && refusal === '' && calls.length === 0) {
      if (turn.parts.some((part) => part.type === 'reasoning')) this.#lose('thoughts', 'left out', 'nothing follows it')
      return []
    }
    this.#push(
      {
        role: 'assistant',
        content: text.length > 0 ? text : calls.length === 0 ? '' : null,
        ...(refusal === '' ? {} : { refusal }),
        ...this.#reasoning(turn.parts),
        ...(calls.length > 0 ? { tool_calls: calls.map((call) => this.#call(call)) } : {}),
      },
      turn.name,
    )
    return calls
  }

  #call(call: ToolCallPart): Json {
    const id = this.#id(call.id)
    const name = acceptedName(call.name, OPENAI_NAMES)
    // Also where the tool is no longer sent: what may be called now changes no earlier turn.
    if (call.form === 'custom' && this.#target.quirks.customTools === true)
      return { id, type: 'custom', custom: { name, input: call.arguments } }
    const text =
      call.form === 'custom'
        ? JSON.stringify({ input: call.arguments })
        : call.arguments.trim() === ''
          ? '{}'
          : call.arguments
    return { id, type: 'function', function: { name, arguments: text }, ...this.#callSignature(call) }
  }

  /** A signature goes back where its maker's server put it. */
  #callSignature(call: ToolCallPart): Json {
    if (call.signature === undefined) return {}
    if (!this.#isOurs(call.signature)) {
      if (call.signature.data !== '') this.#lose('signature', 'left out', 'another model made it', call.id)
      return {}
    }
    return { extra_content: callSignature(call.signature.data) }
  }

  #isOurs(signature: NonNullable<ReasoningPart['signature']>): boolean {
    return belongsTo(signature, this.#target, false)
  }

  #id(id: string): string {
    const fitting = acceptedId(id, this.#target.quirks)
    if (fitting !== id)
      this.#lose(
        'call.id',
        'approximated',
        this.#target.quirks.callIds === 'alphanumeric-9'
          ? 'ids have nine letters and digits at this provider'
          : 'ids longer than 64 characters are shortened',
        id,
      )
    return fitting
  }

  /** Earlier thoughts, in the field this provider reads. What another model signed is not shown to this one. */
  #reasoning(parts: Part[]): Json {
    const thoughts = parts.filter((part) => part.type === 'reasoning')
    const field = this.#target.quirks.reasoningField ?? 'reasoning_content'
    const kept =
      field === 'none'
        ? []
        : thoughts.filter((part) => (part.signature === undefined ? part.text !== '' : this.#isOurs(part.signature)))
    if (kept.length < thoughts.length)
      this.#lose(
        'thoughts',
        'left out',
        field === 'none' ? 'this provider takes no earlier reasoning' : 'it is signed for another model',
      )
    if (kept.length === 0) return this.#owed
    // Only a provider that reads `reasoning_details` signs: its signature has no other place.
    if (field === 'reasoning_details' || kept.some((part) => part.signature !== undefined))
      return { reasoning_details: entriesOf(kept) }
    const text = kept.map((part) => part.text).join('')
    return text === '' ? this.#owed : { [field]: text }
  }

  #writeResults(turn: Turn, asked: ToolCallPart[]): void {
    const results = turn.parts.filter((part) => part.type === 'tool-result')
    const open = new Map(asked.map((call) => [call.id, call]))
    const orphans: ToolResultPart[] = []
    const lifted: Json[] = []
    for (const result of results) {
      if (!open.delete(result.callId)) orphans.push(result)
      else
        this.#messages.push({
          role: 'tool',
          tool_call_id: this.#id(result.callId),
          content: this.#resultText(result, lifted),
        })
    }
    this.#answerMissing([...open.values()])
    if (lifted.length > 0) this.#messages.push({ role: 'user', content: lifted })
    for (const result of orphans) this.#writeOrphan(result)
  }

  /** Tool messages hold only text here: media follow in a user message that says whose they are. */
  #resultText(result: ToolResultPart, lifted: Json[]): string | Json[] {
    const media = result.content.filter((part): part is MediaPart => part.type !== 'text' && part.type !== 'native')
    const texts: Part[] = result.content.filter((part) => part.type === 'text' || part.type === 'native')
    if (result.isError === true) {
      this.#lose(
        'result.isError',
        'approximated',
        'the provider has no mark for a failed tool: its result begins with a word',
        result.callId,
      )
      const first = texts.findIndex((part) => part.type === 'text')
      const part = first < 0 ? { type: 'text' as const, text: '' } : (texts[first] as TextPart)
      texts.splice(Math.max(first, 0), first < 0 ? 0 : 1, { ...part, text: `Error: ${part.text}` })
    }
    if (media.length > 0) {
      this.#lose('result.content', 'approximated', 'media follow the tool message in a user message', result.callId)
      lifted.push({
        type: 'text',
        text: `Content returned by the tool call ${this.#id(result.callId)}${result.name === undefined ? '' : ` (${acceptedName(result.name, OPENAI_NAMES)})`}:`,
      })
      for (const part of media) lifted.push({ ...this.#media(part), ...this.#mark(part) })
      texts.push({ type: 'text', text: '[The content follows in the next user message.]' })
    }
    const written = this.#texts(texts, 'tool', '\n')
    if (typeof written !== 'string' && written.length > 0) Object.assign(written.at(-1)!, this.#mark(result))
    return written
  }

  #answerMissing(calls: ToolCallPart[]): void {
    for (const call of calls) {
      this.#lose(
        'call',
        'approximated',
        'a call without a result is answered with an error, because the protocol demands an answer',
        call.id,
      )
      this.#messages.push({
        role: 'tool',
        tool_call_id: this.#id(call.id),
        content: 'Error: no result of this call was given.',
      })
    }
  }

  /** A result that answers no call right before it would be refused. */
  #writeOrphan(result: ToolResultPart): void {
    this.#lose(
      'result',
      'approximated',
      'a result whose call is not right before it travels as user text',
      result.callId,
    )
    const lifted: Json[] = []
    const head = `Result of the tool call ${result.callId}${result.name === undefined ? '' : ` (${result.name})`}:\n`
    const said = this.#resultText(result, lifted)
    const pieces =
      typeof said === 'string' ? [{ type: 'text', text: head + said }] : [{ type: 'text', text: head }, ...said]
    this.#messages.push({
      role: 'user',
      content: typeof said === 'string' && lifted.length === 0 ? head + said : [...pieces, ...lifted],
    })
  }

  #lose(_word: string, what: 'left out' | 'approximated', why: string, _of?: string): void {
    this.#translation.lose(
      what === 'left out' ? 'todo_dropped' : 'todo_approximated',
      this.#translation.setting('conversation'),
      why,
    )
  }
}

/** What a part is, for those who hear that it is lost. */
const nameOf = (part: Part): string => (part.type === 'native' ? part.kind : part.type)

/**
 * Whether the provider wants its field in every message of a tool loop, also where nothing was thought (DeepSeek
 * refuses the request without it, and takes an empty one).
 */
export const owesReasoning = ({ quirks }: Target, tools: unknown): boolean =>
  quirks.reasoningField === 'reasoning_content' && Array.isArray(tools) && tools.length > 0

/** The member of a call in which Google's compatible endpoint keeps its signature. */
export const callSignature = (signature: string): Json => ({ google: { thought_signature: signature } })

/** Reasoning as `reasoning_details`. What is not signed has the format of what is: they came in one answer. */
export function entriesOf(parts: readonly ReasoningPart[]): Json[] {
  const entries = parts.map(({ signature }) => (signature === undefined ? undefined : entryOf(signature.data)))
  const format = entries.find((entry) => entry?.format !== undefined)?.format
  return parts.flatMap((part, index): Json[] => {
    const entry = entries[index]
    const id = entry?.id ?? part.id
    const rest = {
      ...(format === undefined ? {} : { format: entry?.format ?? format }),
      index,
      ...(id === undefined ? {} : { id }),
    }
    if (part.redacted !== true && part.form !== 'summary')
      return [
        { type: 'reasoning.text', text: part.text, ...(entry === undefined ? {} : { signature: entry.data }), ...rest },
      ]
    return [
      ...(part.text === '' ? [] : [{ type: 'reasoning.summary', summary: part.text, ...rest }]),
      ...(entry === undefined ? [] : [{ type: 'reasoning.encrypted', data: entry.data, ...rest }]),
    ]
  })
}
