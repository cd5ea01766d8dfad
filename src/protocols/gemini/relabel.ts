import type { GatewayError } from '../../error.ts'
import { members, splice } from '../../generation/json-text.ts'
import type { Frame } from '../../http/frames.ts'
import type { Exchange, Relabeler } from '../protocol.ts'
import { readStreamError } from './call.ts'
import { writeError } from './serve.ts'

/** A Google provider's chunks with our id and model name put on them; everything else stays as the provider wrote it. */
export class ChunkRelabeler implements Relabeler {
  readonly #label: Record<string, string>

  constructor({ label }: Exchange) {
    this.#label = { modelVersion: JSON.stringify(label.model), responseId: JSON.stringify(label.id) }
  }

  frame(frame: Frame): Frame | undefined {
    const present = members(frame.data)
    const error = present.find(({ key }) => key === 'error')
    if (error !== undefined) return this.fail(readStreamError(frame.data.slice(error.start, error.end)))[0]
    // Something between the provider and us wrote this; Google's clients break on all but JSON objects.
    if (present.length === 0) return undefined
    return { ...frame, data: splice(frame.data, this.#label) }
  }

  fail(error: GatewayError): Frame[] {
    return [{ bare: true, data: JSON.stringify(writeError(error)) }]
  }

  answer(text: string): string {
    return splice(text, this.#label)
  }
}
