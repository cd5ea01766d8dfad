import type {
  GenerationRequest,
  MediaPart,
  Part,
  ReasoningPart,
  ToolCallPart,
  ToolResultPart,
  Turn,
} from '../../generation/request.ts'
import type { Translation } from '../translation.ts'
import type { SettingName } from '../request-paths.ts'
import { belongsTo, type Signature } from '../../generation/signature.ts'
import { unsupportedMedia } from '../media.ts'
import type { Target } from '../protocol.ts'
import { resultsBehindCalls } from '../tool-results.ts'
import { readObject, writeArguments } from './arguments.ts'
import { sentName } from './tool-names.ts'
import { UNSIGNED, UNSIGNED_WHY, type WireContent, type WirePart } from './shapes.ts'

const RESOLUTIONS: ReadonlySet<string> = new Set(['low', 'medium', 'high', 'ultra_high'])

/** Turns -> `contents` and `systemInstruction`. Lives as long as one request. */
export class ContentWriter {
  readonly #target: Target
  readonly #translation: Translation
  readonly #contents: WireContent[] = []
  /** Calls of the last answer: Google wants their results right after them, all of them, in the calls' order. */
  #asked: ToolCallPart[] = []

  constructor(target: Target, translation: Translation) {
    this.#target = target
    this.#translation = translation
  }

  write({ system, turns }: GenerationRequest): { system: WirePart[]; contents: WireContent[] } {
    const instruction = this.#instruct(this.#writeSystem(system))
    for (const turn of resultsBehindCalls(turns)) this.#writeTurn(turn)
    if (this.#contents.length > 0) return { system: instruction, contents: this.#contents }
    if (instruction.length > 0)
      this.#lose('system', 'approximated', 'the provider needs a user turn: the instructions are sent as one')
    return { system: [], contents: [{ role: 'user', parts: instruction.length === 0 ? [{ text: '' }] : instruction }] }
  }

  #writeSystem(system: Part[]): WirePart[] {
    return system.flatMap((part): WirePart[] => {
      if (part.type === 'text' || part.type === 'refusal') return part.text === '' ? [] : [{ text: part.text }]
      this.#lose('system', 'left out', `the provider takes text instructions only, not ${part.type}`)
      return []
    })
  }

  /** Models that refuse instructions get them as marked text of the user. */
  #instruct(instruction: WirePart[]): WirePart[] {
    if (this.#target.capabilities.system !== false || instruction.length === 0) return instruction
    this.#lose('system', 'approximated', 'the model takes no instructions: they are sent as marked text of the user')
    this.#add('user', [{ text: '<system>\n' }, ...instruction, { text: '\n</system>' }])
    return []
  }

  #writeTurn(turn: Turn): void {
    if (turn.name !== undefined) this.#lose('name', 'left out', 'the provider has no names of speakers')
    if (turn.role !== 'assistant') this.#answer(turn.parts.filter((part) => part.type === 'tool-result'))
    switch (turn.role) {
      case 'user':
        return this.#add(
          'user',
          turn.parts.flatMap((part) => this.#writePart(part)),
        )
      case 'assistant':
        return this.#writeAssistant(turn)
      case 'tool':
        return
      case 'system':
      case 'developer': {
        this.#lose(
          'instruction',
          'approximated',
          `the provider takes instructions only before the conversation: a later ${turn.role} message is sent as marked user text`,
          turn.role,
        )
        const parts = turn.parts.flatMap((part) => this.#writePart(part))
        return this.#add(
          'user',
          parts.length === 0 ? [] : [{ text: `<${turn.role}>\n` }, ...parts, { text: `\n</${turn.role}>` }],
        )
      }
    }
  }

  #writeAssistant(turn: Turn): void {
    const calls = turn.parts.filter((part): part is ToolCallPart => part.type === 'tool-call')
    const signed = calls.some((call) => this.#own(call.signature, call.id) !== undefined)
    const mine = turn.parts.some(
      (part) => 'signature' in part && part.signature !== undefined && belongsTo(part.signature, this.#target, false),
    )
    let first = true
    const parts = turn.parts.flatMap((part): WirePart[] => {
      // Its own thoughts bear no signature: what follows them does.
      if (part.type === 'reasoning' && part.signature === undefined && mine) return [{ text: part.text, thought: true }]
      if (part.type !== 'tool-call') return this.#writePart(part)
      const own = this.#own(part.signature, part.id)
      // Models that take levels refuse a first call without a signature, and accept this word for calls that others
      // made.
      const signature =
        own ?? (first && !signed && this.#target.capabilities.reasoning === 'level' ? UNSIGNED : undefined)
      if (signature === UNSIGNED) this.#lose('signature', 'approximated', UNSIGNED_WHY, part.id)
      first = false
      const args = writeArguments(part.arguments, part.form)
      if (args === undefined) this.#lose('call.arguments', 'left out', 'they are not a JSON object', part.id)
      return [
        {
          functionCall: { id: part.id, name: sentName(part.name), args: args ?? {} },
          ...(signature === undefined ? {} : { thoughtSignature: signature }),
        },
      ]
    })
    this.#add('model', parts)
    for (const call of calls) this.#asked.push(call)
  }

  #answer(results: ToolResultPart[]): void {
    const waiting = Map.groupBy(results, ({ callId }) => callId)
    const after: WirePart[] = []
    const parts = this.#asked.splice(0).map((call) => {
      const result = waiting.get(call.id)?.shift()
      if (result !== undefined) return this.#writeResult(result, call, after)
      this.#lose(
        'call',
        'approximated',
        `the call '${call.name}' has no result, which the provider requires: an error result is sent`,
        call.id,
      )
      return {
        functionResponse: {
          id: call.id,
          name: sentName(call.name),
          response: { error: 'No result was given for this call.' },
        },
      }
    })
    this.#add('user', [...parts, ...after])
    for (const orphan of [...waiting.values()].flat()) this.#writeOrphan(orphan)
  }

  /** `after` takes media that must stand beside the response. */
  #writeResult(result: ToolResultPart, call: ToolCallPart, after: WirePart[]): WirePart {
    const texts: string[] = []
    const media: WirePart[] = []
    for (const part of result.content) {
      if (part.type === 'text') texts.push(part.text)
      else media.push(...this.#writePart(part))
    }
    const inside = this.#target.capabilities.reasoning === 'level'
    if (!inside && media.length > 0) {
      this.#lose(
        'result.content',
        'approximated',
        'the model takes text results only: the media follow the result',
        result.callId,
      )
      for (const medium of media) after.push(medium)
    }
    const text = texts.join('\n')
    const response =
      result.isError === true
        ? { error: text }
        : texts.length === 1
          ? (readObject(text) ?? { output: text })
          : { output: text }
    return {
      functionResponse: {
        id: call.id,
        name: sentName(result.name ?? call.name),
        response,
        ...(inside && media.length > 0 ? { parts: media } : {}),
      },
    }
  }

  /** A result whose call is not in the conversation: Google refuses it, so it goes as text. */
  #writeOrphan({ name, callId, content }: ToolResultPart): void {
    this.#lose('result', 'approximated', 'a tool result without its call is sent as text', callId)
    this.#add('user', [{ text: `Result of ${name ?? callId}:` }, ...content.flatMap((one) => this.#writePart(one))])
  }

  #writePart(part: Part): WirePart[] {
    switch (part.type) {
      case 'text': {
        const signature = this.#own(part.signature)
        return part.text === '' && signature === undefined
          ? []
          : [{ text: part.text, ...(signature === undefined ? {} : { thoughtSignature: signature }) }]
      }
      case 'refusal':
        this.#lose('refusal', 'approximated', 'an earlier refusal is sent as text')
        return part.text === '' ? [] : [{ text: part.text }]
      case 'reasoning':
        return this.#writeReasoning(part)
      case 'image':
      case 'audio':
      case 'video':
      case 'file':
        return [this.#writeMedia(part)]
      case 'native':
        if (part.protocol === 'generateContent') return [part.value as WirePart]
        this.#lose('part', 'left out', `only its own protocol knows ${part.kind}`, part.kind)
        return []
      // Calls and results have their own places.
      case 'tool-call':
      case 'tool-result':
        return []
    }
  }

  #writeReasoning(part: ReasoningPart): WirePart[] {
    const { signature } = part
    if (signature !== undefined && belongsTo(signature, this.#target, false))
      return [{ text: part.text, thought: true, thoughtSignature: signature.data }]
    this.#lose('thoughts', 'left out', 'earlier reasoning can only be sent back to the model that made it')
    return []
  }

  #writeMedia(part: MediaPart): WirePart {
    const signature = this.#own(part.signature)
    const extra = { ...this.#resolution(part), ...(signature === undefined ? {} : { thoughtSignature: signature }) }
    if (part.filename !== undefined) this.#lose('filename', 'left out', 'the provider has no names of files')
    const { source } = part
    switch (source.type) {
      case 'data':
        return { inlineData: { mimeType: source.mediaType, data: source.data }, ...extra }
      case 'text':
        return { inlineData: { mimeType: 'text/plain', data: Buffer.from(source.text).toString('base64') }, ...extra }
      case 'url': {
        const mimeType = source.mediaType ?? typeByName(source.url)
        return { fileData: { ...(mimeType === undefined ? {} : { mimeType }), fileUri: source.url }, ...extra }
      }
      case 'file':
        throw unsupportedMedia(part, this.#translation, 'a file that is stored elsewhere')
    }
  }

  #resolution({ detail }: MediaPart): WirePart {
    if (detail === undefined || detail === 'auto') return {}
    if (RESOLUTIONS.has(detail) && this.#target.capabilities.reasoning === 'level') {
      this.#lose('detail', 'approximated', 'the provider counts resolutions in its own steps')
      return { mediaResolution: { level: `MEDIA_RESOLUTION_${detail.toUpperCase()}` } }
    }
    this.#lose('detail', 'left out', 'the model takes no resolution for a single part')
    return {}
  }

  /**
   * The signature where this model made it. Another's is told as lost, but for an empty one, which only marks a call as
   * another's.
   */
  #own(signature: Signature | undefined, of?: string): string | undefined {
    if (signature === undefined) return undefined
    if (belongsTo(signature, this.#target, false)) return signature.data
    if (signature.data !== '') this.#lose('signature', 'left out', 'another model made it', of)
    return undefined
  }

  #add(role: WireContent['role'], parts: WirePart[]): void {
    if (parts.length === 0) return
    const last = this.#contents.at(-1)
    if (last?.role === role) for (const part of parts) last.parts.push(part)
    else this.#contents.push({ role, parts })
  }

  #lose(_word: string, what: 'left out' | 'approximated', why: string, _of?: string): void {
    this.#translation.lose(
      what === 'left out' ? 'todo_dropped' : 'todo_approximated',
      this.#translation.setting('conversation'),
      why,
    )
  }
}

const TYPE_BY_ENDING: ReadonlyMap<string, string> = new Map(
  Object.entries({
    png: 'image/png',
    jpg: 'image/jpeg',
    jpeg: 'image/jpeg',
    webp: 'image/webp',
    gif: 'image/gif',
    heic: 'image/heic',
    pdf: 'application/pdf',
    txt: 'text/plain',
    mp3: 'audio/mp3',
    wav: 'audio/wav',
    mp4: 'video/mp4',
    mov: 'video/mov',
    webm: 'video/webm',
    mpeg: 'video/mpeg',
  }),
)

/** A file's media type by the ending of its URL's path; undefined leaves it to Google. */
const typeByName = (url: string): string | undefined =>
  TYPE_BY_ENDING.get(/\.([a-z0-9]+)(?:[?#]|$)/i.exec(url)?.[1]?.toLowerCase() ?? '')
