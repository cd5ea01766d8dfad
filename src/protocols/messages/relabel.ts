import type { GatewayError } from '../../error.ts'
import { members, splice } from '../../generation/json-text.ts'
import type { Frame } from '../../http/frames.ts'
import type { Exchange, Label, Relabeler } from '../protocol.ts'
import { writeError } from './serve-answer.ts'
import { frameOf } from './serve-stream.ts'

export const relabeler = (exchange: Exchange): Relabeler => new MessagesRelabeler(exchange.label)

/** Only `message_start` says id and model; all other frames pass as they are. */
class MessagesRelabeler implements Relabeler {
  readonly #names: { id: string; model: string }

  constructor(label: Label) {
    this.#names = { id: JSON.stringify(label.id), model: JSON.stringify(label.model) }
  }

  frame(frame: Frame): Frame | undefined {
    const named = frame.event === undefined ? this.#name(frame) : frame
    return named?.event === 'message_start' ? this.#start(named) : named
  }

  fail(error: GatewayError): Frame[] {
    return [frameOf(writeError(error) as { type: string })]
  }

  answer(text: string): string {
    return splice(text, this.#names)
  }

  /** Some compatible servers send no event lines, without which Anthropic's SDKs see nothing, and OpenAI's `[DONE]` at the end. */
  #name(frame: Frame): Frame | undefined {
    const type = members(frame.data).find(({ key }) => key === 'type')
    const event = type === undefined ? undefined : frame.data.slice(type.start + 1, type.end - 1)
    return event === undefined ? undefined : { ...frame, event }
  }

  #start(frame: Frame): Frame {
    const message = members(frame.data).find(({ key }) => key === 'message')
    return message === undefined ? frame : { ...frame, data: splice(frame.data, this.#names, message.start) }
  }
}
