import { readError, writeError } from '../openai-error.ts'
import { asAsked } from '../transforms.ts'
import type { Protocol } from '../protocol.ts'
import { unwrapping } from '../schema/wrapping.ts'
import { endingAtStops } from '../stop-sequences.ts'
import { renaming } from '../tool-names.ts'
import { readAnswer, reader } from './read-response.ts'
import { headers, path, writeRequest } from './write-request.ts'
import { forward } from './passthrough.ts'
import { ResponsePassthrough } from './passthrough-response.ts'
import { references } from './references.ts'
import { ResponseWriter } from './write-response-stream.ts'
import { readRequest, writeAnswer } from './read-request.ts'

/** OpenAI's responses protocol (specification: "Responses" and "Events"). */
export const responses: Protocol = asAsked(
  {
    name: 'responses',
    serve: {
      readRequest,
      references,
      writer: (context) => new ResponseWriter(context),
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
    passthrough: (context) => new ResponsePassthrough(context),
  },
  unwrapping,
  renaming,
  endingAtStops,
)
