import type { ProtocolName } from '../generation/request.ts'
import { chat } from './chat/index.ts'
import { gemini } from './gemini/index.ts'
import { images } from './images/index.ts'
import { messages } from './messages/index.ts'
import type { Protocol } from './protocol.ts'
import { responses } from './responses/index.ts'

/** All protocols by name. A new one is a folder and a line here. */
export const protocols: Record<ProtocolName, Protocol> = {
  'chat.completions': chat,
  responses,
  messages,
  generateContent: gemini,
  images,
}
