import { paths } from './request-paths.ts'
import { readError, writeError } from '../openai-error.ts'
import type { Protocol } from '../protocol.ts'
import { forward, readAnswer } from './passthrough.ts'
import { writeRequest } from './write-request.ts'
import { ChunkReader } from './read-response.ts'
import { ChunkPassthrough } from './passthrough-response.ts'
import { writeAnswer } from './write-response.ts'
import { references } from './references.ts'
import { readRequest } from './read-request.ts'
import { ChunkWriter } from './write-response-stream.ts'

/** OpenAI's chat completions, and what compatible servers made of it. */
export const chat: Protocol = {
  name: 'chat.completions',
  serve: {
    readRequest,
    paths,
    references,
    writer: (context) => new ChunkWriter(context),
    writeAnswer,
    writeError,
    keepAlive: ': keep-alive\n\n',
    idPrefix: 'chatcmpl-',
  },
  call: {
    path: () => '/chat/completions',
    headers: () => ({}),
    writeRequest,
    forward,
    reader: () => new ChunkReader(),
    readAnswer,
    readError,
  },
  passthrough: (context) => new ChunkPassthrough(context),
}
