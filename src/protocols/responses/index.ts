import { readError, writeError } from '../openai-error.ts'
import type { Protocol } from '../protocol.ts'
import { readAnswer, readerFor } from './call-stream.ts'
import { headers, path, writeRequest } from './call.ts'
import { forward } from './forward.ts'
import { ResponseRelabeler } from './relabel.ts'
import { references } from './serve-references.ts'
import { ResponseWriter } from './serve-stream.ts'
import { readRequest, writeAnswer } from './serve.ts'

/** OpenAI's responses protocol (specification: "Responses" and "Events"). */
export const responses: Protocol = {
  name: 'responses',
  serve: {
    readRequest,
    references,
    writer: (exchange) => new ResponseWriter(exchange),
    writeAnswer,
    writeError,
    keepAlive: ': keep-alive\n\n',
    idPrefix: 'resp_',
  },
  call: { path, headers, writeRequest, forward, reader: (_quirks, request) => readerFor(request), readAnswer, readError },
  relabeler: (exchange) => new ResponseRelabeler(exchange),
}
