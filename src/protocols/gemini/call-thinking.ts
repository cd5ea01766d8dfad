import type { Effort, Reasoning } from '../../generation/request.ts'
import type { Abilities, Loss } from '../protocol.ts'

/** Tokens per effort, as Google documents them for OpenAI's words; the last two are the largest budgets of its models. */
const BUDGETS: Record<Exclude<Effort, 'none'>, number> = { minimal: 1024, low: 1024, medium: 8192, high: 24576, xhigh: 32768, max: 32768 }
const LEVELS: Record<Effort, string> = { none: 'MINIMAL', minimal: 'MINIMAL', low: 'LOW', medium: 'MEDIUM', high: 'HIGH', xhigh: 'HIGH', max: 'HIGH' }

/** `thinkingConfig` by what the model takes: a level, or a budget (also where nothing is known of it). Never both. */
export function writeThinking(reasoning: Reasoning | undefined, abilities: Abilities, losses: Loss[]): Record<string, unknown> | undefined {
  if (reasoning === undefined) return undefined
  if (abilities.reasoning === 'none') {
    // Google refuses thinkingConfig on a model that does not think.
    if (reasoning.effort !== 'none') losses.push({ field: 'reasoning', what: 'left out', why: 'the model does not reason' })
    return undefined
  }
  const depth = abilities.reasoning === 'level' ? writeLevel(reasoning, losses) : writeBudget(reasoning, abilities.budget, losses)
  const visible = reasoning.visible !== false && reasoning.effort !== 'none'
  return visible || depth !== undefined ? { ...depth, ...(visible ? { includeThoughts: true } : {}) } : undefined
}

function writeLevel({ effort, budgetTokens }: Reasoning, losses: Loss[]): Record<string, unknown> | undefined {
  if (budgetTokens !== undefined && budgetTokens >= 0) {
    const level = budgetTokens <= BUDGETS.low ? 'LOW' : budgetTokens <= BUDGETS.medium ? 'MEDIUM' : 'HIGH'
    losses.push({ field: 'reasoning.budgetTokens', what: 'approximated', why: `the model takes levels: sent as ${level}` })
    return { thinkingLevel: level }
  }
  if (effort === undefined) return undefined
  if (effort === 'none' || effort === 'xhigh' || effort === 'max') losses.push({ field: 'reasoning.effort', what: 'approximated', why: `the model has no such level: sent as ${LEVELS[effort]}` })
  return { thinkingLevel: LEVELS[effort] }
}

function writeBudget({ effort, budgetTokens, adaptive }: Reasoning, range: Abilities['budget'], losses: Loss[]): Record<string, unknown> | undefined {
  if (budgetTokens !== undefined && budgetTokens >= 0) return { thinkingBudget: fit(budgetTokens, range, 'reasoning.budgetTokens', losses) }
  if (effort === 'none') return { thinkingBudget: fit(0, range, 'reasoning.effort', losses) }
  if (effort !== undefined) {
    const budget = BUDGETS[effort]
    // The table is an agreement about words; a smaller model's own largest budget is what its `high` means.
    return { thinkingBudget: range === undefined ? budget : Math.min(Math.max(budget, range.min), range.max) }
  }
  return budgetTokens === -1 || adaptive === true ? { thinkingBudget: -1 } : undefined
}

function fit(budget: number, range: Abilities['budget'], field: 'reasoning.budgetTokens' | 'reasoning.effort', losses: Loss[]): number {
  const fitting = range === undefined ? budget : Math.min(Math.max(budget, range.min), range.max)
  if (fitting !== budget) losses.push({ field, what: 'approximated', why: `the model takes ${range!.min} to ${range!.max} tokens: sent as ${fitting}` })
  return fitting
}
