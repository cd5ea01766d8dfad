import { readError, writeError } from '../openai-error.ts'
import { asAsked } from '../as-asked.ts'
import type { Protocol } from '../protocol.ts'
import { unwrapping } from '../schema/wrapping.ts'
import { endingAtStops } from '../stop-cut.ts'
import { renaming } from '../tool-names.ts'
import { readAnswer, reader } from './call-stream.ts'
import { headers, path, writeRequest } from './call.ts'
import { forward } from './forward.ts'
import { ResponseRelabeler } from './relabel.ts'
import { references } from './serve-references.ts'
import { ResponseWriter } from './serve-stream.ts'
import { readRequest, writeAnswer } from './serve.ts'

/** OpenAI's responses protocol (specification: "Responses" and "Events"). */
export const responses: Protocol = asAsked(
  {
    name: 'responses',
    serve: {
      readRequest,
      references,
      writer: (exchange) => new ResponseWriter(exchange),
      writeAnswer,
      writeError,
      keepAlive: ': keep-alive\n\n',
      idPrefix: 'resp_',
    },
    call: {
      path,
      headers,
      writeRequest,
      forward,
      reader: (_quirks, request) => reader(request),
      readAnswer,
      readError,
    },
    relabeler: (exchange) => new ResponseRelabeler(exchange),
  },
  unwrapping,
  renaming,
  endingAtStops,
)
