import type { ConversationName } from '../../src/generation/request.ts'
import { FrameSplitter, type Frame } from '../../src/http/frames.ts'
import { framed } from '../gateway/scripted.ts'
import { chatResponse } from './replies/chat.ts'
import { geminiResponse } from './replies/gemini.ts'
import { messagesResponse } from './replies/messages.ts'
import type { ProviderResponse, Reply } from './replies/reply.ts'
import { responsesResponse } from './replies/responses.ts'

/** Responses of a scripted provider, written in each protocol as its real providers do. */

export { errorBodyOf, failureFrameOf, failureBodyOf } from './replies/errors.ts'
export { TOOL, type TokenCounts, type Reply, type ReplyPart } from './replies/reply.ts'

export const responseOf = (protocol: ConversationName, reply: Reply): ProviderResponse =>
  ({
    'chat.completions': chatResponse,
    responses: responsesResponse,
    messages: messagesResponse,
    generateContent: geminiResponse,
  })[protocol](reply)

/** The frames of a stream as they are read from the network. */
export function framesOf(frames: (object | string)[]): Frame[] {
  const splitter = new FrameSplitter()
  return [...splitter.push(Buffer.from(framed(frames))), ...splitter.end()]
}
