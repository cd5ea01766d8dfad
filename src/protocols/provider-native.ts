import { GatewayError, invalid } from '../error.ts'
import type { NativePart, Part, Tool, Turn } from '../generation/request.ts'
import { someElement } from './element-memory.ts'
import type { Translation } from './translation.ts'

type NativeElement = NativePart | (Tool & { type: 'native' })

/**
 * Throws for content that only the client's protocol has, unless it is optional, and for more stop sequences than
 * Sluice searches a response for.
 */
export function refuseNative(translation: Translation): void {
  const { request } = translation
  refuseStops(translation)
  for (const part of request.system) refusePart(part)
  if (someElement(request.turns, hasNative)) for (const { parts } of request.turns) parts.forEach(refusePart)
}

const hasNative = ({ parts }: Turn): boolean => parts.some(isOrHasNative)

const isOrHasNative = (part: Part): boolean =>
  part.type === 'native' || (part.type === 'tool-result' && part.content.some(isOrHasNative))

function refusePart(part: Part): void {
  if (part.type === 'tool-result') for (const inner of part.content) refusePart(inner)
  else if (part.type === 'native' && part.steps === undefined) refuse(part, 'content', 'Remove it')
}

/** Each delta of a response is searched for the stop sequences that its provider does not accept. */
const STOPS_MAX = 64
const STOP_LENGTH_MAX = 1_000

function refuseStops(translation: Translation): void {
  const { stop = [] } = translation.request.sampling
  if (stop.length <= STOPS_MAX && stop.every(({ length }) => length <= STOP_LENGTH_MAX)) return
  throw invalid(
    translation.setting('stop'),
    `must be at most ${STOPS_MAX} sequences of up to ${STOP_LENGTH_MAX} characters, ` +
      'since the provider of this model has another protocol',
  )
}

export const refuseTool = (tool: Tool & { type: 'native' }): void =>
  refuse(tool, 'tools', 'Define a function in its place')

function refuse({ protocol, kind, path = kind, optional }: NativeElement, elements: string, advice: string): void {
  if (optional === true) return
  throw new GatewayError(
    'unsupported_parameter',
    `${path}: the provider of this model does not support ${elements} of type '${kind.slice(0, 64)}'. ` +
      `${advice}, or use a model whose provider has the protocol '${protocol}'.`,
    { param: path },
  )
}
