import type { GatewayError } from '../../error.ts'
import { splice } from '../../json/edit.ts'
import { members } from '../../json/scan.ts'
import type { Usage } from '../../generation/usage.ts'
import type { Frame } from '../../http/frames.ts'
import type { TranslationContext, ResponseIdentity, Passthrough } from '../protocol.ts'
import { errorFrames, usageFrame } from './write-response-stream.ts'
import { writeUsage } from './shapes.ts'

// Providers say `"usage":null` in every other chunk once usage was asked for.
const USAGE = /"usage"\s*:\s*\{/

/** The provider's own frames with our id and model name on them, everything else as it was written. */
export class ChunkPassthrough implements Passthrough {
  readonly #responseIdentity: ResponseIdentity
  readonly #changes: Record<string, string>
  readonly #hidesUsage: boolean
  /**
   * How the last chunk began, to the end of its id and model, and what that became: most chunks of an answer begin
   * alike.
   */
  #from = ''
  #to = ''

  constructor({ responseIdentity, request }: TranslationContext) {
    this.#responseIdentity = responseIdentity
    this.#changes = { id: JSON.stringify(responseIdentity.id), model: JSON.stringify(responseIdentity.model) }
    this.#hidesUsage = request.includeUsage !== true
  }

  frame(frame: Frame): Frame | undefined {
    const { data } = frame
    // The end of the stream is said by `end`, once the answer is known to be whole.
    if (data.trim() === '[DONE]') return undefined
    const suspect = this.#hidesUsage && USAGE.test(data)
    if (!suspect && this.#from !== '' && data.startsWith(this.#from))
      return { data: this.#to + data.slice(this.#from.length) }
    return this.#slow(frame, suspect)
  }

  #slow(frame: Frame, suspect: boolean): Frame | undefined {
    const { data } = frame
    const found = members(data)
    const choices = found.find((member) => member.key === 'choices')
    if (choices === undefined) return frame
    if (
      suspect &&
      /^\[\s*\]$/.test(data.slice(choices.start, choices.end)) &&
      found.some((member) => member.key === 'usage' && data[member.start] === '{')
    )
      return undefined
    const last = found.findLast((member) => member.key === 'id' || member.key === 'model')?.end ?? -1
    const named = found.filter((member) => member.key === 'id' || member.key === 'model').length
    const relabelled = splice(data, this.#changes)
    if (named === 2 && choices.start > last) {
      this.#from = data.slice(0, last)
      this.#to = relabelled.slice(0, relabelled.length - (data.length - last))
    }
    return { ...frame, data: relabelled }
  }

  fail(error: GatewayError): Frame[] {
    return errorFrames(this.#responseIdentity, error)
  }

  end(counted?: Usage): Frame[] {
    return [
      ...(counted === undefined || this.#hidesUsage ? [] : [usageFrame(this.#responseIdentity, counted)]),
      { data: '[DONE]' },
    ]
  }

  answer(text: string, counted?: Usage): string {
    return splice(
      text,
      counted === undefined ? this.#changes : { ...this.#changes, usage: JSON.stringify(writeUsage(counted)) },
    )
  }
}
