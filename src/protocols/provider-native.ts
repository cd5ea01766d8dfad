import { GatewayError } from '../error.ts'
import type { NativePart, GenerationRequest, Tool } from '../generation/request.ts'

type Native = NativePart | (Tool & { type: 'native' })

/**
 * What only the client's protocol has is refused by name for a provider of another, but for what a model can do
 * without; so are more stop sequences than Sluice looks for.
 */
export function refuseNative(request: GenerationRequest): void {
  refuseStops(request)
  for (const parts of [request.system, ...request.turns.map((turn) => turn.parts)]) {
    for (const part of parts.flatMap((one) => (one.type === 'tool-result' ? one.content : [one])))
      if (part.type === 'native') refuse(part, 'takes no content')
  }
}

/** Every piece of an answer is searched for stop sequences that its provider is not sent. */
const STOPS_MAX = 64
const STOP_LENGTH_MAX = 1_000

function refuseStops({ sampling: { stop = [] } }: GenerationRequest): void {
  if (stop.length <= STOPS_MAX && stop.every(({ length }) => length <= STOP_LENGTH_MAX)) return
  throw new GatewayError(
    'invalid_request',
    `must be at most ${STOPS_MAX} sequences of up to ${STOP_LENGTH_MAX} characters: the provider of this model speaks another protocol`,
    { param: 'stop' },
  )
}

export const refuseTool = (tool: Tool & { type: 'native' }): void => refuse(tool, 'has no tool')

function refuse({ kind, path = kind, optional }: Native, what: string): void {
  if (optional !== true)
    throw new GatewayError(
      'unsupported_parameter',
      `${path}: the provider of this model ${what} of the type '${kind.slice(0, 64)}'. Leave it out, or ask a model whose provider speaks the protocol of this request.`,
      { param: path },
    )
}
