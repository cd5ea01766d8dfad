import { expect } from 'bun:test'
import { GatewayError } from '../../src/error.ts'
import type { ConversationName } from '../../src/generation/request.ts'
import type { Loss } from '../../src/protocols/translation.ts'
import type { Endpoint } from '../../src/providers/catalogue.ts'
import type { Any } from '../recorded/response-content.ts'
import { prepared } from '../translating.ts'
import { contextOf } from './routes.ts'

/** Parts with media in the fields of each protocol, requests with them, and what a provider receives of these. */

/** Base64 with `+`, `/` and padding. */
export const DATA = Buffer.from(Array.from({ length: 61 }, (_, i) => (i * 61 + 251) % 256)).toString('base64')
export const CSV = Buffer.from('a,b\n1,2\n').toString('base64')
export const MEDIA_URL = 'https://media.example/a-thing_1'
export const dataUrl = (type: string, data = DATA): string => `data:${type};base64,${data}`

export const image = (url: string, detail?: string) => ({
  type: 'image_url',
  image_url: { url, ...(detail === undefined ? {} : { detail }) },
})
export const inputImage = (image_url: string, detail?: string) => ({
  type: 'input_image',
  image_url,
  ...(detail === undefined ? {} : { detail }),
})
export const block = (type: string, source: object, more: object = {}) => ({ type, source, ...more })
export const base64 = (media_type: string, data = DATA) => ({ type: 'base64', media_type, data })
export const inline = (mimeType: string, more: object = {}, data = DATA) => ({
  inlineData: { mimeType, data, ...more },
})

export const bodyWith = (client: ConversationName, part: object): Any =>
  ({
    'chat.completions': { model: 'a/b', messages: [{ role: 'user', content: [{ type: 'text', text: 'hi' }, part] }] },
    responses: { model: 'a/b', input: [{ role: 'user', content: [{ type: 'input_text', text: 'hi' }, part] }] },
    messages: {
      model: 'a/b',
      max_tokens: 9,
      messages: [{ role: 'user', content: [{ type: 'text', text: 'hi' }, part] }],
    },
    generateContent: { contents: [{ role: 'user', parts: [{ text: 'hi' }, part] }] },
  })[client]

export type ReportedLoss = Pick<Loss, 'code' | 'path'>

/** The body that the provider receives, and the losses apart from those of the output limit. */
export function sentTo(
  provider: ConversationName,
  client: ConversationName,
  body: Any,
): { body: Any; losses: ReportedLoss[] } {
  const endpoint = {
    protocol: provider,
    baseUrl: '',
    target: { provider: 'p', model: 'm', quirks: {}, capabilities: { maxOutputTokens: 9 } },
    provider: {},
    credentials: {},
  } as unknown as Endpoint
  const { body: sent, losses } = prepared(endpoint, contextOf(client, body))
  return {
    body: JSON.parse(sent) as Any,
    losses: losses
      .filter(({ path }) => !/max_?(completion_|output_)?tokens/i.test(path))
      .map(({ code, path }) => ({ code, path })),
  }
}

/** Status and message of the GatewayError that this throws, which must begin with its path; empty without an error. */
export const refusalOf = (run: () => unknown): string => {
  try {
    run()
    return ''
  } catch (error) {
    expect(error).toBeInstanceOf(GatewayError)
    const { status, param, message } = error as GatewayError
    expect(message.startsWith(`${param}: `)).toBe(true)
    return `${status} ${message}`
  }
}
