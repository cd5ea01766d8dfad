import type { GenerationRequest, Part, ProtocolName } from '../../src/generation/request.ts'
import { protocols } from '../../src/protocols/index.ts'
import type { Target } from '../../src/protocols/protocol.ts'
import type { RequestPaths } from '../../src/protocols/request-paths.ts'
import { SchemaCache } from '../../src/protocols/schema/cache.ts'
import { type Loss, Translation } from '../../src/protocols/translation.ts'

/**
 * Generated requests have no client's body: their losses have paths in the request itself, such as
 * `sampling.temperature` and `turns[2].parts[0].detail`.
 */
const paths: RequestPaths = {
  settings: {
    conversation: ['turns'],
    system: ['system'],
    cache: ['cache'],
    webSearch: ['webSearch'],
    toolChoice: ['toolChoice'],
    parallelTools: ['parallelTools'],
    temperature: ['sampling.temperature'],
    topP: ['sampling.topP'],
    topK: ['sampling.topK'],
    frequencyPenalty: ['sampling.frequencyPenalty'],
    presencePenalty: ['sampling.presencePenalty'],
    seed: ['sampling.seed'],
    stop: ['sampling.stop'],
    logitBias: ['sampling.logitBias'],
    logprobs: ['sampling.logprobs'],
    topLogprobs: ['sampling.topLogprobs'],
    maxOutputTokens: ['maxOutputTokens'],
    reasoning: ['reasoning'],
    'reasoning.effort': ['reasoning.effort'],
    'reasoning.off': ['reasoning.effort'],
    'reasoning.budgetTokens': ['reasoning.budgetTokens'],
    'reasoning.adaptive': ['reasoning.adaptive'],
    'reasoning.visible': ['reasoning.visible'],
    'reasoning.summary': ['reasoning.summary'],
    outputFormat: ['outputFormat'],
    'outputFormat.schema': ['outputFormat.schema'],
    'outputFormat.name': ['outputFormat.name'],
    verbosity: ['verbosity'],
    user: ['user'],
    metadata: ['metadata'],
    serviceTier: ['serviceTier'],
    cacheKey: ['cacheKey'],
    cacheRetention: ['cacheRetention'],
  },
  fields: {
    name: ['name'],
    detail: ['detail'],
    filename: ['filename'],
    cache: ['cache'],
    citations: ['citations'],
    signature: ['signature'],
    arguments: ['arguments'],
    content: ['content'],
    isError: ['isError'],
    parameters: ['parameters'],
    strict: ['strict'],
    format: ['format'],
  },
}

/** The body for a provider, and the losses with their paths in the request. */
export function writtenWithLosses(
  provider: ProtocolName,
  request: GenerationRequest,
  target: Target,
): { body: Record<string, unknown>; losses: Loss[] } {
  const body = request as unknown as Record<string, unknown>
  const translation = new Translation(located(request), target, { body }, paths, new SchemaCache())
  return { body: protocols[provider].call.writeRequest(translation), losses: translation.report.losses }
}

/** The request with the path of each element in the request itself. */
function located(request: GenerationRequest): GenerationRequest {
  const locate = <T extends Part>(parts: readonly T[], at: string): T[] =>
    parts.map((part, index) => {
      const path = `${at}[${index}]`
      return part.type === 'tool-result'
        ? { ...part, path, content: locate(part.content, `${path}.content`) }
        : { ...part, path }
    })
  return {
    ...request,
    system: locate(request.system, 'system'),
    turns: request.turns.map((turn, index) => ({
      ...turn,
      path: `turns[${index}]`,
      parts: locate(turn.parts, `turns[${index}].parts`),
    })),
    tools: request.tools.map((tool, index) => ({ ...tool, path: `tools[${index}]` })),
  }
}
