import type { GenerationRequest, Tool, WebSearch } from '../../generation/request.ts'
import { withinLimit } from '../capabilities.ts'
import { loseBreakpoints } from '../cache-breakpoints.ts'
import { inputSchema, lossesOfFormat } from '../custom-tools.ts'
import { refuseTool } from '../provider-native.ts'
import { drawing, imageConfigOf } from '../image-config.ts'
import { loseUnsupported } from '../unsupported-settings.ts'
import type { Loss, Target, WrittenRequest } from '../protocol.ts'
import { cutLoss } from '../stop-sequences.ts'
import { lossesOfChoice } from '../tool-choice.ts'
import { lossesOfCitations, lossesOfSearch } from '../web-search.ts'
import { ContentWriter } from './write-request-contents.ts'
import { writeThinking } from './write-request-reasoning.ts'
import { wireName } from './names.ts'
import { answerSchema, parametersSchema } from './schema.ts'
import { writeEnumSchema } from './read-request-schema.ts'

const STOP_MAX = 5

/** Our words -> `GenerateContentRequest`. The model and streaming stand in the path. */
export function writeRequest(asked: GenerationRequest, target: Target): WrittenRequest {
  const request = drawing(asked, target)
  const losses: Loss[] = lossesOfCitations(request)
  const writer = new ContentWriter(target, losses)
  const { system, contents } = writer.write(request)
  const tools = writeTools(request, losses)
  const declared = tools.some((tool) => 'functionDeclarations' in tool)
  const toolConfig = declared ? writeToolChoice(request, losses) : undefined
  if (!declared) losses.push(...lossesOfChoice(request))
  const generationConfig = writeConfig(request, target, losses)
  loseUnsupported(
    request,
    ['logitBias', 'user', 'metadata', 'reasoning.summary', 'verbosity'],
    'the provider has no such field',
    losses,
  )
  loseUnsupported(request, ['serviceTier'], 'the provider names its tiers in its own way', losses)
  loseUnsupported(request, ['cacheKey', 'cacheRetention'], 'the provider caches by itself', losses)
  loseBreakpoints(request, undefined, losses)
  if (request.parallelTools === false && request.toolChoice?.type !== 'none')
    losses.push({ field: 'parallelTools', what: 'left out', why: 'the provider may always call several tools at once' })
  return {
    body: {
      ...(system.length === 0 ? {} : { systemInstruction: { parts: system } }),
      contents,
      ...(tools.length === 0 ? {} : { tools }),
      ...(toolConfig === undefined ? {} : { toolConfig }),
      ...(Object.keys(generationConfig).length === 0 ? {} : { generationConfig }),
    },
    losses,
  }
}

function writeTools(request: GenerationRequest, losses: Loss[]): Record<string, unknown>[] {
  const declarations: Record<string, unknown>[] = []
  const others: Record<string, unknown>[] = []
  const hasFunctions = request.tools.some((tool) => tool.type !== 'native')
  for (const tool of request.tools) {
    if (tool.type === 'native') others.push(...writeNative(tool, losses))
    else declarations.push(writeDeclaration(tool, losses))
  }
  if (request.webSearch !== undefined) others.push(...writeSearch(request, request.webSearch, hasFunctions, losses))
  return [...(declarations.length === 0 ? [] : [{ functionDeclarations: declarations }]), ...others]
}

function writeNative(tool: Extract<Tool, { type: 'native' }>, losses: Loss[]): Record<string, unknown>[] {
  if (tool.protocol === 'generateContent') return [tool.value as Record<string, unknown>]
  refuseTool(tool)
  losses.push({ field: 'tool', of: tool.kind, what: 'left out', why: `the provider has no tool '${tool.kind}'` })
  return []
}

/**
 * Newer models take the two together, but want each search back with the history, which no other protocol can carry.
 */
function writeSearch(
  { toolChoice }: GenerationRequest,
  search: WebSearch,
  hasFunctions: boolean,
  losses: Loss[],
): Record<string, unknown>[] {
  if (toolChoice?.type === 'none') return []
  if (hasFunctions) {
    losses.push({ field: 'webSearch', what: 'left out', why: 'the provider refuses its search beside function tools' })
    return []
  }
  losses.push(...lossesOfSearch(search))
  return [{ googleSearch: {} }]
}

function writeDeclaration(tool: Exclude<Tool, { type: 'native' }>, losses: Loss[]): Record<string, unknown> {
  const head = {
    name: wireName(tool.name),
    ...(tool.description === undefined ? {} : { description: tool.description }),
  }
  if (tool.type === 'custom') {
    losses.push(...lossesOfFormat(tool))
    return { ...head, parametersJsonSchema: inputSchema(tool) }
  }
  return { ...head, ...(tool.parameters === undefined ? {} : { parametersJsonSchema: parametersSchema(tool, losses) }) }
}

/**
 * Forced calls keep to their schemas; those that the model makes of its own accord do so where the mode is VALIDATED.
 */
function writeToolChoice(
  { toolChoice, tools }: GenerationRequest,
  losses: Loss[],
): Record<string, unknown> | undefined {
  switch (toolChoice?.type) {
    case undefined:
      return allStrict(tools, losses) ? { functionCallingConfig: { mode: 'VALIDATED' } } : undefined
    case 'auto':
      return { functionCallingConfig: { mode: allStrict(tools, losses) ? 'VALIDATED' : 'AUTO' } }
    case 'none':
      return { functionCallingConfig: { mode: 'NONE' } }
    case 'required':
      return { functionCallingConfig: { mode: 'ANY' } }
    case 'tool':
      return { functionCallingConfig: { mode: 'ANY', allowedFunctionNames: [wireName(toolChoice.name)] } }
    // AUTO takes no names; VALIDATED is AUTO with names.
    case 'allowed':
      return {
        functionCallingConfig: {
          mode: toolChoice.required ? 'ANY' : 'VALIDATED',
          allowedFunctionNames: toolChoice.names.map(wireName),
        },
      }
  }
}

/**
 * Whether all functions are to be held to their schemas: the mode is that of all calls. One of free text is held to its
 * one string alike.
 */
function allStrict(tools: readonly Tool[], losses: Loss[]): boolean {
  const functions = tools.filter((tool) => tool.type === 'function')
  const strict = functions.filter((tool) => tool.strict === true)
  if (strict.length === functions.length) return strict.length > 0
  for (const { name } of strict)
    losses.push({
      field: 'tool.strict',
      of: name,
      what: 'left out',
      why: 'the provider holds all calls to their schemas or none, and not all tools are strict',
    })
  return false
}

function writeConfig(request: GenerationRequest, target: Target, losses: Loss[]): Record<string, unknown> {
  const { sampling } = request
  const thinking = writeThinking(request.reasoning, target.capabilities, losses)
  const written = {
    temperature: sampling.temperature,
    topP: sampling.topP,
    topK: sampling.topK,
    maxOutputTokens: withinLimit(request.maxOutputTokens, target.capabilities, losses),
    stopSequences: writeStop(sampling.stop, losses),
    frequencyPenalty: writePenalty('frequencyPenalty', sampling.frequencyPenalty, target, losses),
    presencePenalty: writePenalty('presencePenalty', sampling.presencePenalty, target, losses),
    seed: writeSeed(sampling.seed, losses),
    responseLogprobs: sampling.logprobs,
    logprobs: sampling.logprobs === true && sampling.topLogprobs !== 0 ? sampling.topLogprobs : undefined,
    responseModalities: request.outputModalities?.map((modality) => modality.toUpperCase()),
    imageConfig: imageConfigOf(request, losses),
    ...writeFormat(request, losses),
    thinkingConfig: thinking,
  }
  return Object.fromEntries(Object.entries(written).filter(([, value]) => value !== undefined))
}

function writeStop(stop: string[] | undefined, losses: Loss[]): string[] | undefined {
  if (stop === undefined || stop.length <= STOP_MAX) return stop?.length === 0 ? undefined : stop
  losses.push(cutLoss(`the provider takes ${STOP_MAX} stop sequences, and is sent the first`))
  return stop.slice(0, STOP_MAX)
}

/** Google's penalties end just below 2. */
function writePenalty(
  field: 'frequencyPenalty' | 'presencePenalty',
  penalty: number | undefined,
  { capabilities }: Target,
  losses: Loss[],
): number | undefined {
  if (capabilities.penalties === false) {
    if ((penalty ?? 0) !== 0) losses.push({ field, what: 'left out', why: 'the model refuses penalties' })
    return undefined
  }
  if (penalty === undefined || penalty < 2) return penalty
  losses.push({ field, what: 'approximated', why: 'the provider takes values below 2: sent as 1.99' })
  return 1.99
}

function writeSeed(seed: number | undefined, losses: Loss[]): number | undefined {
  if (seed === undefined || (Number.isInteger(seed) && seed === (seed | 0))) return seed
  losses.push({ field: 'seed', what: 'left out', why: 'the provider takes 32-bit seeds' })
  return undefined
}

function writeFormat({ outputFormat }: GenerationRequest, losses: Loss[]): Record<string, unknown> {
  switch (outputFormat?.type) {
    case undefined:
      return {}
    case 'text':
      return { responseMimeType: 'text/plain' }
    case 'json':
      return { responseMimeType: 'application/json' }
    case 'schema':
      return { responseMimeType: 'application/json', responseJsonSchema: answerSchema(outputFormat.schema, losses) }
    case 'enum':
      return { responseMimeType: 'text/x.enum', responseSchema: writeEnumSchema(outputFormat.schema) }
  }
}
