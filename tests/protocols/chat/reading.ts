import { chat } from '../../../src/protocols/chat/index.ts'
import type { RawRequest } from '../../../src/protocols/protocol.ts'

/** Requests of clients of chat completions, and what is read from them. */

export const rawRequestOf = (body: Record<string, unknown>): RawRequest => ({
  body,
  text: JSON.stringify(body),
  headers: new Headers(),
})
export const user = { role: 'user', content: 'Hi' }
export const base = { model: 'maker/model', messages: [user] }

export const located = (...messages: unknown[]) => chat.serve.readRequest(rawRequestOf({ ...base, messages }))
