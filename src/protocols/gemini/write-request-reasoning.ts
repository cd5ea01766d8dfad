import type { Effort, Reasoning } from '../../generation/request.ts'
import type { Translation } from '../translation.ts'
import type { SettingName } from '../request-paths.ts'
import { nearestEffort } from '../capabilities.ts'
import type { Capabilities } from '../protocol.ts'

/**
 * Tokens per effort, as Google documents them for OpenAI's words; the last two are the largest budgets of its models.
 */
const BUDGETS: Record<Exclude<Effort, 'none'>, number> = {
  minimal: 1024,
  low: 1024,
  medium: 8192,
  high: 24576,
  xhigh: 32768,
  max: 32768,
}
// What the protocol knows, where it is not known what the model takes.
const LEVELS: Effort[] = ['minimal', 'low', 'medium', 'high']

/** `thinkingConfig` by what the model takes: a level, or a budget (also where nothing is known of it). Never both. */
export function writeThinking(
  reasoning: Reasoning | undefined,
  capabilities: Capabilities,
  translation: Translation,
): Record<string, unknown> | undefined {
  if (reasoning === undefined) return undefined
  if (capabilities.reasoning === 'none') {
    // Google refuses thinkingConfig on a model that does not think.
    if (reasoning.effort !== 'none')
      translation.lose('todo_dropped', translation.setting('reasoning'), 'the model does not reason')
    return undefined
  }
  const depth =
    capabilities.reasoning === 'level'
      ? writeLevel(reasoning, capabilities, translation)
      : writeBudget(reasoning, capabilities.budget, translation)
  const visible = reasoning.visible !== false && reasoning.effort !== 'none'
  return visible || depth !== undefined ? { ...depth, ...(visible ? { includeThoughts: true } : {}) } : undefined
}

function writeLevel(
  { effort, budgetTokens }: Reasoning,
  { efforts = LEVELS }: Capabilities,
  translation: Translation,
): Record<string, unknown> | undefined {
  const budget = budgetTokens !== undefined && budgetTokens >= 0 ? budgetTokens : undefined
  const meant =
    budget === undefined
      ? effort
      : budget === 0
        ? 'none'
        : budget <= BUDGETS.low
          ? 'low'
          : budget <= BUDGETS.medium
            ? 'medium'
            : 'high'
  if (meant === undefined) return undefined
  const field = budget === undefined ? 'reasoning.effort' : 'reasoning.budgetTokens'
  const near = nearestEffort(meant, { efforts }, field, translation)
  if (near !== undefined && near === meant && budget !== undefined)
    translation.lose(
      'todo_approximated',
      translation.setting(field as SettingName),
      `the model takes levels: sent as ${near.toUpperCase()}`,
    )
  return near === undefined ? undefined : { thinkingLevel: near.toUpperCase() }
}

function writeBudget(
  { effort, budgetTokens, adaptive }: Reasoning,
  range: Capabilities['budget'],
  translation: Translation,
): Record<string, unknown> | undefined {
  if (budgetTokens !== undefined && budgetTokens >= 0)
    return { thinkingBudget: fit(budgetTokens, range, 'reasoning.budgetTokens', translation) }
  if (effort === 'none') return { thinkingBudget: fit(0, range, 'reasoning.effort', translation) }
  if (effort !== undefined) {
    const budget = BUDGETS[effort],
      thinkingBudget = fit(budget, range, 'reasoning.effort', translation)
    if (thinkingBudget === budget)
      translation.lose(
        'todo_approximated',
        translation.setting('reasoning.effort'),
        `the model takes a budget instead of an effort: ${budget} tokens`,
      )
    return { thinkingBudget }
  }
  return budgetTokens === -1 || adaptive === true ? { thinkingBudget: -1 } : undefined
}

function fit(
  budget: number,
  range: Capabilities['budget'],
  field: 'reasoning.budgetTokens' | 'reasoning.effort',
  translation: Translation,
): number {
  const fitting =
    range === undefined || (budget === 0 && range.off === true)
      ? budget
      : Math.min(Math.max(budget, range.min), range.max)
  if (fitting !== budget)
    translation.lose(
      'todo_approximated',
      translation.setting(field as SettingName),
      `the model takes ${range!.min} to ${range!.max} tokens: sent as ${fitting}`,
    )
  return fitting
}
