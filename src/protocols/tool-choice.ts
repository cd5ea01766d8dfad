import type { GenerationRequest, ToolChoice } from '../generation/request.ts'
import type { Capabilities, Loss } from './protocol.ts'

export const forces = (choice: ToolChoice | undefined): boolean =>
  choice !== undefined &&
  (choice.type === 'required' || choice.type === 'tool' || (choice.type === 'allowed' && choice.required))

/** The choice, left to the model where it lets no call be forced. */
export function unforced(
  choice: ToolChoice,
  { forcedTools }: Pick<Capabilities, 'forcedTools'>,
  reasons: boolean,
  losses: Loss[],
): ToolChoice {
  if (!forces(choice) || !(forcedTools === false || (forcedTools === 'idle' && reasons))) return choice
  losses.push({
    field: 'toolChoice',
    what: 'approximated',
    why: `the model lets no call be forced${forcedTools === 'idle' ? ' while it reasons' : ''}; it decides`,
  })
  return choice.type === 'allowed' ? { ...choice, required: false } : { type: 'auto' }
}

/** Of a choice that forces a call, where the provider has no function that it could be of. */
export function lossesOfChoice({ toolChoice, webSearch }: GenerationRequest): Loss[] {
  if (!forces(toolChoice)) return []
  return [
    webSearch === undefined
      ? { field: 'toolChoice', what: 'left out', why: 'there are no tools to choose from' }
      : { field: 'toolChoice', what: 'approximated', why: 'the model decides whether it searches' },
  ]
}
