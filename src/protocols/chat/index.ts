import { readError, writeError } from '../openai-error.ts'
import type { Protocol } from '../protocol.ts'
import { asAsked } from '../as-asked.ts'
import { unwrapping } from '../schema/wrapping.ts'
import { endingAtStops } from '../stop-cut.ts'
import { forward, readAnswer } from './call.ts'
import { writeRequest } from './call-request.ts'
import { ChunkReader } from './call-stream.ts'
import { ChunkRelabeler } from './relabel.ts'
import { writeAnswer } from './serve.ts'
import { references } from './serve-references.ts'
import { readRequest } from './serve-request.ts'
import { ChunkWriter } from './serve-stream.ts'

/** OpenAI's chat completions, and what compatible servers made of it. */
export const chat: Protocol = asAsked(
  {
    name: 'chat.completions',
    serve: {
      readRequest,
      references,
      writer: (exchange) => new ChunkWriter(exchange),
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
      reader: (quirks, request) => new ChunkReader(quirks, request),
      readAnswer,
      readError,
    },
    relabeler: (exchange) => new ChunkRelabeler(exchange),
  },
  unwrapping,
  endingAtStops,
)
