import type { GatewayError } from '../../error.ts'
import { splice } from '../../json/edit.ts'
import { elements, members } from '../../json/scan.ts'
import type { Usage } from '../../generation/usage.ts'
import type { Frame } from '../../http/frames.ts'
import type { TranslationContext, Passthrough } from '../protocol.ts'
import { scrub } from '../upstream-error.ts'
import { errorFrames } from './read-request.ts'
import { writeUsage } from './shapes.ts'

/**
 * A Google provider's chunks with our id and model name put on them; everything else stays as the provider wrote it.
 */
export class ChunkPassthrough implements Passthrough {
  readonly #responseIdentity: Record<string, string>

  constructor({ responseIdentity }: TranslationContext) {
    this.#responseIdentity = {
      modelVersion: JSON.stringify(responseIdentity.model),
      responseId: JSON.stringify(responseIdentity.id),
    }
  }

  frame(frame: Frame): Frame | undefined {
    const present = members(frame.data)
    // Bare, because Google's clients hear an error in no other form; else as the provider wrote it.
    if (present.some(({ key }) => key === 'error')) return { data: scrub(frame.data), bare: true }
    // Something between the provider and us wrote this; Google's clients break on all but JSON objects.
    if (present.length === 0) return undefined
    return { ...frame, data: splice(frame.data, this.#responseIdentity) }
  }

  fail(error: GatewayError): Frame[] {
    return errorFrames(error)
  }

  counted(frame: Frame, usage: Usage): Frame {
    return { ...frame, data: splice(frame.data, usageMember(usage)) }
  }

  /** An object, or the array of chunks that a stream without `alt=sse` is. */
  answer(text: string, counted?: Usage): string {
    const whole =
      counted === undefined ? this.#responseIdentity : { ...this.#responseIdentity, ...usageMember(counted) }
    const starts = elements(text)
    if (starts === undefined) return splice(text, whole)
    return `[${starts.map(([start, end], index) => splice(text.slice(start, end), index === starts.length - 1 ? whole : this.#responseIdentity)).join(',')}]`
  }
}

const usageMember = (usage: Usage): Record<string, string> => ({ usageMetadata: JSON.stringify(writeUsage(usage)) })
