import type { Protocol } from '../protocol.ts'
import { forward, passthrough } from './passthrough.ts'
import { readError } from './read-error.ts'
import { readRequest } from './read-request.ts'
import { reader, readResponse } from './read-response.ts'
import { references } from './references.ts'
import { paths } from './request-paths.ts'
import { headers, path, writeRequest } from './write-request.ts'
import { statusOf, writeError, writeResponse } from './write-response.ts'
import { writer } from './write-response-stream.ts'

export { readCountRequest } from './read-request.ts'

/** Anthropic's Messages API. */
export const messages: Protocol = {
  name: 'messages',
  serve: {
    readRequest,
    paths,
    references,
    writer,
    writeAnswer: writeResponse,
    writeError,
    statusOf,
    keepAlive: 'event: ping\ndata: {"type": "ping"}\n\n',
    idPrefix: 'msg_',
    cutsAtPassages: true,
  },
  call: {
    path,
    headers,
    writeRequest,
    forward,
    reader: () => reader(),
    readAnswer: (body) => readResponse(body),
    argumentsIn: 'input',
    readError,
  },
  passthrough,
}
