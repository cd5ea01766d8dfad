import { paths } from './request-paths.ts'
import { readError, writeError } from '../openai-error.ts'
import type { Protocol } from '../protocol.ts'
import { ChatPassthrough, forward, memberChanges } from './passthrough.ts'
import { writeRequest } from './write-request.ts'
import { ChatResponseReader, readResponse } from './read-response.ts'
import { writeResponse } from './write-response.ts'
import { issuedIds, references } from './references.ts'
import { readRequest } from './read-request.ts'
import { unread } from './unread.ts'
import { ChatResponseWriter } from './write-response-stream.ts'

/** OpenAI's chat completions, with the extensions of compatible servers. */
export const chat: Protocol = {
  name: 'chat.completions',
  alias: 'chat',
  serve: {
    readRequest,
    routed: true,
    unread,
    paths,
    references,
    writer: (context) => new ChatResponseWriter(context),
    writeResponse,
    writeError,
    keepAlive: ': keep-alive\n\n',
    idPrefix: 'chatcmpl-',
    recognize: (body) => ('messages' in body ? 1 : 0),
  },
  call: {
    auth: 'bearer',
    path: () => '/chat/completions',
    headers: () => ({}),
    writeRequest,
    forward,
    issuedIds,
    memberChanges,
    reader: () => new ChatResponseReader(),
    readResponse,
    readError,
  },
  passthrough: (context) => new ChatPassthrough(context),
}
