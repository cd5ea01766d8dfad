import { GatewayError } from '../error.ts'
import type { ForeignPart, GenerationRequest, Tool } from '../generation/request.ts'

type Foreign = ForeignPart | (Tool & { type: 'foreign' })

/** What only the client's protocol has is refused by name for a provider of another, but for what a model can do without. */
export function refuseForeign(request: Pick<GenerationRequest, 'turns' | 'system'>): void {
  for (const parts of [request.system, ...request.turns.map((turn) => turn.parts)]) {
    for (const part of parts.flatMap((one) => (one.type === 'tool-result' ? one.content : [one]))) if (part.type === 'foreign') refuse(part, 'takes no content')
  }
}

export const refuseTool = (tool: Tool & { type: 'foreign' }): void => refuse(tool, 'has no tool')

function refuse({ kind, path = kind, optional }: Foreign, what: string): void {
  if (optional !== true) throw new GatewayError('unsupported_parameter', `${path}: the provider of this model ${what} of the type '${kind.slice(0, 64)}'. Leave it out, or ask a model whose provider speaks the protocol of this request.`, { param: path })
}
