import type { GatewayError } from '../../error.ts'
import { elements, members, splice } from '../../generation/json-text.ts'
import type { Usage } from '../../generation/usage.ts'
import type { Frame } from '../../http/frames.ts'
import type { Exchange, Relabeler } from '../protocol.ts'
import { scrub } from '../upstream-error.ts'
import { errorFrames } from './serve.ts'
import { writeUsage } from './shapes.ts'

/**
 * A Google provider's chunks with our id and model name put on them; everything else stays as the provider wrote it.
 */
export class ChunkRelabeler implements Relabeler {
  readonly #label: Record<string, string>

  constructor({ label }: Exchange) {
    this.#label = { modelVersion: JSON.stringify(label.model), responseId: JSON.stringify(label.id) }
  }

  frame(frame: Frame): Frame | undefined {
    const present = members(frame.data)
    // Bare, because Google's clients hear an error in no other form; else as the provider wrote it.
    if (present.some(({ key }) => key === 'error')) return { data: scrub(frame.data), bare: true }
    // Something between the provider and us wrote this; Google's clients break on all but JSON objects.
    if (present.length === 0) return undefined
    return { ...frame, data: splice(frame.data, this.#label) }
  }

  fail(error: GatewayError): Frame[] {
    return errorFrames(error)
  }

  counted(frame: Frame, usage: Usage): Frame {
    return { ...frame, data: splice(frame.data, usageMember(usage)) }
  }

  /** An object, or the array of chunks that a stream without `alt=sse` is. */
  answer(text: string, counted?: Usage): string {
    const whole = counted === undefined ? this.#label : { ...this.#label, ...usageMember(counted) }
    const starts = elements(text)
    if (starts === undefined) return splice(text, whole)
    return `[${starts.map(([start, end], index) => splice(text.slice(start, end), index === starts.length - 1 ? whole : this.#label)).join(',')}]`
  }
}

const usageMember = (usage: Usage): Record<string, string> => ({ usageMetadata: JSON.stringify(writeUsage(usage)) })
