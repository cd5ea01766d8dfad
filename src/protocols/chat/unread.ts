import { Watched } from '../../json/body-scan.ts'
import type { UnreadRules } from '../unread-request.ts'

const READ = Watched.media | Watched.fileId | Watched.signature | Watched.functionCall
const TOOL_TYPES = Watched.function | Watched.custom | Watched.oneHour

/** Media, files and signatures have to be read, and tools that a provider runs. */
export const unread: UnreadRules = {
  placeholders: { messages: '[{"role":"user","content":"."}]', tools: '[]' },
  refersToNothing: ({ seen, values }) =>
    (seen & (Watched.media | Watched.fileId)) === 0 && (values & ~TOOL_TYPES) === 0,
  mayPass: ({ seen, values }) => (seen & READ) === 0 && (values & ~TOOL_TYPES) === 0,
}
