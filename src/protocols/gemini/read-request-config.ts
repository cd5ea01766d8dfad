import { GatewayError, invalid } from '../../error.ts'
import type { GenerationRequest, OutputFormat, Reasoning, Sampling } from '../../generation/request.ts'
import { collectExtras } from '../extras.ts'
import { isObject, kindOf, present } from '../fields.ts'
import type { Capabilities } from '../protocol.ts'
import { either, GoogleFields } from './fields.ts'
import { readSchema } from './read-request-schema.ts'

type Config = Pick<
  GenerationRequest,
  'sampling' | 'maxOutputTokens' | 'reasoning' | 'outputFormat' | 'outputModalities' | 'imageOutput'
>

const MIME_TYPES = ['text/plain', 'application/json', 'text/x.enum'] as const
const MODALITIES = ['text', 'image', 'audio'] as const
const LEVELS = ['minimal', 'low', 'medium', 'high'] as const
const PENALTY = { min: -2, below: 2 }

/** `generationConfig` -> our words; what only Google knows goes to `extras` under the client's path. */
export function readConfig(config: GoogleFields, extras: Record<string, unknown>): Config {
  const sampling = readSampling(config)
  const maxOutputTokens = config.integer('maxOutputTokens', { min: 1 })
  const reasoning = readThinking(config.object('thinkingConfig'), extras)
  const outputFormat = readFormat(config)
  const outputModalities = readModalities(config)
  const imageOutput = readImageConfig(config, extras)
  readResolution(config.take('mediaResolution'), config.at('mediaResolution'))
  const candidates = config.integer('candidateCount', { min: 1 })
  const googles: [string, unknown][] = [
    ['candidateCount', candidates],
    ['audioTimestamp', config.boolean('audioTimestamp')],
    ['mediaResolution', config.take('mediaResolution')],
  ]
  for (const [name, value] of googles)
    if (value !== undefined && !(name === 'candidateCount' && value === 1)) extras[config.at(name)] = value
  collectExtras(config, extras)
  return {
    sampling,
    ...(maxOutputTokens === undefined ? {} : { maxOutputTokens }),
    ...(candidates === undefined || candidates === 1 ? {} : { candidates }),
    ...(reasoning === undefined ? {} : { reasoning }),
    ...(outputFormat === undefined ? {} : { outputFormat }),
    ...(outputModalities === undefined ? {} : { outputModalities }),
    ...(imageOutput === undefined ? {} : { imageOutput }),
  }
}

function readSampling(config: GoogleFields): Sampling {
  const logprobs = config.boolean('responseLogprobs')
  const topLogprobs = config.integer('logprobs', { min: 1, max: 20 })
  if (topLogprobs !== undefined && logprobs !== true)
    throw invalid(config.at('logprobs'), 'needs responseLogprobs to be true')
  const read = {
    temperature: config.number('temperature'),
    topP: config.number('topP', { min: 0, max: 1 }),
    topK: config.integer('topK'),
    frequencyPenalty: config.number('frequencyPenalty', PENALTY),
    presencePenalty: config.number('presencePenalty', PENALTY),
    seed: config.integer('seed'),
    stop: config.strings('stopSequences', { max: 5, of: 'sequences' }),
    logprobs,
    topLogprobs,
  }
  return Object.fromEntries(Object.entries(read).filter(([, value]) => value !== undefined))
}

function readThinking(thinking: GoogleFields | undefined, extras: Record<string, unknown>): Reasoning | undefined {
  if (thinking === undefined) return undefined
  const visible = thinking.boolean('includeThoughts')
  const budget = thinking.integer('thinkingBudget')
  if (budget !== undefined && budget !== -1 && (budget < 0 || budget > 32768))
    throw invalid(thinking.at('thinkingBudget'), `must be -1 (the model decides) or 0 to 32768, not ${budget}`)
  const level = readLevel(thinking)
  if (budget !== undefined && level !== undefined)
    throw invalid(thinking.at('thinkingBudget'), 'must not stand together with thinkingLevel')
  collectExtras(thinking, extras)
  return {
    ...(level === undefined ? {} : { effort: level }),
    // A budget of nothing is the wish not to reason, which every protocol can say.
    ...(budget === undefined ? {} : budget === 0 ? { effort: 'none' } : { budgetTokens: budget }),
    ...(visible === undefined ? {} : { visible }),
  }
}

/**
 * Asking a model to think that cannot is an error (specification, "Errors"). The wish to see thoughts, or to have none,
 * asks for nothing.
 */
export function checkThinking({ reasoning }: GenerationRequest, capabilities: readonly Capabilities[]): void {
  const asked =
    reasoning?.budgetTokens !== undefined || (reasoning?.effort !== undefined && reasoning.effort !== 'none')
  if (!asked || capabilities.some((model) => model.reasoning !== 'none')) return
  const param = 'generationConfig.thinkingConfig'
  throw new GatewayError(
    'unsupported_parameter',
    `${param}: is not supported by this model, which does not think; leave it out`,
    { param },
  )
}

function readLevel(thinking: GoogleFields): (typeof LEVELS)[number] | undefined {
  const word = thinking.string('thinkingLevel')
  if (word === undefined || word === 'THINKING_LEVEL_UNSPECIFIED') return undefined
  const level = LEVELS.find((known) => known === word.toLowerCase())
  if (level === undefined)
    throw invalid(thinking.at('thinkingLevel'), `must be one of MINIMAL, LOW, MEDIUM, HIGH, not '${word.slice(0, 64)}'`)
  return level
}

function readFormat(config: GoogleFields): OutputFormat | undefined {
  const mime = config.oneOf('responseMimeType', MIME_TYPES)
  const schema = config.take('responseSchema')
  const jsonSchema = config.take('responseJsonSchema')
  if (jsonSchema !== undefined) {
    const path = config.at('responseJsonSchema')
    if (schema !== undefined) throw invalid(path, 'must not stand together with responseSchema')
    if (mime !== 'application/json') throw invalid(path, "needs responseMimeType to be 'application/json'")
    if (typeof jsonSchema !== 'object' || Array.isArray(jsonSchema))
      throw invalid(path, `must be an object, not ${kindOf(jsonSchema)}`)
    return { type: 'schema', schema: jsonSchema, strict: true }
  }
  if (schema !== undefined) {
    const path = config.at('responseSchema')
    const read = readSchema(schema, path)
    // Deeper down SDKs leave it out for "anything".
    if (['type', 'anyOf', '$ref'].every((name) => read[name] === undefined))
      throw invalid(`${path}.type`, 'is required: one of STRING, INTEGER, NUMBER, BOOLEAN, ARRAY, OBJECT')
    if (mime === undefined || mime === 'text/plain')
      throw invalid(path, "needs a responseMimeType other than 'text/plain'")
    return { type: mime === 'text/x.enum' ? 'enum' : 'schema', schema: read }
  }
  if (mime === 'text/x.enum')
    throw invalid(config.at('responseMimeType'), "'text/x.enum' needs a responseSchema that holds the choices")
  return mime === undefined ? undefined : { type: mime === 'text/plain' ? 'text' : 'json' }
}

function readModalities(config: GoogleFields): GenerationRequest['outputModalities'] {
  const path = config.at('responseModalities')
  const read = config.strings('responseModalities')?.map((word, index) => {
    const modality = MODALITIES.find((known) => known === word.toLowerCase())
    if (modality === undefined)
      throw invalid(`${path}[${index}]`, `must be one of TEXT, IMAGE, AUDIO, not '${word.slice(0, 64)}'`)
    return modality
  })
  if (read?.includes('image') === true && !read.includes('text'))
    throw invalid(path, 'IMAGE must be combined with TEXT')
  return read === undefined || read.length === 0 ? undefined : read
}

/** A ratio and a size; what else `imageConfig` says, or says in another form, is Google's alone. */
function readImageConfig(config: GoogleFields, extras: Record<string, unknown>): Config['imageOutput'] {
  const rawRequest = either(config.value, 'imageConfig')
  if (
    !isObject(rawRequest) ||
    [either(rawRequest, 'aspectRatio'), either(rawRequest, 'imageSize')].some(
      (value) => value !== undefined && typeof value !== 'string',
    )
  )
    return undefined
  const image = config.object('imageConfig')!
  const [aspectRatio, imageSize] = [image.string('aspectRatio'), image.string('imageSize')]
  collectExtras(image, extras)
  return { ...present('aspectRatio', aspectRatio), ...present('imageSize', imageSize) }
}

/** `HIGH` as the specification writes it, `MEDIA_RESOLUTION_HIGH` or `{level: ...}` as Google does -> lower case. */
export function readResolution(value: unknown, path: string): string | undefined {
  if (value === undefined) return undefined
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) {
    const fields = new GoogleFields(value, path)
    return readResolution(fields.take('level'), fields.at('level'))
  }
  const word = typeof value === 'string' ? value.replace(/^MEDIA_RESOLUTION_/, '') : undefined
  if (word === 'UNSPECIFIED') return undefined
  if (word === undefined || !RESOLUTIONS.has(word))
    throw invalid(
      path,
      `must be HIGH, MEDIUM or LOW, not ${typeof value === 'string' ? `'${value.slice(0, 64)}'` : kindOf(value)}`,
    )
  return word.toLowerCase()
}

const RESOLUTIONS: ReadonlySet<string> = new Set(['LOW', 'MEDIUM', 'HIGH', 'ULTRA_HIGH'])
