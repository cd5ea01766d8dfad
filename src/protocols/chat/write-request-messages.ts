import type {
  Located,
  MediaPart,
  Part,
  TextPart,
  ToolCallPart,
  ToolResultPart,
  Turn,
} from '../../generation/request.ts'
import { rememberWritten, writeTurns } from '../pieces.ts'
import type { ToolNames } from '../tool-names.ts'
import { orderToolResults } from '../tool-results.ts'
import type { Translation } from '../translation.ts'
import { acceptedId } from './call-ids.ts'
import type { Json } from './shapes.ts'
import { AssistantWriter } from './write-request-assistant.ts'
import { ContentWriter } from './write-request-parts.ts'

/** The response that is added where the provider requires one between a tool result and the user. */
const BRIDGE = 'I have read the results.'

/** A message and the element of the client's request that it was written for. */
type Message = { json: Json; element: Located }

/** Turns as the provider's `messages`. Lives as long as one request is written. */
export class MessagesWriter {
  readonly #translation: Translation
  readonly #content: ContentWriter
  readonly #assistant: AssistantWriter
  readonly #names: ToolNames
  readonly #messages: Message[] = []

  constructor(translation: Translation, names: ToolNames) {
    this.#translation = translation
    this.#names = names
    this.#content = new ContentWriter(translation)
    this.#assistant = new AssistantWriter(translation, this.#content, names)
  }

  write(system: Part[]): Json[] {
    const lead = this.#content.texts(system, '\n\n')
    if (lead.length > 0) this.#writeInstructions(lead, system)
    const { length } = this.#messages
    const hasTools = this.#translation.request.tools.length > 0
    writeTurns(this.#translation, this.#messages, (turns) => this.#writeTurns(turns), hasTools)
    const messages = this.#isStrict ? this.#inStrictOrder() : this.#messages
    this.#reportPrefill(messages.at(-1))
    const written = messages.map(({ json }) => json)
    return rememberWritten(this.#translation, written, length)
  }

  #writeTurns(turns: readonly Turn[]): void {
    let calls: ToolCallPart[] = []
    for (const turn of orderToolResults(turns, this.#translation)) {
      if (turn.role === 'tool') {
        this.#writeResults(turn, calls)
        calls = []
        continue
      }
      this.#addMissingResults(calls)
      calls = this.#writeTurn(turn)
    }
    this.#addMissingResults(calls)
  }

  get #isStrict(): boolean {
    return this.#translation.target.quirks.strictRoles === true
  }

  /** Models that refuse instructions, at all or in this position, get them as tagged text of the user. */
  #writeInstructions(content: string | Json[], elements: Located[], name?: string): void {
    const { quirks, capabilities } = this.#translation.target
    const follows = this.#messages.at(-1)?.json.role
    const misplaced = this.#isStrict && (follows === 'assistant' || follows === 'tool')
    const [first = {}] = elements
    if (capabilities.system !== false && !misplaced) {
      this.#push({ role: quirks.systemRole ?? 'system', content }, first, name)
      return
    }
    for (const element of elements)
      this.#translation.lose(
        'instructions_moved',
        this.#translation.at(element),
        misplaced
          ? 'the provider refuses instructions after a response or a result: sent as text of the user'
          : undefined,
      )
    const tagged =
      typeof content === 'string'
        ? `<system>\n${content}\n</system>`
        : [{ type: 'text', text: '<system>\n' }, ...content, { type: 'text', text: '\n</system>' }]
    this.#push({ role: 'user', content: tagged }, first, name)
  }

  /** The messages in an order that a provider with strict roles accepts. */
  #inStrictOrder(): Message[] {
    const ordered = this.#messages.flatMap((message, index): Message[] => {
      const follows = this.#messages[index - 1]?.json.role
      if (message.json.role !== 'user' || follows !== 'tool') return [message]
      this.#translation.lose(
        'turn_added',
        this.#translation.at(message.element),
        `the provider requires a response between a tool result and the user: '${BRIDGE}' is added`,
      )
      return [{ json: { role: 'assistant', content: BRIDGE }, element: message.element }, message]
    })
    const last = ordered.at(-1)
    return last?.json.role === 'assistant'
      ? [...ordered.slice(0, -1), { ...last, json: { ...last.json, prefix: true } }]
      : ordered
  }

  /** Reports a response that was begun, as the last message. */
  #reportPrefill(last: Message | undefined): void {
    if (last?.json.role !== 'assistant') return
    this.#translation.lose(
      'prefill_unsupported',
      this.#translation.at(last.element),
      last.json.prefix === true
        ? 'the provider repeats the text that the response begins with'
        : 'sent as an earlier response: many providers begin a new one',
    )
  }

  /** Returns the calls that wait for results. */
  #writeTurn(turn: Turn): ToolCallPart[] {
    if (turn.role === 'assistant') {
      const message = this.#assistant.write(turn)
      if (message === undefined) return []
      this.#push(message, turn, turn.name)
      return turn.parts.filter((part) => part.type === 'tool-call')
    }
    if (turn.role === 'user') {
      const content = this.#content.ofUser(turn.parts)
      const isLost = turn.parts.length > 0 && turn.parts.every(({ type }) => type === 'native')
      if (!isLost) this.#push({ role: 'user', content }, turn, turn.name)
    } else {
      const content = this.#content.texts(turn.parts, '\n\n')
      if (content.length > 0) this.#writeInstructions(content, [turn], turn.name)
    }
    return []
  }

  #push(json: Json, element: Located, name?: string): void {
    const refused = this.#translation.target.quirks.refuses?.includes('messages[].name') === true
    if (name !== undefined && refused)
      this.#translation.lose('unsupported_by_provider', this.#translation.at(element, 'name'))
    const named = name !== undefined && !refused && /^[\w-]{1,64}$/.test(name)
    this.#messages.push({ json: named ? { ...json, name } : json, element })
  }

  #writeResults(turn: Turn, calls: ToolCallPart[]): void {
    const unanswered = new Map(calls.map((call) => [call.id, call]))
    const misplaced: ToolResultPart[] = []
    const media: Json[] = []
    for (const result of turn.parts) {
      if (result.type !== 'tool-result') continue
      if (unanswered.delete(result.callId)) this.#push(this.#resultMessage(result, media), result)
      else misplaced.push(result)
    }
    this.#addMissingResults([...unanswered.values()])
    if (media.length > 0) this.#push({ role: 'user', content: media }, turn)
    for (const result of misplaced) this.#writeMisplaced(result)
  }

  #resultMessage(result: ToolResultPart, media: Json[]): Json {
    const id = acceptedId(result.callId, this.#translation.target.quirks)
    return { role: 'tool', tool_call_id: id, content: this.#resultContent(result, media) }
  }

  /**
   * The text of a result, since tool messages have only text here. Its media are added to `media`, for a user message
   * that follows and names the call.
   */
  #resultContent(result: ToolResultPart, media: Json[]): string | Json[] {
    const texts = this.#withErrorText(
      result,
      result.content.filter(
        (part): part is Exclude<typeof part, MediaPart> => part.type === 'text' || part.type === 'native',
      ),
    )
    const moved = result.content.filter((part): part is MediaPart => part.type !== 'text' && part.type !== 'native')
    if (moved.length > 0) {
      const id = acceptedId(result.callId, this.#translation.target.quirks)
      const name = result.name === undefined ? '' : ` (${this.#names.sent(result.name)})`
      media.push({ type: 'text', text: `Content returned by the tool call ${id}${name}:` })
      for (const part of moved) {
        this.#translation.lose('media_moved', this.#translation.at(part))
        if (part.label !== undefined) media.push({ type: 'text', text: `${part.label}:` })
        media.push(this.#content.media(part))
      }
      texts.push({ type: 'text', text: '[The content follows in the next user message.]' })
    }
    const written = this.#content.texts(texts, '\n')
    if (typeof written !== 'string') Object.assign(written.at(-1)!, this.#content.breakpoint(result))
    return written
  }

  /** The provider has no error flag, so a failed result begins with the word `Error`. */
  #withErrorText(result: ToolResultPart, parts: Part[]): Part[] {
    if (result.isError !== true) return parts
    this.#translation.lose(
      'content_as_text',
      this.#translation.at(result, 'isError'),
      "the provider has no error flag: the result begins with 'Error:'",
    )
    const first = parts.findIndex((part) => part.type === 'text')
    if (first < 0) return [{ type: 'text', text: 'Error: ' }, ...parts]
    const text = parts[first] as TextPart
    return parts.with(first, { ...text, text: `Error: ${text.text}` })
  }

  #addMissingResults(calls: ToolCallPart[]): void {
    for (const call of calls) {
      this.#translation.lose('result_added', this.#translation.at(call))
      const id = acceptedId(call.id, this.#translation.target.quirks)
      this.#push({ role: 'tool', tool_call_id: id, content: 'Error: no result of this call was given.' }, call)
    }
  }

  /** Providers refuse a result that does not follow its call: it becomes text of the user. */
  #writeMisplaced(result: ToolResultPart): void {
    this.#translation.lose(
      'content_as_text',
      this.#translation.at(result),
      'it does not follow its call: sent as text of the user',
    )
    const media: Json[] = []
    const head = `Result of the tool call ${result.callId}${result.name === undefined ? '' : ` (${result.name})`}:\n`
    const content = this.#resultContent(result, media)
    const parts =
      typeof content === 'string'
        ? [{ type: 'text', text: head + content }]
        : [{ type: 'text', text: head }, ...content]
    this.#push(
      {
        role: 'user',
        content: typeof content === 'string' && media.length === 0 ? head + content : [...parts, ...media],
      },
      result,
    )
  }
}
