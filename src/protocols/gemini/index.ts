import { paths } from './request-paths.ts'
import type { Protocol } from '../protocol.ts'
import { forward, headers, path, readError } from './passthrough.ts'
import { writeRequest } from './write-request.ts'
import { ChunkReader, readResponse } from './read-response.ts'
import { ChunkPassthrough } from './passthrough-response.ts'
import { readRequest, writeResponse, writeError } from './read-request.ts'
import { checkThinking } from './read-request-config.ts'
import { references } from './references.ts'
import { ChunkWriter } from './write-response-stream.ts'

/** Cloud Storage and YouTube. */
const GOOGLE_URL = /^gs:\/\/|^https?:\/\/((www\.|m\.)?youtube\.com|youtu\.be)\//i

/** Google's generateContent. No keep-alive: its Python client takes a comment line for JSON. */
export const gemini: Protocol = {
  name: 'generateContent',
  alias: 'generateContent',
  serve: {
    readRequest,
    paths,
    references,
    checkModel: checkThinking,
    writer: (context) => new ChunkWriter(context),
    writeResponse,
    writeError,
    idPrefix: '',
    ownsPath: (path) => /:\w+$/.test(path) || path.startsWith('/v1beta'),
    modelInPath: true,
    recognize: (body) => ('contents' in body ? 2 : 0),
  },
  call: {
    auth: 'x-goog-api-key',
    opensOnly: (url) => GOOGLE_URL.test(url),
    path,
    headers,
    writeRequest,
    forward,
    reader: () => new ChunkReader(),
    readResponse,
    argumentsIn: 'args',
    readError,
  },
  passthrough: (context) => new ChunkPassthrough(context),
}
