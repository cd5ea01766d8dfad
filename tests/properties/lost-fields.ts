import type { GenerationRequest, Part } from '../../src/generation/request.ts'
import type { Loss } from '../../src/protocols/translation.ts'
import {
  type Edit,
  everyPart,
  without,
  withoutFields,
  withoutInParts,
  withoutInTools,
  withoutReasoning,
  withoutSampling,
} from './request-edits.ts'

/** Takes out of a comparison what the losses of a request report. */

const withoutReasoningAmount = withoutReasoning('effort', 'budgetTokens', 'adaptive')

/** The fields of a loss by its path without indices, with the code where several kinds of losses have one path. */
const LOST: Partial<Record<string, Edit>> = {
  'turns[].name': (request) => ({ ...request, turns: request.turns.map((turn) => without(turn, 'name')) }),
  'turns[].parts[] reasoning_dropped': everyPart((part) => (part.type === 'reasoning' ? [] : [part])),
  'turns[].parts[] signature_replaced': withoutInParts('signature'),
  'turns[].parts[].signature': withoutInParts('signature'),
  'turns[].parts[].detail': withoutInParts('detail'),
  'turns[].parts[].content[].detail': withoutInParts('detail'),
  'turns[].parts[].filename': withoutInParts('filename'),
  'turns[].parts[].cache': withoutInParts('cache'),
  'system[].cache': withoutInParts('cache'),
  'tools[].cache': withoutInTools('cache'),
  'tools[].strict': withoutInTools('strict'),
  toolChoice: (request) => ({ ...without(request, 'toolChoice'), tools: [] }),
  parallelTools: withoutFields('parallelTools'),
  'sampling.temperature': withoutSampling('temperature'),
  'sampling.topP': withoutSampling('topP'),
  'sampling.topK': withoutSampling('topK'),
  'sampling.frequencyPenalty': withoutSampling('frequencyPenalty'),
  'sampling.presencePenalty': withoutSampling('presencePenalty'),
  'sampling.seed': withoutSampling('seed'),
  'sampling.stop': withoutSampling('stop'),
  'sampling.logitBias': withoutSampling('logitBias'),
  'sampling.logprobs': withoutSampling('logprobs', 'topLogprobs'),
  maxOutputTokens: withoutFields('maxOutputTokens'),
  reasoning: withoutFields('reasoning'),
  'reasoning.effort': withoutReasoningAmount,
  'reasoning.budgetTokens': withoutReasoningAmount,
  'reasoning.adaptive': withoutReasoningAmount,
  'reasoning.visible': withoutReasoning('visible'),
  'reasoning.summary': withoutReasoning('summary'),
  // The format may be described in the instructions instead.
  outputFormat: (request) => ({
    ...without(request, 'outputFormat'),
    system: request.system.flatMap((part): Part[] =>
      part.type !== 'text'
        ? [part]
        : [part.text.replace(DESCRIBED_FORMAT, '')]
            .filter((text) => text !== '' || part.text === '')
            .map((text) => ({ ...part, text })),
    ),
  }),
  verbosity: withoutFields('verbosity'),
  user: withoutFields('user'),
  metadata: withoutFields('metadata'),
  serviceTier: withoutFields('serviceTier'),
  cacheKey: withoutFields('cacheKey'),
}

/** Once for each of the protocols that a request went through. */
const DESCRIBED_FORMAT = /((\n\n)?Answer with a JSON object, and with nothing else: no code block around it\.)+$/

/** The request without the fields that these losses concern, in all of its elements. */
export const withoutLost = (request: GenerationRequest, losses: readonly Loss[]): GenerationRequest => {
  const edits = losses.map(({ code, path }) => {
    const field = path.replaceAll(/\[\d+\]/g, '[]')
    const edit = LOST[field] ?? LOST[`${field} ${code}`]
    if (edit === undefined) throw new Error(`unexpected loss for such a request: ${code} at ${path}`)
    return edit
  })
  return [...new Set(edits)].reduce((left, edit) => edit(left), request)
}

/** The request without exactly the values that were dropped. Throws for a loss whose path is not in the request. */
export function withoutDropped(request: GenerationRequest, losses: readonly Loss[]): GenerationRequest {
  const left = structuredClone(request)
  const dropped = losses.map(({ code, path, effect }) => {
    const steps = path.match(/[^.[\]]+/g)!
    const last = steps.pop()!
    const holder = steps.reduce<any>((value, step) => value?.[step], left)
    if (holder?.[last] === undefined) throw new Error(`${code}: nothing in the request is at ${path}`)
    return { holder, last, effect }
  })
  const elements = new Set<unknown>()
  for (const { holder, last, effect } of dropped) {
    if (effect !== 'dropped') continue
    if (Array.isArray(holder)) elements.add(holder[Number(last)])
    else delete holder[last]
    // Without log probabilities there are no alternatives to return.
    if (last === 'logprobs') delete holder.topLogprobs
  }
  for (const turn of left.turns) turn.parts = turn.parts.filter((part) => !elements.has(part))
  return left
}
