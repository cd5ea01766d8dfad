import type { GatewayError } from '../../error.ts'
import { splice } from '../../json/edit.ts'
import { members } from '../../json/scan.ts'
import type { Usage } from '../../generation/usage.ts'
import type { Frame } from '../../http/frames.ts'
import { scrub } from '../../log/secrets.ts'
import type { Passthrough, Target, ResponseContext, ForwardContext } from '../protocol.ts'
import { removeRoutingMembers } from '../routing-members.ts'
import { errorFrame } from './write-response-stream.ts'
import { imageOf, writeUsage, type Json } from './shapes.ts'

/**
 * The client's own body with the provider's model name. Images are requested in base64, since the client receives URLs
 * of Sluice.
 */
export function forward({ rawRequest }: ForwardContext, { model, capabilities, quirks }: Target): string {
  const changes: Record<string, string | undefined> = {
    model: JSON.stringify(model),
    response_format: capabilities.base64Only === true ? undefined : '"b64_json"',
  }
  removeRoutingMembers(changes, rawRequest.body, quirks)
  return splice(rawRequest.text, changes)
}

/**
 * The provider's own response with our id and model name, and our URLs where the client wants URLs.
 */
export class ImagesPassthrough implements Passthrough {
  readonly #context: ResponseContext

  constructor(context: ResponseContext) {
    this.#context = context
  }

  frame(frame: Frame): Frame | undefined {
    const { event, data } = frame
    if (data.trim() === '[DONE]') return undefined
    if (event === 'error') return { ...frame, data: scrub(data) }
    return { ...frame, data: splice(data, { id: JSON.stringify(this.#context.responseIdentity.id) }) }
  }

  fail(error: GatewayError): Frame[] {
    return [errorFrame(error)]
  }

  counted(frame: Frame, usage: Usage): Frame {
    return frame.data.includes('"image_generation.completed"')
      ? { ...frame, data: splice(frame.data, { usage: JSON.stringify(writeUsage(usage)) }) }
      : frame
  }

  answer(text: string, counted?: Usage): string {
    const { responseIdentity, imageUrls } = this.#context
    const found = members(text)
    const created = found.find(({ key }) => key === 'created')
    const data = imageUrls === undefined ? undefined : found.find(({ key }) => key === 'data')
    return splice(text, {
      id: JSON.stringify(responseIdentity.id),
      model: JSON.stringify(responseIdentity.model),
      ...(created !== undefined && /\d/.test(text[created.start]!)
        ? {}
        : { created: String(responseIdentity.createdAt) }),
      ...(counted === undefined ? {} : { usage: JSON.stringify(writeUsage(counted)) }),
      ...(data === undefined ? {} : { data: withUrls(text.slice(data.start, data.end), imageUrls!) }),
    })
  }
}

/** The images as JSON with URLs instead of base64. */
function withUrls(json: string, urls: string[]): string {
  const images: unknown = JSON.parse(json)
  if (!Array.isArray(images)) return json
  let index = 0
  return JSON.stringify(
    images.map((image: unknown) => {
      if (imageOf(image) === undefined) return image
      const { b64_json: _data, ...rest } = image as Json
      return { ...rest, url: urls[index++] }
    }),
  )
}
