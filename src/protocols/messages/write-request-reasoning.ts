import type { Effort, GenerationRequest, Reasoning } from '../../generation/request.ts'
import type { Translation } from '../translation.ts'
import { nearestEffort, withinLimit } from '../capabilities.ts'
import type { Capabilities, Target } from '../protocol.ts'
import type { Json } from './shapes.ts'

/** How long and how deep: `max_tokens`, `thinking` and `output_config.effort`, which depend on each other. */
export type Depth = { maxTokens: number; thinking?: Json; effort?: string }

/**
 * Thinking tokens for an effort, where the model wants a budget. There are no agreed numbers; these leave room for an
 * answer within common limits.
 */
const BUDGETS: Record<Exclude<Effort, 'none'>, number> = {
  minimal: 1024,
  low: 2048,
  medium: 8192,
  high: 16384,
  xhigh: 32000,
  max: 32000,
}

// Anthropic's smallest budget.
const BUDGET_MIN = 1024

// Room for an answer where nobody said how long it may be. Known peers take the same number.
const ANSWER_TOKENS = 4096

/**
 * `mayThink`: the conversation is one that a model can think about with a budget (a tool turn has to begin with its own
 * earlier thinking).
 */
export function writeDepth(
  request: GenerationRequest,
  target: Target,
  mayThink: boolean,
  translation: Translation,
): Depth {
  const limit = writeLimit(request, target, translation)
  const wish = request.reasoning
  // A wish for summaries alone (agents send one always) says nothing of depth.
  if (wish === undefined || (wish.effort === undefined && wish.budgetTokens === undefined && wish.adaptive !== true))
    return { maxTokens: limit }
  const how = target.capabilities.reasoning ?? 'budget'
  if (how === 'none') {
    if (wish.effort !== 'none')
      translation.lose('todo_dropped', translation.setting('reasoning'), 'the model does not reason')
    return { maxTokens: limit }
  }
  const off = wish.effort === 'none' || wish.budgetTokens === 0
  if (off && target.capabilities.efforts?.includes('none') !== false)
    return { maxTokens: limit, thinking: { type: 'disabled' } }
  if (how !== 'budget')
    return {
      maxTokens: limit,
      ...writeAdaptive(off ? { ...wish, effort: 'none' } : wish, target.capabilities, translation),
    }
  if (!mayThink) {
    translation.lose(
      'todo_dropped',
      translation.setting('reasoning'),
      'the turn to be continued does not begin with reasoning of this model',
    )
    return { maxTokens: limit }
  }
  return writeBudget(
    wish,
    request.maxOutputTokens === undefined && target.capabilities.maxOutputTokens === undefined,
    limit,
    target,
    translation,
  )
}

function writeLimit(
  { maxOutputTokens: wish }: GenerationRequest,
  { capabilities }: Target,
  translation: Translation,
): number {
  const limit = withinLimit(wish, capabilities, translation) ?? capabilities.maxOutputTokens
  if (limit === undefined)
    translation.lose(
      'todo_approximated',
      translation.setting('maxOutputTokens'),
      `the provider requires a limit; ${ANSWER_TOKENS} tokens for the answer are asked for`,
    )
  return limit ?? ANSWER_TOKENS
}

// What the protocol knows, where it is not known what the model takes.
const KNOWN: Effort[] = ['none', 'low', 'medium', 'high', 'xhigh', 'max']

function writeAdaptive(
  wish: Reasoning,
  { efforts = KNOWN }: Capabilities,
  translation: Translation,
): Omit<Depth, 'maxTokens'> {
  const display = wish.visible === undefined ? {} : { display: wish.visible ? 'summarized' : 'omitted' }
  const meant =
    wish.effort ?? (wish.budgetTokens === undefined || wish.budgetTokens < 0 ? undefined : effortFor(wish.budgetTokens))
  const effort = meant === undefined ? undefined : nearestEffort(meant, { efforts }, 'reasoning.effort', translation)
  if (wish.budgetTokens !== undefined && wish.budgetTokens > 0)
    translation.lose(
      'todo_approximated',
      translation.setting('reasoning.budgetTokens'),
      effort === undefined ? 'the model takes no budgets' : `the model takes an effort instead of a budget: ${effort}`,
    )
  return { thinking: { type: 'adaptive', ...display }, ...(effort === undefined ? {} : { effort }) }
}

const effortFor = (budget: number): Effort =>
  budget <= 4096 ? 'low' : budget <= 12288 ? 'medium' : budget <= 24576 ? 'high' : 'xhigh'

/** `invented`: the limit is our own, so that it may grow; a limit that the client set is never exceeded. */
function writeBudget(
  wish: Reasoning,
  invented: boolean,
  limit: number,
  target: Target,
  translation: Translation,
): Depth {
  const exact = wish.budgetTokens !== undefined && wish.budgetTokens > 0 ? wish.budgetTokens : undefined
  const effort = wish.effort === undefined || wish.effort === 'none' ? 'medium' : wish.effort
  const { min = BUDGET_MIN, max = Infinity } = target.capabilities.budget ?? {}
  const wanted = exact ?? BUDGETS[effort]
  const bounded = Math.min(Math.max(wanted, min, BUDGET_MIN), max)
  const maxTokens = invented ? bounded + ANSWER_TOKENS : limit
  // A fifth stays for the answer, since the limit counts the thinking too.
  const budget = bounded < maxTokens ? bounded : Math.max(BUDGET_MIN, Math.floor(maxTokens * 0.8))
  if (budget >= maxTokens) {
    translation.lose(
      'todo_dropped',
      translation.setting('reasoning'),
      `the limit of ${limit} output tokens leaves no room for the least budget of ${BUDGET_MIN}`,
    )
    return { maxTokens: limit }
  }
  if (exact === undefined)
    translation.lose(
      'todo_approximated',
      translation.setting('reasoning.effort'),
      `the model takes a budget instead of an effort: ${budget} tokens`,
    )
  else if (budget !== exact)
    translation.lose(
      'todo_approximated',
      translation.setting('reasoning.budgetTokens'),
      `the model and the output limit allow ${budget} tokens`,
    )
  if (wish.visible === false)
    translation.lose('todo_dropped', translation.setting('reasoning.visible'), 'the model shows what it thinks')
  return { maxTokens, thinking: { type: 'enabled', budget_tokens: budget } }
}
