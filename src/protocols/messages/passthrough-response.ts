import type { GatewayError } from '../../error.ts'
import { splice } from '../../json/edit.ts'
import { members } from '../../json/scan.ts'
import { noUsage, type Usage } from '../../generation/usage.ts'
import type { Frame } from '../../http/frames.ts'
import type { TranslationContext, ResponseIdentity, Passthrough } from '../protocol.ts'
import { writeError } from './write-response.ts'
import { frameOf } from './write-response-stream.ts'
import { writeUsage } from './shapes.ts'

export const passthrough = (context: TranslationContext): Passthrough =>
  new MessagesPassthrough(context.responseIdentity)

/** Only `message_start` says id and model; other frames pass as they are, save for usage that is missing. */
class MessagesPassthrough implements Passthrough {
  readonly #names: { id: string; model: string }

  constructor(responseIdentity: ResponseIdentity) {
    this.#names = { id: JSON.stringify(responseIdentity.id), model: JSON.stringify(responseIdentity.model) }
  }

  frame(frame: Frame): Frame | undefined {
    const named = frame.event === undefined ? this.#name(frame) : frame
    return named?.event === 'message_start' ? this.#start(named) : named
  }

  fail(error: GatewayError): Frame[] {
    return [frameOf(writeError(error) as { type: string })]
  }

  /** `message_delta` says the usage. */
  counted(frame: Frame, usage: Usage): Frame {
    return frame.event === 'message_delta' ? { ...frame, data: splice(frame.data, usageMember(usage)) } : frame
  }

  answer(text: string, counted?: Usage): string {
    return splice(text, counted === undefined ? this.#names : { ...this.#names, ...usageMember(counted) })
  }

  /**
   * Some compatible servers send no event lines, without which Anthropic's SDKs see nothing, and OpenAI's `[DONE]` at
   * the end.
   */
  #name(frame: Frame): Frame | undefined {
    const type = members(frame.data).find(({ key }) => key === 'type')
    const event = type === undefined ? undefined : frame.data.slice(type.start + 1, type.end - 1)
    return event === undefined ? undefined : { ...frame, event }
  }

  #start(frame: Frame): Frame {
    const message = members(frame.data).find(({ key }) => key === 'message')
    if (message === undefined) return frame
    const metered = members(frame.data, message.start).some(
      ({ key, start }) => key === 'usage' && frame.data[start] === '{',
    )
    // Anthropic's SDKs read it there, and fail on a message without it.
    return {
      ...frame,
      data: splice(frame.data, metered ? this.#names : { ...this.#names, ...usageMember(noUsage()) }, message.start),
    }
  }
}

const usageMember = (usage: Usage): Record<string, string> => ({ usage: JSON.stringify(writeUsage(usage)) })
