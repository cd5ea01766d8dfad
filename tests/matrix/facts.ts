import type { LossCode } from '../../src/protocols/loss-codes.ts'
import type { Loss } from '../../src/protocols/translation.ts'
import type { ClientRequest } from './client-requests.ts'
import type { WireResponse, WireRequest } from './wire-reader.ts'
import { worst, type Cell } from './table.ts'

/** Losses by which the report may explain that something did not arrive as it was sent. */
export type Explanation = { codes: LossCode[]; path: RegExp }

/** One value that has to arrive, or whose change has to be reported. */
export type Fact = { fact: string; want: unknown; got: unknown; explainedBy?: Explanation }

/** The reasoning of the earlier response that a scenario sends back. */
export const EARLIER_REASONING: Explanation = {
  codes: ['reasoning_dropped'],
  path: /^(messages\[1\]\.(reasoning_details|content)\[0\]|input\[1\]|contents\[1\]\.parts\[0\])$/,
}

export const REASONING_SETTING: Explanation = {
  codes: ['effort_as_budget', 'budget_as_effort'],
  path: /^(reasoning_effort|reasoning\.effort|thinking\.budget_tokens|.*\.thinkingConfig\.thinkingBudget)$/,
}

const INSTRUCTION_MIDWAY: Explanation = {
  codes: ['instructions_moved'],
  path: /^(messages\[2\](\.content)?|input\[2\](\.content)?)$/,
}

const FAILED_RESULT: Explanation = {
  codes: ['content_as_text'],
  path: /^(messages\[2\]\.content\[0\]\.is_error|contents\[2\]\.parts\[0\]\.functionResponse\.response\.error)$/,
}

const RESULT_IMAGE: Explanation = {
  codes: ['media_moved'],
  path: /^(messages\[2\]\.content\[0\]\.content\[1\]|input\[2\]\.output\[1\]|.*\.functionResponse\.parts\[0\])$/,
}

const STOP_SEQUENCES: Explanation = {
  codes: ['stop_applied_here'],
  path: /^(stop|stop_sequences|generationConfig\.stopSequences)$/,
}

const trim = (text: string): string => text.trim()

/** Everything in the client's request that the provider has to receive. */
export const requestFacts = (request: ClientRequest, from: WireRequest, to: WireRequest): Fact[] => [
  // Neighbouring texts may be joined, and what the gateway adds beside them is another fact.
  {
    fact: 'texts',
    want: from.content.texts,
    got: from.content.texts.filter((text) => to.content.texts.join('').includes(text)),
    explainedBy: INSTRUCTION_MIDWAY,
  },
  { fact: 'failure', want: from.failed, got: to.failed, explainedBy: FAILED_RESULT },
  { fact: 'calls', want: JSON.stringify(from.content.calls), got: JSON.stringify(to.content.calls) },
  {
    fact: 'results',
    want: from.content.results.map(trim),
    got: to.content.results.map((result, index) =>
      result.includes(from.content.results[index]?.trim() ?? '') ? from.content.results[index]!.trim() : result,
    ),
  },
  { fact: 'tools', want: from.content.tools, got: to.content.tools },
  { fact: 'images', want: from.content.media, got: to.content.media, explainedBy: RESULT_IMAGE },
  { fact: 'stop sequences', want: from.stop, got: to.stop, explainedBy: STOP_SEQUENCES },
  { fact: 'schema', want: from.schema, got: to.schema },
  ...(from.schemaName === undefined ? [] : [{ fact: 'schema name', want: from.schemaName, got: to.schemaName }]),
  ...(request.maxTokens === undefined ? [] : [{ fact: 'limit', want: from.maxTokens, got: to.maxTokens }]),
]

/** Everything in the provider's response that the client has to receive. */
export const responseFacts = (from: WireResponse, to: WireResponse): Fact[] => [
  { fact: 'text', want: from.content.text, got: to.content.text },
  { fact: 'reasoning', want: from.content.reasoning, got: to.content.reasoning },
  {
    fact: 'calls',
    want: JSON.stringify(from.content.calls),
    got: JSON.stringify(to.content.calls),
    explainedBy: {
      codes: ['response_field_dropped', 'response_content_dropped'],
      path: /^response\.tool_calls\.arguments$/,
    },
  },
  { fact: 'outcome', want: from.outcome, got: to.outcome },
  // Sluice may report a stop sequence that the provider does not name.
  {
    fact: 'stop sequence',
    want: from.stopSequence,
    got: from.stopSequence === undefined ? undefined : to.stopSequence,
    explainedBy: { codes: ['response_field_dropped'], path: /^response\.stop_sequence$/ },
  },
  {
    fact: 'citations',
    want: from.citations,
    got: to.citations,
    explainedBy: { codes: ['response_citation_adjusted'], path: /^response\.citations$/ },
  },
  { fact: 'usage', want: from.content.usage, got: to.content.usage },
  {
    fact: 'cache writes',
    want: from.cacheWritten,
    got: to.cacheWritten,
    explainedBy: { codes: ['response_usage_adjusted'], path: /^response\.usage$/ },
  },
]

/** The verdict on these facts. `where`: the scenario and the route, for the message of an unreported loss. */
export const verdictOf = (where: string, losses: readonly Loss[], facts: readonly Fact[]): Cell =>
  worst(
    facts.map(({ fact, want, got, explainedBy }): Cell => {
      const same = Bun.deepEquals(want, got)
      const loss = losses.find(({ code, path }) => explainedBy?.codes.includes(code) && explainedBy.path.test(path))
      if (loss !== undefined && (!same || loss.effect === 'approximated'))
        return { verdict: loss.effect === 'dropped' ? 'dropped (reported)' : 'approximated', reasons: [loss.reason] }
      return same
        ? { verdict: 'carried', reasons: [] }
        : { verdict: 'lost', reasons: [`${where}: ${fact} was ${JSON.stringify(want)}, is ${JSON.stringify(got)}`] }
    }),
  )
