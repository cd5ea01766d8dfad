import { written } from '../../translating.ts'
import type { GenerationRequest, Part, Turn } from '../../../src/generation/request.ts'
import type { Capabilities } from '../../../src/protocols/protocol.ts'
import { target, type Any } from './fixtures.ts'

/** Generation requests, and how they are written for a provider of the Responses API. */

export const request = (more: Partial<GenerationRequest> = {}): GenerationRequest => ({
  model: 'a/b',
  system: [],
  turns: [{ role: 'user', parts: [{ type: 'text', text: 'hi' }] }],
  tools: [],
  sampling: {},
  stream: false,
  protocol: 'messages',
  extras: {},
  ...more,
})
export const write = (more: Partial<GenerationRequest> = {}, capabilities: Capabilities = {}) =>
  written('responses', request(more), { ...target, capabilities })
export const input = (turns: Turn[]) => write({ turns }).body.input as Any[]
/** Code and path of each loss; elements without a path of their own are located at the conversation, `messages`. */
export const lossesOf = (more: Partial<GenerationRequest>, capabilities: Capabilities = {}) =>
  write(more, capabilities).losses.map(({ code, path }) => `${code} ${path}`)
export const say = (role: Turn['role'], ...parts: Part[]): Turn => ({ role, parts })
export const text = (text: string): Part => ({ type: 'text', text })
export const call = (id: string, form: 'function' | 'custom' = 'function', args = '{}'): Part => ({
  type: 'tool-call',
  id,
  name: 'f',
  arguments: args,
  form,
})
export const result = (callId: string, ...content: Any[]): Part =>
  ({ type: 'tool-result', callId, content, form: 'function' }) as Part
