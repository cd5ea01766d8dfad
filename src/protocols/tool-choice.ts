import type { GenerationRequest, Reasoning, ToolChoice } from '../generation/request.ts'
import type { Capabilities } from './protocol.ts'
import type { Translation } from './translation.ts'

/** True if the choice forces a tool call. */
export const forcesCall = (choice: ToolChoice | undefined): boolean =>
  choice !== undefined &&
  (choice.type === 'required' || choice.type === 'tool' || (choice.type === 'allowed' && choice.required))

const asksForReasoning = ({ effort, budgetTokens, adaptive }: Reasoning = {}): boolean =>
  effort === undefined ? adaptive === true || (budgetTokens !== undefined && budgetTokens !== 0) : effort !== 'none'

/**
 * The request without reasoning if it forces a call and the model does only one of both: a program waits for the call,
 * while reasoning is a requested option. `reasonsByDefault`: the model reasons without being asked to.
 */
export function preferForcedCall(
  request: GenerationRequest,
  { forcedTools, efforts }: Pick<Capabilities, 'forcedTools' | 'efforts'>,
  reasonsByDefault: boolean,
  translation: Translation,
): GenerationRequest {
  const { reasoning, tools, toolChoice, webSearch } = request
  const isRequested = asksForReasoning(reasoning)
  const reasons = isRequested || (reasonsByDefault && reasoning?.effort !== 'none' && reasoning?.budgetTokens !== 0)
  const forces = forcesCall(toolChoice) && (tools.length > 0 || webSearch !== undefined)
  if (forcedTools !== 'idle' || !forces || !reasons || efforts?.includes('none') === false) return request
  translation.lose(
    'reasoning_not_possible',
    translation.setting(isRequested ? 'reasoning' : 'toolChoice'),
    'the model does not reason while a tool call is forced',
  )
  return { ...request, reasoning: { effort: 'none' } }
}

/** The choice, as `auto` if the model does not support forced calls. `reasons`: the model reasons in this request. */
export function acceptedToolChoice(
  choice: ToolChoice,
  { forcedTools }: Pick<Capabilities, 'forcedTools'>,
  reasons: boolean,
  translation: Translation,
): ToolChoice {
  if (!forcesCall(choice) || !(forcedTools === false || (forcedTools === 'idle' && reasons))) return choice
  translation.lose(
    'tool_choice_adjusted',
    translation.setting('toolChoice'),
    `the model does not support forced tool calls${forcedTools === 'idle' ? ' while it reasons' : ''}; sent as auto`,
  )
  return choice.type === 'allowed' ? { ...choice, required: false } : { type: 'auto' }
}

/** Reports a choice that forces a call in a request without functions. */
export function loseToolChoice(translation: Translation): void {
  const { toolChoice, webSearch } = translation.request
  if (!forcesCall(toolChoice)) return
  const path = translation.setting('toolChoice')
  if (webSearch === undefined) translation.lose('tool_choice_dropped', path)
  else translation.lose('tool_choice_adjusted', path, 'the model decides whether it searches')
}
