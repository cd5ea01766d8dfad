import type { GenerationRequest, ToolResultPart } from '../../generation/request.ts'
import type { Conversation } from './conversation.ts'
import { finishPlan, signParts, type Plan } from './plan-finish.ts'
import { describeMedia, planPart, type PlannedPart, type ReceivedRequest } from './plan-parts.ts'
import type { Step } from './script.ts'

const MAX_QUOTED_CHARACTERS = 500

/** The parts of the response in order, cut by stop sequences and the token limit as a model's would be. */
export function planResponse(request: GenerationRequest, conversation: Conversation, received: ReceivedRequest): Plan {
  const { scripted } = conversation
  if (scripted.empty === true) return { parts: [], finish: { reason: scripted.finish ?? 'stop' } }
  const steps = [...scripted.steps]
  if (!steps.some((step) => step.kind === 'think') && reasonsByDefault(request))
    steps.unshift({ kind: 'think', signing: 'signed' })
  if (!steps.some((step) => step.kind !== 'think')) steps.push(...defaultSteps(request, conversation))
  const parts: PlannedPart[] = []
  for (const step of steps) {
    const part = planPart(step, { request, conversation, received, earlier: parts })
    if (part !== undefined) parts.push(part)
  }
  return finishPlan(signParts(parts, steps, request), request, scripted)
}

/** True for a request that enables reasoning, unless its protocol would also need a separate option to show it. */
function reasonsByDefault({ reasoning, protocol }: GenerationRequest): boolean {
  if (reasoning === undefined || reasoning.effort === 'none' || reasoning.budgetTokens === 0) return false
  return protocol === 'responses' || reasoning.visible !== false
}

function defaultSteps(request: GenerationRequest, conversation: Conversation): Step[] {
  const { results, userText, media, hasEarlierResponse } = conversation
  const images = requestedImages(request)
  if (request.protocol === 'images') return images
  const forced = results.length === 0 ? forcedTool(request) : undefined
  if (forced !== undefined) return [{ kind: 'call', name: forced }]
  if (request.outputFormat !== undefined && request.outputFormat.type !== 'text') return [{ kind: 'json' }]
  if (results.length > 0) {
    const names = toolNamesByCallId(request)
    return [{ kind: 'reply', text: results.map((result) => describeResult(result, names)).join(' ') }]
  }
  const shortened =
    userText.length > MAX_QUOTED_CHARACTERS ? `${userText.slice(0, MAX_QUOTED_CHARACTERS)}...` : userText
  const quote = userText === '' ? 'You said nothing.' : `You said: "${shortened}".`
  const sent = media.length === 0 ? '' : ` You sent ${media.map(describeMedia).join(', ')}.`
  const introduction = hasEarlierResponse ? '' : " This is Sluice's sandbox, a simulator: no model was asked."
  return [{ kind: 'reply', text: quote + sent + introduction }, ...images]
}

const requestedImages = ({ outputModalities, imageOutput }: GenerationRequest): Step[] =>
  outputModalities?.includes('image') === true
    ? Array.from({ length: imageOutput?.count ?? 1 }, (): Step => ({ kind: 'image' }))
    : []

/** The tool that the model must call: the named one, or the first if any call will do. */
function forcedTool({ toolChoice, tools }: GenerationRequest): string | undefined {
  if (toolChoice?.type === 'tool') return toolChoice.name
  if (toolChoice?.type === 'allowed') return toolChoice.required ? toolChoice.names[0] : undefined
  return toolChoice?.type === 'required' ? tools.find((tool) => tool.type !== 'native')?.name : undefined
}

/** The first call wins if an id occurs twice. */
function toolNamesByCallId({ turns }: GenerationRequest): ReadonlyMap<string, string> {
  const names = new Map<string, string>()
  for (const { parts } of turns)
    for (const part of parts) if (part.type === 'tool-call' && !names.has(part.id)) names.set(part.id, part.name)
  return names
}

function describeResult(result: ToolResultPart, names: ReadonlyMap<string, string>): string {
  const name = result.name ?? names.get(result.callId) ?? result.callId
  const content = result.content
    .map((part) => (part.type === 'text' ? part.text : part.type === 'native' ? part.kind : describeMedia(part)))
    .join(' ')
  return `${name} ${result.isError === true ? 'failed' : 'returned'}: ${content === '' ? 'nothing' : content}.`
}
