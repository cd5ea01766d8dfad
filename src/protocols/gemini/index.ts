import { asAsked } from '../as-asked.ts'
import type { Protocol } from '../protocol.ts'
import { endingAtStops } from '../stop-cut.ts'
import { forward, headers, path, readError } from './call.ts'
import { writeRequest } from './call-request.ts'
import { ChunkReader, readAnswer } from './call-stream.ts'
import { ChunkRelabeler } from './relabel.ts'
import { readRequest, writeAnswer, writeError } from './serve.ts'
import { checkThinking } from './serve-config.ts'
import { references } from './serve-references.ts'
import { ChunkWriter } from './serve-stream.ts'

/** Google's generateContent. No keep-alive: its Python client takes a comment line for JSON. */
export const gemini: Protocol = asAsked(
  {
    name: 'generateContent',
    serve: {
      readRequest,
      references,
      checkModel: checkThinking,
      writer: (exchange) => new ChunkWriter(exchange),
      writeAnswer,
      writeError,
      idPrefix: '',
    },
    call: {
      path,
      headers,
      writeRequest,
      forward,
      reader: (_quirks, request) => new ChunkReader(request),
      readAnswer,
      argumentsIn: 'args',
      readError,
    },
    relabeler: (exchange) => new ChunkRelabeler(exchange),
  },
  endingAtStops,
)
