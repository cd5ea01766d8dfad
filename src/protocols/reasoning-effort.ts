import type { Effort } from '../generation/request.ts'

/**
 * Reasoning efforts as budgets of reasoning tokens, and back: the one table of all protocols. `budget`: the tokens that
 * are sent for an effort. `upTo`: the largest budget that is sent as this effort.
 *
 * 1,024, 8,192 and 24,576 tokens are what Google documents for the efforts of its OpenAI-compatible endpoint
 * (ai.google.dev/gemini-api/docs/openai); 32,768 is the largest budget of its models. OpenAI and Anthropic document no
 * numbers. The limits between the efforts are about half way, so that each budget of the table is its own effort again;
 * `max` is never made from a budget.
 */
const TABLE: readonly { effort: Effort; budget: number; upTo?: number }[] = [
  { effort: 'none', budget: 0, upTo: 0 },
  { effort: 'minimal', budget: 1_024, upTo: 1_024 },
  { effort: 'low', budget: 2_048, upTo: 4_096 },
  { effort: 'medium', budget: 8_192, upTo: 16_384 },
  { effort: 'high', budget: 24_576, upTo: 24_576 },
  { effort: 'xhigh', budget: 32_768, upTo: Infinity },
  { effort: 'max', budget: 32_768 },
]

/** Reasoning tokens for an effort, where a model takes a budget instead; `none` is 0. */
export const budgetOfEffort = (effort: Effort): number => TABLE.find((row) => row.effort === effort)!.budget

/** The effort for a budget of tokens, where a model takes efforts instead; undefined for -1, "as the model decides". */
export const effortOfBudget = (tokens: number): Effort | undefined =>
  tokens < 0 ? undefined : TABLE.find(({ upTo = -1 }) => tokens <= upTo)?.effort
