import type { Effort, Reasoning } from '../../generation/request.ts'
import { loseBesideOff, loseEffort, nearestEffort } from '../capabilities.ts'
import type { Capabilities } from '../protocol.ts'
import { budgetOfEffort, effortOfBudget } from '../reasoning-effort.ts'
import type { Translation } from '../translation.ts'

type Json = Record<string, unknown>

/** The levels of the protocol, for models whose own are not known. */
const LEVELS: Effort[] = ['minimal', 'low', 'medium', 'high']

/**
 * `thinkingConfig` with what the model takes: a level, or a budget, also where nothing is known of the model. Google
 * refuses both together.
 */
export function writeReasoning(reasoning: Reasoning | undefined, translation: Translation): Json | undefined {
  if (reasoning === undefined) return undefined
  const { capabilities } = translation.target
  if (capabilities.reasoning === 'none') {
    // Google refuses `thinkingConfig` for such a model.
    if (reasoning.effort !== 'none' && reasoning.budgetTokens !== 0)
      translation.lose('reasoning_unsupported', translation.setting('reasoning'))
    return undefined
  }
  const effort =
    capabilities.reasoning === 'level'
      ? writeLevel(reasoning, capabilities, translation)
      : writeBudget(reasoning, capabilities.budget, translation)
  // Google refuses to show the thoughts of a model that must not think.
  const visible = reasoning.visible !== false && reasoning.effort !== 'none' && reasoning.budgetTokens !== 0
  return visible || effort !== undefined ? { ...effort, ...(visible ? { includeThoughts: true } : {}) } : undefined
}

function writeLevel(
  { effort, budgetTokens }: Reasoning,
  { efforts = LEVELS }: Capabilities,
  translation: Translation,
): Json | undefined {
  const isBudget = budgetTokens !== undefined && budgetTokens >= 0 && (effort === undefined || budgetTokens === 0)
  const meant = isBudget ? effortOfBudget(budgetTokens) : effort
  if (meant === undefined) return undefined
  const setting = isBudget ? 'reasoning.budgetTokens' : 'reasoning.effort'
  const sent = nearestEffort(meant, { efforts }, setting, translation)
  if (budgetTokens === 0) loseBesideOff({ effort }, translation)
  if (budgetTokens !== undefined && budgetTokens > 0) {
    const path = translation.setting('reasoning.budgetTokens')
    const reason = 'the provider takes an effort instead of a budget'
    if (!isBudget) translation.lose('unsupported_combination', path, reason)
    else if (sent === meant) translation.lose('budget_as_effort', path, `${reason}: '${sent}'`)
  }
  return sent === undefined ? undefined : { thinkingLevel: sent.toUpperCase() }
}

function writeBudget(
  { effort, budgetTokens, adaptive }: Reasoning,
  range: Capabilities['budget'],
  translation: Translation,
): Json | undefined {
  if (budgetTokens !== undefined && budgetTokens >= 0) {
    if (effort !== undefined) loseEffort(translation)
    const thinkingBudget = acceptedBudget(budgetTokens, range)
    if (thinkingBudget !== budgetTokens)
      translation.lose(
        'budget_adjusted',
        translation.setting('reasoning.budgetTokens'),
        `the model accepts ${range!.min} to ${range!.max} tokens: sent as ${thinkingBudget}`,
      )
    return { thinkingBudget }
  }
  if (effort !== undefined) return { thinkingBudget: writeEffort(effort, range, translation) }
  return budgetTokens === -1 || adaptive === true ? { thinkingBudget: -1 } : undefined
}

/** The budget for an effort; 0 switches reasoning off. */
function writeEffort(effort: Effort, range: Capabilities['budget'], translation: Translation): number {
  const budget = acceptedBudget(budgetOfEffort(effort), range)
  if (effort !== 'none')
    translation.lose(
      'effort_as_budget',
      translation.setting('reasoning.effort'),
      `the model takes a budget instead of an effort: ${budget} tokens`,
    )
  else if (budget !== 0)
    translation.lose(
      'effort_adjusted',
      translation.setting('reasoning.off'),
      `the model always reasons: sent as a budget of ${budget} tokens`,
    )
  return budget
}

function acceptedBudget(budget: number, range: Capabilities['budget']): number {
  if (range === undefined || (budget === 0 && range.off === true)) return budget
  return Math.min(Math.max(budget, range.min), range.max)
}
