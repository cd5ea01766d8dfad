import { written } from '../translating.ts'
import { describe, expect, test } from 'bun:test'
import { readConfig } from '../../src/config/load.ts'
import { EFFORTS, type ConversationName } from '../../src/generation/request.ts'
import { protocols } from '../../src/protocols/index.ts'
import type { Capabilities, Target } from '../../src/protocols/protocol.ts'
import { Catalogue } from '../../src/providers/catalogue.ts'
import { MODEL_ROWS, PROVIDER_ROWS } from '../../src/providers/catalog-rows.ts'

/** What each model of the catalogue is asked for: what it takes, and what it does not take is told. */

type Json = Record<string, any>

const catalogue = new Catalogue(
  readConfig(
    '',
    'sluice.yaml',
    Object.fromEntries(PROVIDER_ROWS.flatMap(({ keyVariables }) => keyVariables.map((name) => [name, 'k']))),
  ),
)

/** What a client of each protocol can wish of depth, and how long the answer may be. */
type Wish = { effort?: string; budget?: number; limit?: number }
const LIMITS = [undefined, 600, 10_000_000]
const WISHES: Record<ConversationName, Wish[]> = {
  'chat.completions': [...EFFORTS, undefined].flatMap((effort) =>
    LIMITS.map((limit) => ({ ...(effort === undefined ? {} : { effort }), ...(limit === undefined ? {} : { limit }) })),
  ),
  responses: [...EFFORTS, undefined].flatMap((effort) =>
    LIMITS.map((limit) => ({ ...(effort === undefined ? {} : { effort }), ...(limit === undefined ? {} : { limit }) })),
  ),
  messages: [0, 1024, 5000, 500_000, undefined]
    .flatMap((budget) =>
      [600, 10_000_000].map((limit): Wish => ({ limit, ...(budget === undefined ? {} : { budget }) })),
    )
    .concat(EFFORTS.slice(1).map((effort) => ({ limit: 9000, effort }))),
  generateContent: [-1, 0, 400, 5000, 32_768, undefined]
    .flatMap((budget) =>
      LIMITS.map(
        (limit): Wish => ({ ...(budget === undefined ? {} : { budget }), ...(limit === undefined ? {} : { limit }) }),
      ),
    )
    .concat(['minimal', 'low', 'medium', 'high'].map((effort) => ({ effort }))),
}

const SCHEMA = { type: 'object', properties: { at: { type: 'string' } } }
const STOPS = ['a', 'b', 'c', 'd', 'e', 'f']

/**
 * A request that has everything: sampling of each kind, stop sequences, a forced tool, instructions at the top and
 * midway, the beginning of an answer.
 */
const BODIES: { [Name in ConversationName]: (wish: Wish) => Json } = {
  'chat.completions': ({ effort, limit }) => ({
    model: 'x',
    temperature: 1.7,
    top_p: 0.5,
    top_k: 7,
    presence_penalty: 0.5,
    frequency_penalty: 0.5,
    stop: STOPS.slice(0, 4),
    reasoning_effort: effort,
    max_completion_tokens: limit,
    tools: [{ type: 'function', function: { name: 'look', parameters: SCHEMA } }],
    tool_choice: { type: 'function', function: { name: 'look' } },
    messages: [
      { role: 'system', content: 'S' },
      { role: 'user', content: 'one' },
      { role: 'assistant', content: 'two' },
      { role: 'system', content: 'M' },
      { role: 'user', content: 'three' },
      { role: 'assistant', content: 'Well,' },
    ],
  }),
  responses: ({ effort, limit }) => ({
    model: 'x',
    temperature: 1.7,
    top_p: 0.5,
    top_logprobs: 2,
    reasoning: effort === undefined ? undefined : { effort },
    max_output_tokens: limit,
    instructions: 'S',
    tools: [{ type: 'function', name: 'look', parameters: SCHEMA }],
    tool_choice: { type: 'function', name: 'look' },
    input: [
      { role: 'user', content: 'one' },
      { role: 'assistant', content: 'two' },
      { role: 'developer', content: 'M' },
      { role: 'user', content: 'three' },
      { role: 'assistant', content: 'Well,' },
    ],
  }),
  messages: ({ effort, budget, limit }) => ({
    model: 'x',
    temperature: 1,
    top_p: 0.5,
    top_k: 7,
    stop_sequences: STOPS,
    max_tokens: limit,
    thinking:
      effort !== undefined
        ? { type: 'adaptive' }
        : budget === undefined
          ? undefined
          : budget === 0
            ? { type: 'disabled' }
            : { type: 'enabled', budget_tokens: budget },
    output_config: effort === undefined ? undefined : { effort },
    tools: [{ name: 'look', input_schema: SCHEMA }],
    tool_choice: { type: 'tool', name: 'look' },
    system: 'S',
    messages: [
      { role: 'user', content: 'one' },
      { role: 'assistant', content: 'two' },
      { role: 'user', content: 'and' },
      { role: 'system', content: 'M' },
      { role: 'user', content: 'three' },
      { role: 'assistant', content: 'Well,' },
    ],
  }),
  generateContent: ({ effort, budget, limit }) => ({
    generationConfig: {
      temperature: 1.7,
      topP: 0.5,
      topK: 7,
      presencePenalty: 0.5,
      frequencyPenalty: 0.5,
      stopSequences: STOPS.slice(0, 5),
      maxOutputTokens: limit,
      thinkingConfig:
        effort !== undefined
          ? { thinkingLevel: effort.toUpperCase() }
          : budget === undefined
            ? undefined
            : { thinkingBudget: budget },
    },
    tools: [{ functionDeclarations: [{ name: 'look', parametersJsonSchema: SCHEMA }] }],
    toolConfig: { functionCallingConfig: { mode: 'ANY', allowedFunctionNames: ['look'] } },
    systemInstruction: { parts: [{ text: 'S' }] },
    contents: [
      { role: 'user', parts: [{ text: 'one' }] },
      { role: 'model', parts: [{ text: 'two' }] },
      { role: 'user', parts: [{ text: 'three' }] },
      { role: 'model', parts: [{ text: 'Well,' }] },
    ],
  }),
}

/** What a body says, whatever protocol it is in. */
type Heard = {
  reasons: boolean
  samples: boolean
  temperature?: number
  topP?: number
  topK?: number
  penalties: number
  stops: number
  forced: boolean
  limit?: number
  effort?: string
  budget?: number
  last: string
  roles: string[]
}

const HEARD: Record<ConversationName, (body: Json) => Heard> = {
  'chat.completions': (body) => ({
    reasons: (body.reasoning_effort ?? body.reasoning?.effort) !== 'none' && body.thinking?.type !== 'disabled',
    samples: ['temperature', 'top_p', 'logprobs', 'top_logprobs'].some((name) => name in body),
    temperature: body.temperature,
    topP: body.top_p,
    topK: body.top_k,
    penalties: ['presence_penalty', 'frequency_penalty'].filter((name) => name in body).length,
    stops: body.stop?.length ?? 0,
    forced: body.tool_choice !== 'auto',
    limit: body.max_tokens ?? body.max_completion_tokens,
    effort: body.thinking?.type === 'disabled' ? 'none' : (body.reasoning_effort ?? body.reasoning?.effort),
    budget: body.reasoning?.max_tokens,
    last: body.messages.at(-1).role,
    roles: body.messages.map(({ role }: Json) => role),
  }),
  responses: (body) => ({
    reasons: body.reasoning?.effort !== 'none',
    samples: ['temperature', 'top_p', 'top_logprobs'].some((name) => name in body),
    temperature: body.temperature,
    topP: body.top_p,
    penalties: 0,
    stops: 0,
    forced: body.tool_choice !== 'auto',
    limit: body.max_output_tokens,
    effort: body.reasoning?.effort,
    last: body.input.at(-1).role,
    roles: [...(body.instructions === undefined ? [] : ['system']), ...body.input.map(({ role }: Json) => role)],
  }),
  messages: (body) => ({
    reasons: body.thinking !== undefined && body.thinking.type !== 'disabled',
    samples: ['temperature', 'top_p', 'top_k'].some((name) => name in body),
    temperature: body.temperature,
    topP: body.top_p,
    topK: body.top_k,
    penalties: 0,
    stops: body.stop_sequences?.length ?? 0,
    forced: body.tool_choice.type !== 'auto',
    limit: body.max_tokens,
    effort: body.thinking?.type === 'disabled' ? 'none' : body.output_config?.effort,
    budget: body.thinking?.budget_tokens,
    last: body.messages.at(-1).role,
    roles: body.messages.map(({ role }: Json) => role),
  }),
  generateContent: ({ generationConfig: config, contents, toolConfig, systemInstruction }) => ({
    reasons: config.thinkingConfig?.thinkingBudget !== 0,
    samples: 'temperature' in config,
    temperature: config.temperature,
    topP: config.topP,
    topK: config.topK,
    penalties: ['presencePenalty', 'frequencyPenalty'].filter((name) => name in config).length,
    stops: config.stopSequences?.length ?? 0,
    forced: toolConfig.functionCallingConfig.mode === 'ANY',
    limit: config.maxOutputTokens,
    effort: config.thinkingConfig?.thinkingLevel?.toLowerCase(),
    budget: config.thinkingConfig?.thinkingBudget,
    last: contents.at(-1).role,
    roles: [...(systemInstruction === undefined ? [] : ['system']), ...contents.map(({ role }: Json) => role)],
  }),
}

/** Rules of each provider protocol that hold for every model: what is said here is refused there. */
const REFUSED: Record<ConversationName, (body: Json, capabilities: Capabilities) => (string | false)[]> = {
  'chat.completions': (body) => [
    body.stop?.length > 4 && 'more than 4 stop sequences',
    'top_k' in body && 'top_k',
    'reasoning' in body && 'reasoning_effort' in body && 'depth twice',
    body.reasoning?.max_tokens >= (body.max_tokens ?? Infinity) && 'a budget without room for an answer',
  ],
  responses: (body) => [
    body.max_output_tokens < 16 && 'fewer than 16 tokens',
    'stop' in body && 'stop',
    (body.input as Json[]).some((item) => 'id' in item) && 'ids of items',
  ],
  messages: ({ thinking, max_tokens: limit, ...body }, capabilities) => [
    !(Number.isInteger(limit) && limit >= 1) && 'no limit',
    thinking?.type === 'enabled' &&
      !(thinking.budget_tokens >= 1024 && thinking.budget_tokens < limit) &&
      'a budget out of range',
    thinking?.type === 'enabled' &&
      capabilities.reasoning !== undefined &&
      capabilities.reasoning !== 'budget' &&
      'a budget at all',
    thinking?.type === 'adaptive' && capabilities.reasoning !== 'adaptive' && 'adaptive',
    'effort' in (body.output_config ?? {}) && capabilities.reasoning !== 'adaptive' && 'an effort',
    thinking !== undefined &&
      thinking.type !== 'disabled' &&
      (('temperature' in body && body.temperature !== 1) || 'top_k' in body || body.top_p < 0.95) &&
      'sampling while it thinks',
    body.temperature > 1 && 'a temperature above 1',
    'temperature' in body && 'top_p' in body && capabilities.sampling === 'either' && 'a temperature beside top_p',
    body.messages.at(-1).role === 'assistant' &&
      thinking?.type === 'enabled' &&
      'to continue an answer while it thinks',
    body.messages.some(({ role }: Json) => role === 'system') && capabilities.systemTurns !== true && 'a system turn',
    body.messages[0].role !== 'user' && 'another first role',
  ],
  generateContent: ({ generationConfig: { thinkingConfig: thinking = {}, ...config }, contents }, { reasoning }) => [
    'thinkingBudget' in thinking && 'thinkingLevel' in thinking && 'a budget and a level',
    'thinkingLevel' in thinking && reasoning !== 'level' && 'a level',
    'thinkingBudget' in thinking && reasoning === 'level' && 'a budget',
    reasoning === 'none' && Object.keys(thinking).length > 0 && 'thinkingConfig',
    config.stopSequences?.length > 5 && 'more than 5 stop sequences',
    contents.some(({ role }: Json) => role !== 'user' && role !== 'model') && 'another role',
  ],
}

/** What the model refuses of a body that its protocol allows. */
const refusedByModel = (
  heard: Heard,
  { efforts, budget, maxOutputTokens, ...capabilities }: Capabilities,
  protocol: ConversationName,
): (string | false)[] => [
  capabilities.reasoning === 'none' && (heard.effort !== undefined || heard.budget !== undefined) && 'reasoning',
  heard.effort !== undefined &&
    efforts !== undefined &&
    capabilities.reasoning !== 'budget' &&
    !(efforts as string[]).includes(heard.effort) &&
    `the effort ${heard.effort}`,
  heard.budget !== undefined &&
    heard.budget !== -1 &&
    budget !== undefined &&
    capabilities.reasoning === 'budget' &&
    !(heard.budget === 0 && budget.off === true) &&
    (heard.budget < budget.min || heard.budget > budget.max) &&
    `the budget ${heard.budget}`,
  capabilities.sampling === false && heard.samples && 'sampling',
  capabilities.sampling === 'idle' && heard.reasons && heard.samples && 'sampling while it reasons',
  capabilities.penalties === false && heard.penalties > 0 && 'penalties',
  heard.stops > (capabilities.stops ?? Infinity) && 'stop sequences',
  heard.forced &&
    (capabilities.forcedTools === false ||
      ((capabilities.forcedTools ?? (protocol === 'messages' ? 'idle' : true)) === 'idle' && heard.reasons)) &&
    'a forced call',
  capabilities.system === false &&
    heard.roles.some((role) => role === 'system' || role === 'developer') &&
    'instructions',
  protocol === 'messages' &&
    capabilities.prefill === false &&
    heard.last === 'assistant' &&
    'the beginning of an answer',
  (heard.limit ?? 0) > (maxOutputTokens ?? Infinity) && 'the limit',
]

/** What was wished for, is not in the body, and was not told. */
function untold(
  client: ConversationName,
  wish: Wish,
  asked: Heard,
  heard: Heard,
  told: ReadonlySet<string>,
): (string | false)[] {
  const tells = (...words: string[]): boolean => words.some((word) => told.has(word))
  return [
    heard.temperature !== asked.temperature && !tells('temperature') && 'temperature',
    heard.topP !== asked.topP && !tells('topP') && 'topP',
    heard.topK !== asked.topK && !tells('topK') && 'topK',
    heard.penalties < asked.penalties && !(tells('presencePenalty') && tells('frequencyPenalty')) && 'penalties',
    heard.stops < asked.stops && !tells('stop') && 'stop',
    !heard.forced && !tells('toolChoice') && 'a forced call',
    wish.limit !== undefined && heard.limit !== wish.limit && !tells('maxOutputTokens') && 'the limit',
    wish.effort !== undefined &&
      wish.effort !== 'none' &&
      heard.effort !== wish.effort &&
      heard.budget === undefined &&
      !tells('reasoning', 'reasoning.effort') &&
      'the effort',
    wish.effort === 'none' && heard.reasons && heard.effort !== undefined && !tells('reasoning.effort') && 'none',
    (wish.budget ?? -1) > 0 &&
      heard.budget !== wish.budget &&
      !tells('reasoning', 'reasoning.budgetTokens') &&
      'the budget',
    wish.budget === 0 &&
      (heard.effort ?? 'none') !== 'none' &&
      !tells('reasoning', 'reasoning.effort', 'reasoning.budgetTokens') &&
      'no reasoning',
    client !== 'generateContent' &&
      !heard.roles.slice(1).some((role) => role === 'system' || role === 'developer') &&
      !tells('instruction', 'system') &&
      'instructions midway',
    !['assistant', 'model'].includes(heard.last) && !tells('conversation') && 'the beginning of an answer',
  ]
}

const CLIENTS = Object.keys(BODIES) as ConversationName[]
const isConversation = (name: string): name is ConversationName => (CLIENTS as string[]).includes(name)
const wireOf = (body: Json): { body: Json; text: string; model: string; stream: boolean; headers: Headers } => {
  const text = JSON.stringify(body)
  return { body: JSON.parse(text), text, model: 'x', stream: false, headers: new Headers() }
}

/** Each model of the catalogue where it would be asked, once for models of which the same is known. */
function* targets(client: ConversationName): Generator<{ model: string; protocol: ConversationName; target: Target }> {
  const seen = new Set<string>()
  for (const { id } of MODEL_ROWS) {
    for (const { protocol, target } of catalogue.candidates(id).length === 0 ||
    catalogue.model(id).capabilities.api === 'predictions'
      ? []
      : catalogue.endpoints(id, client)) {
      const { quirks, capabilities } = target
      const key = JSON.stringify([protocol, quirks, capabilities])
      if (!isConversation(protocol) || protocol === client || seen.has(key)) continue
      seen.add(key)
      yield { model: id, protocol, target }
    }
  }
}

describe('every model of the catalogue, asked for everything', () => {
  test.each(CLIENTS)(
    'from %s',
    (client) => {
      const faults: string[] = []
      let count = 0
      for (const { model, protocol, target } of targets(client)) {
        for (const wish of WISHES[client]) {
          const rawRequest = wireOf(BODIES[client](wish))
          const { body, losses } = written(protocol, protocols[client].serve.readRequest(rawRequest), target)
          const heard = HEARD[protocol](body)
          const found = [
            ...REFUSED[protocol](body, target.capabilities)
              .filter(Boolean)
              .map((what) => `${protocol} refuses ${what}`),
            ...refusedByModel(heard, target.capabilities, protocol)
              .filter(Boolean)
              .map((what) => `it refuses ${what}`),
            ...untold(client, wish, HEARD[client](rawRequest.body), heard, new Set(losses.map(({ path }) => path)))
              .filter(Boolean)
              .map((what) => `nobody is told of ${what}`),
          ]
          faults.push(...found.map((fault) => `${model} asked ${JSON.stringify(wish)}: ${fault}`))
          count++
        }
      }
      expect(faults.slice(0, 20)).toEqual([])
      expect(written).toBeGreaterThan(400)
    },
    60_000,
  )
})
