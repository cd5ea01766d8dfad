import type { Protocol } from '../protocol.ts'
import { forward, memberChanges, passthrough } from './passthrough.ts'
import { readError } from './read-error.ts'
import { readRequest } from './read-request.ts'
import { reader, readResponse } from './read-response.ts'
import { issuedIds, references } from './references.ts'
import { paths } from './request-paths.ts'
import { unread } from './unread.ts'
import { headers, path, writeRequest } from './write-request.ts'
import { statusOf, writeError } from './write-error.ts'
import { writeResponse } from './write-response.ts'
import { writer } from './write-response-stream.ts'

export { readCountRequest } from './read-request.ts'

/** Fields of requests that chat completions does not have. */
const OWN_FIELDS =
  /"(?:system|stop_sequences|thinking|top_k|input_schema|tool_use_id|anthropic_version|output_config)":/

const recognize = (body: Record<string, unknown>): 0 | 2 =>
  'messages' in body && 'max_tokens' in body && OWN_FIELDS.test(JSON.stringify({ ...body, metadata: undefined }))
    ? 2
    : 0

/** Anthropic's Messages API. */
export const messages: Protocol = {
  name: 'messages',
  alias: 'messages',
  serve: {
    readRequest,
    routed: true,
    unread,
    paths,
    references,
    writer,
    writeResponse,
    writeError,
    statusOf,
    keepAlive: 'event: ping\ndata: {"type": "ping"}\n\n',
    idPrefix: 'msg_',
    ownsHeaders: (headers) => headers.has('anthropic-version'),
    // OpenAI has messages of threads and of stored completions.
    ownsPath: (path) => /^(?:\/relay)?(?:\/v1)*\/messages(?:\/|$)|^\/api\//.test(path),
    recognize,
    cutsAtPassages: true,
    usageAtStart: true,
  },
  call: {
    auth: 'x-api-key',
    path,
    headers,
    writeRequest,
    forward,
    issuedIds,
    memberChanges,
    reader: () => reader(),
    readResponse: (body) => readResponse(body),
    argumentsIn: 'input',
    reasoningFormat: 'anthropic-claude-v1',
    readError,
  },
  passthrough,
}
