import { paths } from './request-paths.ts'
import type { Protocol } from '../protocol.ts'
import { headers, path, readAnswer, writeRequest } from './write-request.ts'
import { readError } from './read-error.ts'
import { reader } from './read-response.ts'
import { forward } from './passthrough.ts'
import { passthrough } from './passthrough-response.ts'
import { readRequest } from './read-request.ts'
import { statusOf, writeAnswer, writeError } from './write-response.ts'
import { references } from './references.ts'
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
    writeAnswer,
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
    readAnswer: (body) => readAnswer(body),
    argumentsIn: 'input',
    readError,
  },
  passthrough,
}
