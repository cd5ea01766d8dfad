import { paths } from './request-paths.ts'
import { readError, writeError } from '../openai-error.ts'
import type { Protocol } from '../protocol.ts'
import { readResponse, ResponsesResponseReader } from './read-response.ts'
import { headers, path, writeRequest } from './write-request.ts'
import { forward } from './passthrough.ts'
import { ResponsePassthrough } from './passthrough-response.ts'
import { references } from './references.ts'
import { ResponseWriter } from './write-response-stream.ts'
import { readRequest, writeAnswer } from './read-request.ts'

/** OpenAI's responses protocol (specification: "Responses" and "Events"). */
export const responses: Protocol = {
  name: 'responses',
  serve: {
    readRequest,
    paths,
    references,
    writer: (context) => new ResponseWriter(context),
    writeAnswer,
    writeError,
    keepAlive: ': keep-alive\n\n',
    idPrefix: 'resp_',
  },
  call: {
    path,
    headers,
    writeRequest,
    forward,
    reader: (_quirks, inlineCitations) => new ResponsesResponseReader(inlineCitations),
    inlineCitations: true,
    readAnswer: readResponse,
    readError,
  },
  passthrough: (context) => new ResponsePassthrough(context),
}
