import type { FinishReason } from '../../generation/event.ts'
import type { GenerationRequest } from '../../generation/request.ts'
import { callSubject } from './conversation.ts'
import type { PlannedPart } from './plan-parts.ts'
import type { ScriptedResponse, Step } from './script.ts'
import { sign } from './signatures.ts'
import { countTokens, cutTokens } from './tokens.ts'

type Finish = { reason: FinishReason; stopSequence?: string }

export type Plan = { parts: PlannedPart[]; finish: Finish }

/** Adds signatures where each protocol has them: on the reasoning, except for Google's protocol. */
export function signParts(
  parts: PlannedPart[],
  steps: readonly Step[],
  { protocol }: GenerationRequest,
): PlannedPart[] {
  const reasoningSteps = steps.filter((step) => step.kind === 'think')
  if (protocol === 'generateContent') {
    const isUnsigned = reasoningSteps.some((step) => step.signing === 'unsigned')
    return isUnsigned ? parts : signAsGemini(parts, reasoningSteps.length > 0)
  }
  let reasoningParts = 0
  return parts.map((part) => {
    if (part.head.type !== 'reasoning') return part
    const step = reasoningSteps[reasoningParts]
    reasoningParts += 1
    return step?.signing === 'unsigned' ? part : { ...part, signature: sign('reasoning', part.text, protocol) }
  })
}

/** Gemini signs the first call of every response; without a call, and after reasoning, the last text. */
function signAsGemini(parts: PlannedPart[], hasReasoning: boolean): PlannedPart[] {
  const firstCall = parts.findIndex((part) => part.head.type === 'tool-call')
  const lastText = hasReasoning ? parts.findLastIndex((part) => part.head.type === 'text') : -1
  const signedIndex = firstCall >= 0 ? firstCall : lastText
  return parts.map((part, index) => (index === signedIndex ? { ...part, signature: geminiSignature(part) } : part))
}

const geminiSignature = ({ head, text }: PlannedPart): string =>
  head.type === 'tool-call'
    ? sign('call', callSubject(head.name, text), 'generateContent')
    : sign('text', text, 'generateContent')

/** Cuts the parts at a stop sequence and at the token limit, and determines the finish reason. */
export function finishPlan(parts: PlannedPart[], request: GenerationRequest, scripted: ScriptedResponse): Plan {
  const kept: PlannedPart[] = []
  let tokensLeft = request.maxOutputTokens ?? Infinity
  let cut: Finish | undefined
  for (const part of parts) {
    const { part: shortened, finish } = cutPart(part, tokensLeft, request)
    if (shortened !== undefined) {
      kept.push(shortened)
      tokensLeft -= shortened.tokens ?? countTokens(shortened.text)
    }
    cut = finish
    if (cut !== undefined) break
  }
  return { parts: kept, finish: finishOf(kept, cut, request, scripted) }
}

/** `finish` is set if the part was cut. An image beyond the token limit is left out. */
function cutPart(
  part: PlannedPart,
  tokensLeft: number,
  request: GenerationRequest,
): { part?: PlannedPart; finish?: Finish } {
  if (part.tokens !== undefined) return part.tokens > tokensLeft ? { finish: { reason: 'length' } } : { part }
  const stop = part.head.type === 'text' ? firstStop(part.text, request.sampling.stop) : undefined
  const untilStop = stop === undefined ? part.text : part.text.slice(0, stop.index)
  const text = cutTokens(untilStop, tokensLeft)
  const shortened = { ...part, text }
  // A reasoning signature is bound to the text, so cut text needs a new one.
  if (part.head.type === 'reasoning' && part.signature !== undefined && text !== part.text)
    shortened.signature = sign('reasoning', text, request.protocol)
  if (text !== untilStop) return { part: shortened, finish: { reason: 'length' } }
  if (stop === undefined) return { part: shortened }
  return { part: shortened, finish: { reason: 'stop-sequence', stopSequence: stop.sequence } }
}

function finishOf(
  parts: readonly PlannedPart[],
  cut: Finish | undefined,
  request: GenerationRequest,
  { finish, stopSequence }: ScriptedResponse,
): Finish {
  const { reason, ...stopped }: Finish =
    stopSequence === undefined
      ? (cut ?? { reason: naturalFinish(parts) })
      : {
          reason: 'stop-sequence',
          stopSequence: stopSequence === true ? (request.sampling.stop?.[0] ?? 'STOP') : stopSequence,
        }
  return { reason: finish ?? reason, ...stopped }
}

const naturalFinish = (parts: readonly PlannedPart[]): FinishReason => {
  if (parts.some((part) => part.head.type === 'tool-call')) return 'tool-calls'
  return parts.some((part) => part.head.type === 'refusal') ? 'refusal' : 'stop'
}

/** The stop sequence that occurs first in the text. */
function firstStop(
  text: string,
  stopSequences: readonly string[] = [],
): { index: number; sequence: string } | undefined {
  let first: { index: number; sequence: string } | undefined
  for (const sequence of stopSequences) {
    const index = sequence === '' ? -1 : text.indexOf(sequence)
    if (index >= 0 && (first === undefined || index < first.index)) first = { index, sequence }
  }
  return first
}
