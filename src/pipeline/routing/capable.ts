import type { GenerationRequest } from '../../generation/request.ts'
import type { Endpoint } from '../../providers/catalogue.ts'
import type { Candidates, Dropped } from './candidates.ts'

/** Bytes of a text per token, at most: a request that is too long by this estimate is too long. */
const MOST_BYTES_PER_TOKEN = 8

/** The demands of a request on its model. `textBytes`: of its body, if that is text only. */
type Demands = { hasTools: boolean; hasSchema: boolean; media: ReadonlySet<string>; textBytes: number }

/** Those of a conversation that is passed on unread, but for its tools and length. */
export const TEXT_ONLY: Demands = { hasTools: false, hasSchema: false, media: new Set(), textBytes: 0 }

const MEDIA: ReadonlySet<string> = new Set(['image', 'audio', 'video', 'file'])

/** The demands of a request that was read. */
export function demandsOf({ tools, outputFormat, turns }: GenerationRequest, bodyBytes: number): Demands {
  const media = new Set<string>()
  for (const { parts } of turns) for (const { type } of parts) if (MEDIA.has(type)) media.add(type)
  return {
    hasTools: tools.length > 0,
    hasSchema: outputFormat?.type === 'schema',
    media,
    textBytes: media.size === 0 ? bodyBytes : 0,
  }
}

/**
 * Leaves out the endpoints whose models are known not to serve a request, where others are left. Where none is, all
 * are: their providers say what is wrong.
 */
export function capableEndpoints(
  endpoints: readonly Endpoint[],
  demands: () => Demands,
): Pick<Candidates, 'endpoints' | 'dropped'> {
  if (endpoints.length === 1) return { endpoints, dropped: [] }
  const demanded = demands()
  const dropped: Dropped[] = []
  const capable = endpoints.filter((endpoint) => {
    const reason = incapacity(endpoint, demanded)
    if (reason !== undefined) dropped.push({ endpoint, reason })
    return reason === undefined
  })
  return capable.length === 0 || dropped.length === 0 ? { endpoints, dropped: [] } : { endpoints: capable, dropped }
}

function incapacity({ target, contextLength }: Endpoint, demands: Demands): string | undefined {
  const { tools, structuredOutput, input } = target.capabilities
  if (demands.hasTools && tools === false) return 'its model has no tools'
  if (demands.hasSchema && structuredOutput === false) return 'its model has no structured output'
  for (const kind of demands.media)
    if (input !== undefined && !(input as readonly string[]).includes(kind)) return `its model does not read ${kind}`
  return contextLength !== undefined && demands.textBytes > contextLength * MOST_BYTES_PER_TOKEN
    ? `the request is longer than its context of ${contextLength} tokens`
    : undefined
}
