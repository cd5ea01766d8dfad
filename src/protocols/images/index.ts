import { paths } from './request-paths.ts'
import { readError, writeError } from '../openai-error.ts'
import type { Protocol } from '../protocol.ts'
import { forward, ImageReader, readAnswer, writeRequest } from './write-request.ts'
import { ImagePassthrough } from './passthrough.ts'
import { checkModel, readRequest, writeAnswer } from './read-request.ts'
import { ImageWriter } from './write-response-stream.ts'

/** OpenAI's images API, and what compatible servers made of it. */
export const images: Protocol = {
  name: 'images',
  serve: {
    readRequest,
    paths,
    checkModel,
    writer: (context) => new ImageWriter(context),
    writeAnswer,
    writeError,
    keepAlive: ': keep-alive\n\n',
    idPrefix: 'img_',
  },
  call: {
    path: () => '/images/generations',
    headers: () => ({}),
    writeRequest,
    forward,
    reader: () => new ImageReader(),
    readAnswer,
    readError,
  },
  passthrough: (context) => new ImagePassthrough(context),
}
