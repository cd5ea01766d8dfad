import { Watched } from '../../json/body-scan.ts'
import type { UnreadRules } from '../unread-request.ts'
import { MAY_BE_TRANSLATED } from './passthrough.ts'

const READ = Watched.media | Watched.fileId

/** Media and files have to be read, Anthropic's own tools, and signatures of other issuers. */
export const unread: UnreadRules = {
  placeholders: { system: '""', messages: '[{"role":"user","content":"."}]', tools: '[]' },
  refersToNothing: ({ seen }) => (seen & (Watched.media | Watched.fileId)) === 0,
  mayPass: ({ seen, values }, bytes) =>
    (seen & READ) === 0 &&
    (values & ~(Watched.custom | Watched.oneHour)) === 0 &&
    ((seen & Watched.signature) === 0 || !MAY_BE_TRANSLATED.test(bytes.toString('latin1'))),
}
