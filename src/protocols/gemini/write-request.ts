import type { GenerationRequest, Tool, WebSearch } from '../../generation/request.ts'
import type { Translation } from '../translation.ts'
import type { SettingName } from '../request-paths.ts'
import { withinLimit } from '../capabilities.ts'
import { loseBreakpoints } from '../cache-breakpoints.ts'
import { inputSchema, loseGrammar } from '../custom-tools.ts'
import { refuseTool } from '../provider-native.ts'
import { drawing, imageConfigOf } from '../image-config.ts'
import { loseSettings } from '../unsupported-settings.ts'
import type { Target, WrittenRequest } from '../protocol.ts'
import { loseStopSequences } from '../stop-sequences.ts'
import { loseToolChoice } from '../tool-choice.ts'
import { loseCitations, loseSearchOptions } from '../web-search.ts'
import { ContentWriter } from './write-request-contents.ts'
import { writeThinking } from './write-request-reasoning.ts'
import { ToolNames } from '../tool-names.ts'
import { GOOGLE_NAMES, sentName } from './tool-names.ts'
import { responseSchema, parametersSchema } from './schema.ts'
import { writeEnumSchema } from './read-request-schema.ts'

const STOP_MAX = 5

/** Our words -> `GenerateContentRequest`. The model and streaming stand in the path. */
export function writeRequest(translation: Translation): Record<string, unknown> {
  const { request: asked, target } = translation
  const request = drawing(asked, target)
  loseCitations(translation)
  new ToolNames(translation, GOOGLE_NAMES)
  const writer = new ContentWriter(target, translation)
  const { system, contents } = writer.write(request)
  const tools = writeTools(request, translation)
  const declared = tools.some((tool) => 'functionDeclarations' in tool)
  const toolConfig = declared ? writeToolChoice(request, translation) : undefined
  if (!declared) loseToolChoice(translation)
  const generationConfig = writeConfig(request, target, translation)
  loseSettings(
    translation,
    ['logitBias', 'user', 'metadata', 'reasoning.summary', 'verbosity'],
    'unsupported_field',
    'the provider has no such field',
  )
  loseSettings(translation, ['serviceTier'], 'unsupported_field', 'the provider names its tiers in its own way')
  loseSettings(translation, ['cacheKey', 'cacheRetention'], 'unsupported_field', 'the provider caches by itself')
  loseBreakpoints(translation, undefined)
  if (request.parallelTools === false && request.toolChoice?.type !== 'none')
    translation.lose(
      'todo_dropped',
      translation.setting('parallelTools'),
      'the provider may always call several tools at once',
    )
  return {
    ...(system.length === 0 ? {} : { systemInstruction: { parts: system } }),
    contents,
    ...(tools.length === 0 ? {} : { tools }),
    ...(toolConfig === undefined ? {} : { toolConfig }),
    ...(Object.keys(generationConfig).length === 0 ? {} : { generationConfig }),
  }
}

function writeTools(request: GenerationRequest, translation: Translation): Record<string, unknown>[] {
  const declarations: Record<string, unknown>[] = []
  const others: Record<string, unknown>[] = []
  const hasFunctions = request.tools.some((tool) => tool.type !== 'native')
  for (const tool of request.tools) {
    if (tool.type === 'native') others.push(...writeNative(tool, translation))
    else declarations.push(writeDeclaration(tool, translation))
  }
  if (request.webSearch !== undefined)
    others.push(...writeSearch(request, request.webSearch, hasFunctions, translation))
  return [...(declarations.length === 0 ? [] : [{ functionDeclarations: declarations }]), ...others]
}

function writeNative(tool: Extract<Tool, { type: 'native' }>, translation: Translation): Record<string, unknown>[] {
  if (tool.protocol === 'generateContent') return [tool.value as Record<string, unknown>]
  refuseTool(tool)
  translation.lose(
    'todo_dropped',
    translation.setting('conversation') /* tool of tool.kind */,
    `the provider has no tool '${tool.kind}'`,
  )
  return []
}

/**
 * Newer models take the two together, but want each search back with the history, which no other protocol can carry.
 */
function writeSearch(
  { toolChoice }: GenerationRequest,
  search: WebSearch,
  hasFunctions: boolean,
  translation: Translation,
): Record<string, unknown>[] {
  if (toolChoice?.type === 'none') return []
  if (hasFunctions) {
    translation.lose(
      'todo_dropped',
      translation.setting('webSearch'),
      'the provider refuses its search beside function tools',
    )
    return []
  }
  loseSearchOptions(search, translation)
  return [{ googleSearch: {} }]
}

function writeDeclaration(tool: Exclude<Tool, { type: 'native' }>, translation: Translation): Record<string, unknown> {
  const head = {
    name: sentName(tool.name),
    ...(tool.description === undefined ? {} : { description: tool.description }),
  }
  if (tool.type === 'custom') {
    loseGrammar(tool, translation)
    return { ...head, parametersJsonSchema: inputSchema(tool) }
  }
  return {
    ...head,
    ...(tool.parameters === undefined
      ? {}
      : { parametersJsonSchema: translation.schemaCache.write(parametersSchema, tool, translation) }),
  }
}

/**
 * Forced calls keep to their schemas; those that the model makes of its own accord do so where the mode is VALIDATED.
 */
function writeToolChoice(
  { toolChoice, tools }: GenerationRequest,
  translation: Translation,
): Record<string, unknown> | undefined {
  switch (toolChoice?.type) {
    case undefined:
      return allStrict(tools, translation) ? { functionCallingConfig: { mode: 'VALIDATED' } } : undefined
    case 'auto':
      return { functionCallingConfig: { mode: allStrict(tools, translation) ? 'VALIDATED' : 'AUTO' } }
    case 'none':
      return { functionCallingConfig: { mode: 'NONE' } }
    case 'required':
      return { functionCallingConfig: { mode: 'ANY' } }
    case 'tool':
      return { functionCallingConfig: { mode: 'ANY', allowedFunctionNames: [sentName(toolChoice.name)] } }
    // AUTO takes no names; VALIDATED is AUTO with names.
    case 'allowed':
      return {
        functionCallingConfig: {
          mode: toolChoice.required ? 'ANY' : 'VALIDATED',
          allowedFunctionNames: toolChoice.names.map(sentName),
        },
      }
  }
}

/**
 * Whether all functions are to be held to their schemas: the mode is that of all calls. One of free text is held to its
 * one string alike.
 */
function allStrict(tools: readonly Tool[], translation: Translation): boolean {
  const functions = tools.filter((tool) => tool.type === 'function')
  const strict = functions.filter((tool) => tool.strict === true)
  if (strict.length === functions.length) return strict.length > 0
  for (const { name } of strict)
    translation.lose(
      'todo_dropped',
      translation.setting('conversation') /* tool.strict of name */,
      'the provider holds all calls to their schemas or none, and not all tools are strict',
    )
  return false
}

function writeConfig(request: GenerationRequest, target: Target, translation: Translation): Record<string, unknown> {
  const { sampling } = request
  const thinking = writeThinking(request.reasoning, target.capabilities, translation)
  const written = {
    temperature: sampling.temperature,
    topP: sampling.topP,
    topK: sampling.topK,
    maxOutputTokens: withinLimit(request.maxOutputTokens, target.capabilities, translation),
    stopSequences: writeStop(sampling.stop, translation),
    frequencyPenalty: writePenalty('frequencyPenalty', sampling.frequencyPenalty, target, translation),
    presencePenalty: writePenalty('presencePenalty', sampling.presencePenalty, target, translation),
    seed: writeSeed(sampling.seed, translation),
    responseLogprobs: sampling.logprobs,
    logprobs: sampling.logprobs === true && sampling.topLogprobs !== 0 ? sampling.topLogprobs : undefined,
    responseModalities: request.outputModalities?.map((modality) => modality.toUpperCase()),
    imageConfig: imageConfigOf(request, translation),
    ...writeFormat(request, translation),
    thinkingConfig: thinking,
  }
  return Object.fromEntries(Object.entries(written).filter(([, value]) => value !== undefined))
}

function writeStop(stop: string[] | undefined, translation: Translation): string[] | undefined {
  if (stop === undefined || stop.length <= STOP_MAX) return stop?.length === 0 ? undefined : stop
  loseStopSequences(translation, `the provider takes ${STOP_MAX} stop sequences, and is sent the first`)
  return stop.slice(0, STOP_MAX)
}

/** Google's penalties end just below 2. */
function writePenalty(
  field: 'frequencyPenalty' | 'presencePenalty',
  penalty: number | undefined,
  { capabilities }: Target,
  translation: Translation,
): number | undefined {
  if (capabilities.penalties === false) {
    if ((penalty ?? 0) !== 0)
      translation.lose('todo_dropped', translation.setting(field as SettingName), 'the model refuses penalties')
    return undefined
  }
  if (penalty === undefined || penalty < 2) return penalty
  translation.lose(
    'todo_approximated',
    translation.setting(field as SettingName),
    'the provider takes values below 2: sent as 1.99',
  )
  return 1.99
}

function writeSeed(seed: number | undefined, translation: Translation): number | undefined {
  if (seed === undefined || (Number.isInteger(seed) && seed === (seed | 0))) return seed
  translation.lose('todo_dropped', translation.setting('seed'), 'the provider takes 32-bit seeds')
  return undefined
}

function writeFormat({ outputFormat }: GenerationRequest, translation: Translation): Record<string, unknown> {
  switch (outputFormat?.type) {
    case undefined:
      return {}
    case 'text':
      return { responseMimeType: 'text/plain' }
    case 'json':
      return { responseMimeType: 'application/json' }
    case 'schema':
      return {
        responseMimeType: 'application/json',
        responseJsonSchema: responseSchema(outputFormat.schema, translation),
      }
    case 'enum':
      return { responseMimeType: 'text/x.enum', responseSchema: writeEnumSchema(outputFormat.schema) }
  }
}
