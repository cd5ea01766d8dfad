import type { Protocol } from '../protocol.ts'
import { forward, GeminiPassthrough, memberChanges } from './passthrough.ts'
import { readError } from './read-error.ts'
import { readRequest } from './read-request.ts'
import { checkReasoning } from './read-request-config.ts'
import { GeminiResponseReader, readResponse } from './read-response.ts'
import { issuedIds, references } from './references.ts'
import { paths } from './request-paths.ts'
import { unread } from './unread.ts'
import { writeError } from './write-error.ts'
import { headers, path, writeRequest } from './write-request.ts'
import { writeResponse } from './write-response.ts'
import { GeminiResponseWriter } from './write-response-stream.ts'

/** Read with the operator's rights, whoever names the object. */
const CLOUD_STORAGE = /^gs:\/\//i
const YOUTUBE = /^https?:\/\/((www\.|m\.)?youtube\.com|youtu\.be)\//i

/** Google's generateContent. No keep-alive: its Python client parses a comment line as JSON. */
export const gemini: Protocol = {
  name: 'generateContent',
  alias: 'generateContent',
  serve: {
    readRequest,
    unread,
    paths,
    references,
    checkModel: checkReasoning,
    writer: (context) => new GeminiResponseWriter(context),
    writeResponse,
    writeError,
    idPrefix: '',
    ownsHeaders: (headers) => headers.has('x-goog-api-client') || headers.has('x-goog-api-key'),
    ownsPath: (path) => /:\w+\/*$/.test(path) || /^(?:\/upload)?\/v1(?:beta|alpha)/.test(path),
    recognize: (body) => ('contents' in body ? 2 : 0),
    modelInPath: true,
  },
  call: {
    auth: 'x-goog-api-key',
    opensOnly: (url) => (CLOUD_STORAGE.test(url) ? 'operator' : YOUTUBE.test(url) ? 'anyone' : undefined),
    path,
    headers,
    writeRequest,
    forward,
    issuedIds,
    memberChanges,
    reader: () => new GeminiResponseReader(),
    readResponse,
    argumentsIn: 'args',
    reasoningFormat: 'google-gemini-v1',
    readError,
  },
  passthrough: (context) => new GeminiPassthrough(context),
}
