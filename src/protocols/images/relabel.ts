import type { GatewayError } from '../../error.ts'
import { splice } from '../../generation/json-text.ts'
import type { Usage } from '../../generation/usage.ts'
import type { Frame } from '../../http/frames.ts'
import { isObject } from '../fields.ts'
import type { Exchange, Relabeler } from '../protocol.ts'
import { errorFrame } from './serve-stream.ts'
import { writeUsage } from './shapes.ts'

/** The provider's own answer with our id and model name on it, and our addresses in it where the client wants addresses. */
export class ImageRelabeler implements Relabeler {
  readonly #exchange: Exchange

  constructor(exchange: Exchange) {
    this.#exchange = exchange
  }

  frame(frame: Frame): Frame | undefined {
    return frame.data.trim() === '[DONE]' ? undefined : frame
  }

  fail(error: GatewayError): Frame[] {
    return [errorFrame(error)]
  }

  counted(frame: Frame, usage: Usage): Frame {
    return frame.data.includes('"image_generation.completed"') ? { ...frame, data: splice(frame.data, { usage: JSON.stringify(writeUsage(usage)) }) } : frame
  }

  answer(text: string, counted?: Usage): string {
    const { label, imageUrls } = this.#exchange
    const body = JSON.parse(text) as { created?: unknown; data?: unknown }
    return splice(text, {
      id: JSON.stringify(label.id), model: JSON.stringify(label.model),
      ...(typeof body.created === 'number' ? {} : { created: String(label.createdAt) }),
      ...(counted === undefined ? {} : { usage: JSON.stringify(writeUsage(counted)) }),
      ...(imageUrls !== undefined && Array.isArray(body.data) ? { data: JSON.stringify(body.data.map((image, index) => addressed(image, imageUrls[index]))) } : {}),
    })
  }
}

function addressed(image: unknown, url: string | undefined): unknown {
  if (!isObject(image)) return image
  const { b64_json: _left, ...rest } = image
  return { ...rest, url }
}
