import { EFFORTS, type Effort, type GenerationRequest, type Reasoning } from '../../generation/request.ts'
import { loseEffort, nearestEffort } from '../capabilities.ts'
import { isObject } from '../../json/parse.ts'
import { present } from '../fields.ts'
import type { Capabilities, Target } from '../protocol.ts'
import { effortOfBudget } from '../reasoning-effort.ts'
import type { Translation } from '../translation.ts'
import { loseSettings } from '../unsupported-settings.ts'
import type { Json } from './shapes.ts'

/** The fields that ask for reasoning, in the form of this provider. */
export function writeReasoning({ reasoning, maxOutputTokens }: GenerationRequest, translation: Translation): Json {
  const { target } = translation
  const { quirks, capabilities } = target
  if (reasoning === undefined) return {}
  if (quirks.effortField !== 'reasoning') loseSettings(translation, ['reasoning.summary'], 'unsupported_field')
  if (capabilities.reasoning === 'none') {
    if (reasoning.effort !== 'none' && reasoning.budgetTokens !== 0)
      translation.lose('reasoning_unsupported', translation.setting('reasoning'))
    return {}
  }
  const effort = writeEffort(reasoning, target, translation)
  const enabled = reasoning.adaptive === true || reasoning.budgetTokens === -1
  switch (quirks.effortField) {
    case 'reasoning':
      return writeObject(reasoning, effort, enabled, maxOutputTokens, translation)
    case 'thinking':
      return effort === 'none'
        ? { thinking: { type: 'disabled' } }
        : {
            ...(enabled || effort !== undefined ? { thinking: { type: 'enabled' } } : {}),
            ...present('reasoning_effort', effort),
          }
    default:
      if (reasoning.adaptive === true && effort === undefined)
        translation.lose('reasoning_adjusted', translation.setting('reasoning.adaptive'))
      return present('reasoning_effort', effort)
  }
}

/** These fields do not switch reasoning off. */
export function mayReason({ reasoning, thinking, reasoning_effort: effort }: Json): boolean {
  if (isObject(reasoning)) return reasoning.effort !== 'none'
  return isObject(thinking) ? thinking.type !== 'disabled' : effort !== 'none'
}

/** OpenRouter's `reasoning` object. */
function writeObject(
  { budgetTokens, visible, summary }: Reasoning,
  effort: Effort | undefined,
  enabled: boolean,
  maxOutputTokens: number | undefined,
  translation: Translation,
): Json {
  const { target } = translation
  const budget =
    takesBudgets(target) && budgetTokens !== undefined && budgetTokens > 0
      ? writeBudget(budgetTokens, maxOutputTokens, target.capabilities, translation)
      : undefined
  if (budget !== undefined && effort !== undefined) loseEffort(translation)
  const written = {
    ...(budget !== undefined
      ? { max_tokens: budget }
      : effort !== undefined
        ? { effort }
        : enabled
          ? { enabled: true }
          : {}),
    ...(visible === undefined ? {} : { exclude: !visible }),
    ...(summary === undefined || summary === 'none' ? {} : { summary }),
  }
  return Object.keys(written).length > 0 ? { reasoning: written } : {}
}

/** Only OpenRouter's object has budgets. */
const takesBudgets = ({ quirks, capabilities: { reasoning = 'budget' } }: Target): boolean =>
  quirks.effortField === 'reasoning' && reasoning === 'budget'

/**
 * A budget that the model accepts and that leaves room for a response, since the limit counts reasoning too; undefined
 * where there is none.
 */
function writeBudget(
  requested: number,
  limit = Infinity,
  { budget: { min, max } = { min: 1, max: Infinity } }: Capabilities,
  translation: Translation,
): number | undefined {
  const bounded = Math.min(Math.max(requested, min), max)
  const budget = bounded < limit ? bounded : Math.floor(limit * 0.8)
  const path = translation.setting('reasoning.budgetTokens')
  if (budget < min)
    translation.lose(
      'reasoning_not_possible',
      path,
      `the limit of ${limit} output tokens leaves no room for the smallest budget of ${min}`,
    )
  else if (budget !== requested)
    translation.lose('budget_adjusted', path, `the model and the output limit allow ${budget} tokens`)
  return budget < min ? undefined : budget
}

/** Efforts that compatible servers know, for models whose own are not known. */
const USUAL_EFFORTS = EFFORTS.filter((effort) => effort !== 'max')

/** The effort to send, also for a budget that the provider does not take; a budget of 0 is the effort `none`. */
function writeEffort(
  { effort, budgetTokens }: Reasoning,
  target: Target,
  translation: Translation,
): Effort | undefined {
  const { efforts = target.quirks.effortField === 'reasoning' ? EFFORTS : USUAL_EFFORTS } = target.capabilities
  const accepted = { efforts: [...efforts] }
  const budget =
    budgetTokens === 0 || (budgetTokens !== undefined && budgetTokens > 0 && !takesBudgets(target))
      ? budgetTokens
      : undefined
  const path = translation.setting('reasoning.budgetTokens')
  if (effort !== undefined) {
    if (budget !== undefined)
      translation.lose('unsupported_combination', path, 'the provider takes an effort instead of a budget')
    return nearestEffort(effort, accepted, 'reasoning.effort', translation)
  }
  const meant = budget === undefined ? undefined : effortOfBudget(budget)
  if (meant === undefined) return undefined
  const sent = nearestEffort(meant, accepted, 'reasoning.budgetTokens', translation)
  if (budget !== 0 && sent === meant)
    translation.lose('budget_as_effort', path, `the provider takes an effort instead of a budget: '${sent}'`)
  return sent
}
