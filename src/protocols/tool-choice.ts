import type { ToolChoice } from '../generation/request.ts'
import type { Capabilities } from './protocol.ts'
import type { Translation } from './translation.ts'

/** True if the choice forces a tool call. */
export const forcesCall = (choice: ToolChoice | undefined): boolean =>
  choice !== undefined &&
  (choice.type === 'required' || choice.type === 'tool' || (choice.type === 'allowed' && choice.required))

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
