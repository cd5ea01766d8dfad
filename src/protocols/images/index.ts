import { readError, writeError } from '../openai-error.ts'
import type { Protocol } from '../protocol.ts'
import { forward, ImagesPassthrough } from './passthrough.ts'
import { checkModel, readRequest } from './read-request.ts'
import { paths } from './request-paths.ts'
import { ImagesResponseReader, readResponse } from './read-response.ts'
import { writeRequest } from './write-request.ts'
import { writeResponse } from './write-response.ts'
import { ImagesResponseWriter } from './write-response-stream.ts'

/** OpenAI's images API, and compatible servers. */
export const images: Protocol = {
  name: 'images',
  alias: 'images',
  serve: {
    readRequest,
    routed: true,
    paths,
    checkModel,
    writer: (context) => new ImagesResponseWriter(context),
    writeResponse,
    writeError,
    keepAlive: ': keep-alive\n\n',
    idPrefix: 'img_',
    recognize: (body) => ('prompt' in body && !('input' in body) ? 1 : 0),
  },
  call: {
    auth: 'bearer',
    path: () => '/images/generations',
    headers: () => ({}),
    writeRequest,
    forward,
    reader: () => new ImagesResponseReader(),
    readResponse,
    readError,
  },
  passthrough: (context) => new ImagesPassthrough(context),
}
