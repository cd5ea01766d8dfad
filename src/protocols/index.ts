import type { ProtocolName } from '../generation/request.ts'
import { chat } from './chat/index.ts'
import { gemini } from './gemini/index.ts'
import { images } from './images/index.ts'
import { messages } from './messages/index.ts'
import type { Protocol } from './protocol.ts'
import { responses } from './responses/index.ts'

/** The wire languages by name. One more is one folder and one line. */
export const protocols: Record<ProtocolName, Protocol> = {
  'chat.completions': chat,
  responses,
  messages,
  generateContent: gemini,
  images,
}
