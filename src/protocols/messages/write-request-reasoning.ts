import type { Effort, GenerationRequest, Reasoning } from '../../generation/request.ts'
import { loseBesideOff, loseEffort, limitOutputTokens, nearestEffort } from '../capabilities.ts'
import { present } from '../fields.ts'
import type { Capabilities } from '../protocol.ts'
import { budgetOfEffort, effortOfBudget } from '../reasoning-effort.ts'
import type { Translation } from '../translation.ts'
import type { Json } from './shapes.ts'

/** `max_tokens`, `thinking` and `output_config.effort`, which depend on each other. */
type ReasoningFields = { maxTokens: number; thinking?: Json; effort?: Effort }

/** Anthropic's smallest budget, tokens. */
const BUDGET_MIN = 1_024

/**
 * The limit where none is known: room for a turn of an agent, and what a request without a limit holds. A provider that
 * refuses it is asked again with a lower one.
 */
const ASSUMED_LIMIT = 32_768

/** Room for a response beside a budget that is chosen without a limit. */
const RESPONSE_TOKENS = 4_096

/** `allowsThinking`: a model with a thinking budget accepts the conversation. */
export function writeReasoning(
  request: GenerationRequest,
  allowsThinking: boolean,
  translation: Translation,
): ReasoningFields {
  const { target } = translation
  const { reasoning } = request
  const maxTokens = writeLimit(request, target.capabilities, translation)
  // Agents always request summaries: that alone does not switch reasoning on.
  if (
    reasoning === undefined ||
    (reasoning.effort === undefined && reasoning.budgetTokens === undefined && reasoning.adaptive !== true)
  )
    return { maxTokens }
  const { reasoning: method = 'budget', efforts } = target.capabilities
  if (method === 'none') {
    if (reasoning.effort !== 'none') translation.lose('reasoning_unsupported', translation.setting('reasoning'))
    return { maxTokens }
  }
  const disabled = reasoning.effort === 'none' || reasoning.budgetTokens === 0
  if (disabled && efforts?.includes('none') !== false) {
    loseBesideOff(reasoning, translation)
    return { maxTokens, thinking: { type: 'disabled' } }
  }
  if (method !== 'budget') return { maxTokens, ...writeAdaptive(reasoning, target.capabilities, translation) }
  if (allowsThinking) return writeBudget(reasoning, maxTokens, translation)
  translation.lose(
    'reasoning_not_possible',
    translation.setting('reasoning'),
    'the turn to be continued does not begin with reasoning of this model',
  )
  return { maxTokens }
}

function writeLimit(
  { maxOutputTokens }: GenerationRequest,
  capabilities: Capabilities,
  translation: Translation,
): number {
  const limit = limitOutputTokens(maxOutputTokens, capabilities, translation) ?? capabilities.maxOutputTokens
  if (limit !== undefined) return limit
  translation.lose(
    'limit_required',
    translation.setting('maxOutputTokens'),
    `the provider requires an output limit: the response may have ${ASSUMED_LIMIT} tokens`,
  )
  return (translation.assumedLimit = ASSUMED_LIMIT)
}

/** The protocol's efforts, for models whose own are not known. */
const USUAL_EFFORTS: Effort[] = ['none', 'low', 'medium', 'high', 'xhigh', 'max']

function writeAdaptive(
  { effort, budgetTokens, visible }: Reasoning,
  { efforts = USUAL_EFFORTS }: Capabilities,
  translation: Translation,
): Omit<ReasoningFields, 'maxTokens'> {
  const display = visible === undefined ? {} : { display: visible ? 'summarized' : 'omitted' }
  const isBudget = budgetTokens !== undefined && (effort === undefined || budgetTokens === 0)
  const requested = isBudget ? effortOfBudget(budgetTokens) : effort
  const setting = isBudget ? 'reasoning.budgetTokens' : 'reasoning.effort'
  const sent = requested === undefined ? undefined : nearestEffort(requested, { efforts }, setting, translation)
  if (budgetTokens === 0) loseBesideOff({ effort }, translation)
  if (budgetTokens !== undefined && budgetTokens > 0) {
    const path = translation.setting('reasoning.budgetTokens')
    const reason = 'the provider takes an effort instead of a budget'
    if (!isBudget) translation.lose('unsupported_combination', path, reason)
    else if (sent === requested) translation.lose('budget_as_effort', path, `${reason}: '${sent}'`)
  }
  return { thinking: { type: 'adaptive', ...display }, ...present('effort', sent) }
}

function writeBudget({ effort, budgetTokens }: Reasoning, limit: number, translation: Translation): ReasoningFields {
  const { request, target } = translation
  const exact = budgetTokens !== undefined && budgetTokens > 0 ? budgetTokens : undefined
  const { min = BUDGET_MIN, max = Infinity } = target.capabilities.budget ?? {}
  const requested = exact ?? budgetOfEffort(effort === undefined || effort === 'none' ? 'medium' : effort)
  const bounded = Math.min(Math.max(requested, min, BUDGET_MIN), max)
  // A limit of the client is never exceeded; Sluice's own default leaves the response its room beside the budget.
  const hasLimit = request.maxOutputTokens !== undefined || target.capabilities.maxOutputTokens !== undefined
  const maxTokens = hasLimit ? limit : Math.max(limit, bounded + RESPONSE_TOKENS)
  if (!hasLimit) translation.assumedLimit = maxTokens
  // A fifth is left for the response, since the limit includes the reasoning.
  const budget = bounded < maxTokens ? bounded : Math.max(BUDGET_MIN, Math.floor(maxTokens * 0.8))
  if (budget >= maxTokens) {
    translation.lose(
      'reasoning_not_possible',
      translation.setting('reasoning'),
      `the limit of ${limit} output tokens leaves no room for the smallest budget of ${BUDGET_MIN}`,
    )
    return { maxTokens: limit }
  }
  if (effort !== undefined && exact !== undefined) loseEffort(translation)
  if (effort !== undefined && exact === undefined)
    translation.lose(
      'effort_as_budget',
      translation.setting('reasoning.effort'),
      `the model takes a budget instead of an effort: ${budget} tokens`,
    )
  else if (exact === undefined)
    translation.lose(
      'reasoning_adjusted',
      translation.setting(budgetTokens === undefined ? 'reasoning.adaptive' : 'reasoning.budgetTokens'),
      `the model needs an exact budget: ${budget} tokens`,
    )
  else if (budget !== exact)
    translation.lose(
      'budget_adjusted',
      translation.setting('reasoning.budgetTokens'),
      `the model and the output limit allow ${budget} tokens`,
    )
  return { maxTokens, thinking: { type: 'enabled', budget_tokens: budget } }
}
