import { readError, writeError } from '../openai-error.ts'
import type { Protocol } from '../protocol.ts'
import { forward, ImageReader, readAnswer, writeRequest } from './call.ts'
import { ImageRelabeler } from './relabel.ts'
import { checkModel, readRequest, writeAnswer } from './serve.ts'
import { ImageWriter } from './serve-stream.ts'

/** OpenAI's images API, and what compatible servers made of it. */
export const images: Protocol = {
  name: 'images',
  serve: {
    readRequest,
    checkModel,
    writer: (exchange) => new ImageWriter(exchange),
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
  relabeler: (exchange) => new ImageRelabeler(exchange),
}
