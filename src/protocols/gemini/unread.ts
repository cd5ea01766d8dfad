import { Watched } from '../../json/body-scan.ts'
import type { UnreadRules } from '../unread-request.ts'

const READ = Watched.media | Watched.fileId | Watched.signature | Watched.functionCall

/** Media and files have to be read, calls and signatures, which models require, and Google's own tools. */
export const unread: UnreadRules = {
  placeholders: { contents: '[{"parts":[{"text":"."}]}]', tools: '[]' },
  refersToNothing: ({ seen, seenInTools }) =>
    (seen & (Watched.media | Watched.fileId)) === 0 && (seenInTools & Watched.other) === 0,
  mayPass: ({ seen, seenInTools }) => (seen & READ) === 0 && (seenInTools & Watched.other) === 0,
}
