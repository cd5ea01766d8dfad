import { written } from '../translating.ts'
import { describe, expect, test } from 'bun:test'
import { readConfig } from '../../src/config/load.ts'
import type { ConversationName, GenerationRequest } from '../../src/generation/request.ts'
import { protocols } from '../../src/protocols/index.ts'
import { settingPath, type SettingName } from '../../src/protocols/request-paths.ts'
import type { Loss } from '../../src/protocols/translation.ts'
import { BODIES, ELEMENT_PATHS, OPTIONS, type RequestedOptions } from './every-option.ts'
import type { Capabilities, Target } from '../../src/protocols/protocol.ts'
import { Catalogue } from '../../src/providers/catalogue.ts'
import { MODEL_ROWS, PROVIDER_ROWS } from '../../src/providers/catalog-rows.ts'

/** Requests for each model of the catalogue: they have only what the model accepts, and the rest is reported. */

type Json = Record<string, any>

const catalogue = new Catalogue(
  readConfig(
    '',
    'sluice.yaml',
    Object.fromEntries(PROVIDER_ROWS.flatMap(({ keyVariables }) => keyVariables.map((name) => [name, 'k']))),
  ),
)

/** The options in a body of any protocol. */
type SentOptions = {
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

const READERS: Record<ConversationName, (body: Json) => SentOptions> = {
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

/** Options that each provider protocol refuses for every model. */
const REFUSED_BY_PROTOCOL: Record<ConversationName, (body: Json, capabilities: Capabilities) => (string | false)[]> = {
  'chat.completions': (body) => [
    body.stop?.length > 4 && 'more than 4 stop sequences',
    'top_k' in body && 'top_k',
    'reasoning' in body && 'reasoning_effort' in body && 'two reasoning options',
    body.reasoning?.max_tokens >= (body.max_tokens ?? Infinity) && 'a budget without room for a response',
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
      'a budget',
    thinking?.type === 'adaptive' && capabilities.reasoning !== 'adaptive' && 'adaptive',
    'effort' in (body.output_config ?? {}) && capabilities.reasoning !== 'adaptive' && 'an effort',
    thinking !== undefined &&
      thinking.type !== 'disabled' &&
      (('temperature' in body && body.temperature !== 1) || 'top_k' in body || body.top_p < 0.95) &&
      'sampling parameters with thinking',
    body.temperature > 1 && 'a temperature above 1',
    'temperature' in body && 'top_p' in body && capabilities.sampling === 'either' && 'a temperature beside top_p',
    body.messages.at(-1).role === 'assistant' &&
      thinking?.type === 'enabled' &&
      'the beginning of a response with thinking',
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

/** Options that the model refuses although its protocol has them. */
const refusedByModel = (
  sent: SentOptions,
  { efforts, budget, maxOutputTokens, ...capabilities }: Capabilities,
  protocol: ConversationName,
): (string | false)[] => [
  capabilities.reasoning === 'none' && (sent.effort !== undefined || sent.budget !== undefined) && 'reasoning',
  sent.effort !== undefined &&
    efforts !== undefined &&
    capabilities.reasoning !== 'budget' &&
    !(efforts as string[]).includes(sent.effort) &&
    `the effort ${sent.effort}`,
  sent.budget !== undefined &&
    sent.budget !== -1 &&
    budget !== undefined &&
    capabilities.reasoning === 'budget' &&
    !(sent.budget === 0 && budget.off === true) &&
    (sent.budget < budget.min || sent.budget > budget.max) &&
    `the budget ${sent.budget}`,
  capabilities.sampling === false && sent.samples && 'sampling',
  capabilities.sampling === 'idle' && sent.reasons && sent.samples && 'sampling parameters with reasoning',
  capabilities.penalties === false && sent.penalties > 0 && 'penalties',
  sent.stops > (capabilities.stops ?? Infinity) && 'stop sequences',
  sent.forced &&
    (capabilities.forcedTools === false ||
      ((capabilities.forcedTools ?? (protocol === 'messages' ? 'idle' : true)) === 'idle' && sent.reasons)) &&
    'a forced call',
  capabilities.system === false &&
    sent.roles.some((role) => role === 'system' || role === 'developer') &&
    'instructions',
  protocol === 'messages' &&
    capabilities.prefill === false &&
    sent.last === 'assistant' &&
    'the beginning of a response',
  (sent.limit ?? 0) > (maxOutputTokens ?? Infinity) && 'the limit',
]

/** Options of the client that are not in the provider's body and not reported. */
function unreported(
  client: ConversationName,
  options: RequestedOptions,
  requested: SentOptions,
  sent: SentOptions,
  { body, losses }: { body: Json; losses: readonly Loss[] },
): (string | false)[] {
  const paths = new Set(losses.map(({ path }) => path))
  const isReported = (...names: SettingName[]): boolean =>
    names.some((name) => paths.has(settingPath(protocols[client].serve.paths, body, name)))
  const isElementReported = (element: string | undefined): boolean =>
    element === undefined || [...paths].some((path) => path === element || path.startsWith(`${element}.`))
  const { instructions, prefill } = ELEMENT_PATHS[client]
  return [
    sent.temperature !== requested.temperature && !isReported('temperature') && 'temperature',
    sent.topP !== requested.topP && !isReported('topP') && 'topP',
    sent.topK !== requested.topK && !isReported('topK') && 'topK',
    sent.penalties < requested.penalties &&
      !(isReported('presencePenalty') && isReported('frequencyPenalty')) &&
      'penalties',
    sent.stops < requested.stops && !isReported('stop') && 'stop',
    !sent.forced && !isReported('toolChoice') && 'a forced call',
    options.limit !== undefined && sent.limit !== options.limit && !isReported('maxOutputTokens') && 'the limit',
    options.effort !== undefined &&
      options.effort !== 'none' &&
      sent.effort !== options.effort &&
      sent.budget === undefined &&
      !isReported('reasoning', 'reasoning.effort') &&
      'the effort',
    options.effort === 'none' &&
      sent.reasons &&
      sent.effort !== undefined &&
      !isReported('reasoning.effort') &&
      'the effort none',
    (options.budget ?? -1) > 0 &&
      sent.budget !== options.budget &&
      !isReported('reasoning', 'reasoning.budgetTokens') &&
      'the budget',
    options.budget === 0 &&
      (sent.effort ?? 'none') !== 'none' &&
      !isReported('reasoning', 'reasoning.effort', 'reasoning.budgetTokens') &&
      'a budget of 0',
    !sent.roles.slice(1).some((role) => role === 'system' || role === 'developer') &&
      !isElementReported(instructions) &&
      'instructions within the conversation',
    !['assistant', 'model'].includes(sent.last) && !isElementReported(prefill) && 'the beginning of a response',
  ]
}

const CLIENTS = Object.keys(BODIES) as ConversationName[]
const isConversation = (name: string): name is ConversationName => (CLIENTS as string[]).includes(name)
const rawRequestOf = (body: Json): { body: Json; text: string; model: string; stream: boolean; headers: Headers } => {
  const text = JSON.stringify(body)
  return { body: JSON.parse(text), text, model: 'x', stream: false, headers: new Headers() }
}

/** The endpoints of all models of the catalogue, one for each combination of protocol, quirks and capabilities. */
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

describe('a request with every option', () => {
  test.each(CLIENTS)(
    'from a client of %s has only options that each model accepts, and reports the others',
    (client) => {
      const faults: string[] = []
      let count = 0
      for (const { model, protocol, target } of targets(client)) {
        for (const options of OPTIONS[client]) {
          const rawRequest = rawRequestOf(BODIES[client](options))
          const request = protocols[client].serve.readRequest(rawRequest)
          const { body, losses } = written(protocol, request, target, rawRequest.body)
          const requested = READERS[client](rawRequest.body)
          const sent = READERS[protocol](body)
          const found = [
            ...REFUSED_BY_PROTOCOL[protocol](body, target.capabilities)
              .filter(Boolean)
              .map((what) => `${protocol} refuses ${what}`),
            ...refusedByModel(sent, target.capabilities, protocol)
              .filter(Boolean)
              .map((what) => `the model refuses ${what}`),
            ...unreported(client, options, requested, sent, { body: rawRequest.body, losses })
              .filter(Boolean)
              .map((what) => `${what} is lost without a report`),
          ]
          faults.push(...found.map((fault) => `${model} with ${JSON.stringify(options)}: ${fault}`))
          count++
        }
      }
      expect(faults.slice(0, 20)).toEqual([])
      expect(count).toBeGreaterThan(400)
    },
    60_000,
  )
})

describe('a request for audio alone', () => {
  const request: GenerationRequest = {
    model: 'a/b',
    system: [],
    turns: [{ role: 'user', parts: [{ type: 'text', text: 'Hello' }] }],
    tools: [],
    sampling: {},
    outputModalities: ['audio'],
    stream: false,
    protocol: 'generateContent',
    extras: {},
  }
  const target = (capabilities: Capabilities): Target => ({ provider: 'p', model: 'm', quirks: {}, capabilities })

  test('is refused where the response would be text', () => {
    for (const provider of ['responses', 'messages', 'chat.completions'] as const)
      expect(() => written(provider, request, target({}))).toThrow('generationConfig.responseModalities: ')
    expect(() => written('generateContent', request, target({ output: ['text'] }))).toThrow('not audio')
  })

  test('is sent to a model that may have audio', () => {
    for (const capabilities of [{}, { output: ['audio'] }] as Capabilities[])
      expect(written('generateContent', request, target(capabilities)).body.generationConfig).toEqual({
        responseModalities: ['AUDIO'],
      })
  })
})
