import { asAsked } from '../as-asked.ts'
import type { Protocol } from '../protocol.ts'
import { endingAtStops } from '../stop-cut.ts'
import { headers, path, readAnswer, writeRequest } from './call.ts'
import { readError } from './call-error.ts'
import { reader } from './call-stream.ts'
import { forward } from './forward.ts'
import { relabeler } from './relabel.ts'
import { readRequest } from './serve.ts'
import { statusOf, writeAnswer, writeError } from './serve-answer.ts'
import { references } from './serve-references.ts'
import { writer } from './serve-stream.ts'

export { readCountRequest } from './serve.ts'

/** Anthropic's Messages API. */
export const messages: Protocol = asAsked(
  {
    name: 'messages',
    serve: {
      readRequest,
      references,
      writer,
      writeAnswer,
      writeError,
      statusOf,
      keepAlive: 'event: ping\ndata: {"type": "ping"}\n\n',
      idPrefix: 'msg_',
    },
    call: {
      path,
      headers,
      writeRequest,
      forward,
      reader: (_quirks, request) => reader(request),
      readAnswer: (body, _quirks, request) => readAnswer(body, request),
      argumentsIn: 'input',
      readError,
    },
    relabeler,
  },
  endingAtStops,
)
