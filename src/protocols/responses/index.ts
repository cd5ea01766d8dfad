import { readError, writeError } from '../openai-error.ts'
import type { Protocol } from '../protocol.ts'
import { missingRoute } from './compaction.ts'
import { repeatedMembers } from './namespaces.ts'
import { forward, ResponsesPassthrough } from './passthrough.ts'
import { readRequest } from './read-request.ts'
import { hasFailed, readResponse, ResponsesResponseReader } from './read-response.ts'
import { issuedIds, references } from './references.ts'
import { paths } from './request-paths.ts'
import { headers, path, writeRequest } from './write-request.ts'
import { writeResponse } from './write-response.ts'
import { ResponsesResponseWriter } from './write-response-stream.ts'

/** OpenAI's Responses API. */
export const responses: Protocol = {
  name: 'responses',
  alias: 'responses',
  serve: {
    readRequest,
    routed: true,
    paths,
    repeatedMembers,
    references,
    writer: (context) => new ResponsesResponseWriter(context),
    writeResponse,
    writeError,
    keepAlive: ': keep-alive\n\n',
    idPrefix: 'resp_',
    recognize: (body) => ('input' in body ? 2 : 0),
  },
  call: {
    auth: 'bearer',
    path,
    headers,
    writeRequest,
    forward,
    issuedIds,
    reader: (_quirks, inlineCitations) => new ResponsesResponseReader(inlineCitations),
    inlineCitations: true,
    reasoningFormat: 'openai-responses-v1',
    readResponse,
    hasFailed,
    readError,
    missingRoute,
  },
  passthrough: (context) => new ResponsesPassthrough(context),
}
