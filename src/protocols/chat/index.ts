import { readError, writeError } from '../openai-error.ts'
import type { Protocol } from '../protocol.ts'
import { asAsked } from '../transforms.ts'
import { unwrapping } from '../schema/wrapping.ts'
import { endingAtStops } from '../stop-sequences.ts'
import { forward, readAnswer } from './passthrough.ts'
import { writeRequest } from './write-request.ts'
import { ChunkReader } from './read-response.ts'
import { ChunkPassthrough } from './passthrough-response.ts'
import { writeAnswer } from './write-response.ts'
import { references } from './references.ts'
import { readRequest } from './read-request.ts'
import { ChunkWriter } from './write-response-stream.ts'

/** OpenAI's chat completions, and what compatible servers made of it. */
export const chat: Protocol = asAsked(
  {
    name: 'chat.completions',
    serve: {
      readRequest,
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
      reader: (quirks, request) => new ChunkReader(quirks, request),
      readAnswer,
      readError,
    },
    passthrough: (context) => new ChunkPassthrough(context),
  },
  unwrapping,
  endingAtStops,
)
