import { GatewayError, invalid } from '../../error.ts'
import type { GenerationRequest, OutputFormat, Reasoning, RequestSettings, Sampling } from '../../generation/request.ts'
import { describeType, present, refuseElsewhere, tryRead } from '../fields.ts'
import { isObject } from '../../json/parse.ts'
import type { Capabilities } from '../protocol.ts'
import { either, GoogleFields } from './fields.ts'
import { readSchema } from './read-request-schema.ts'

type Config = Pick<
  GenerationRequest,
  'sampling' | 'maxOutputTokens' | 'candidates' | 'reasoning' | 'outputFormat' | 'outputModalities' | 'imageOutput'
>

const MIME_TYPES = ['text/plain', 'application/json', 'text/x.enum'] as const
const MODALITIES = ['text', 'image', 'audio'] as const
const LEVELS = ['minimal', 'low', 'medium', 'high'] as const
const PENALTY = { min: -2, below: 2 }

/** `generationConfig`; fields that only Google's protocol has go to `extras` under the client's path. */
export function readConfig(config: GoogleFields, extras: Record<string, unknown>): Config {
  const sampling = readSampling(config)
  const maxOutputTokens = config.integer('maxOutputTokens', { min: 1 })
  const reasoning = readReasoning(config.object('thinkingConfig'), extras)
  const outputFormat = tryRead(readFormat, config, extras)
  const outputModalities = readModalities(config)
  const imageOutput = readImageConfig(config)
  tryRead(readResolution, config, extras)
  const candidates = config.needed.integer('candidateCount', { min: 1 })
  const googleOnly: [string, unknown][] = [
    ['candidateCount', candidates === 1 ? undefined : candidates],
    ['audioTimestamp', config.boolean('audioTimestamp')],
    ['mediaResolution', config.take('mediaResolution')],
  ]
  for (const [name, value] of googleOnly) if (value !== undefined) extras[config.at(name)] ??= value
  return {
    sampling,
    ...present('maxOutputTokens', maxOutputTokens),
    ...present('candidates', candidates === 1 ? undefined : candidates),
    ...present('reasoning', reasoning),
    ...present('outputFormat', outputFormat),
    ...present('outputModalities', outputModalities),
    ...present('imageOutput', imageOutput),
  }
}

function readSampling(config: GoogleFields): Sampling {
  const logprobs = config.boolean('responseLogprobs')
  const topLogprobs = config.integer('logprobs', { min: 1, max: 20 })
  if (topLogprobs !== undefined && logprobs !== true)
    refuseElsewhere(config.extras!, invalid(config.at('logprobs'), 'responseLogprobs must be true too'))
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

function readReasoning(thinking: GoogleFields | undefined, extras: Record<string, unknown>): Reasoning | undefined {
  if (thinking === undefined) return undefined
  const visible = thinking.boolean('includeThoughts')
  const budget = thinking.integer('thinkingBudget')
  const refuse = (problem: string): void => refuseElsewhere(extras, invalid(thinking.at('thinkingBudget'), problem))
  if (budget !== undefined && budget !== -1 && (budget < 0 || budget > 32768))
    refuse(`must be -1 (the model decides) or 0 to 32768, not ${budget}`)
  const level = tryRead(readLevel, thinking, extras)
  if (budget !== undefined && level !== undefined) refuse('must not be combined with thinkingLevel')
  return {
    ...present('effort', level),
    // A budget of 0 switches reasoning off, which every protocol can represent as an effort.
    ...(budget === undefined ? {} : budget === 0 ? { effort: 'none' } : { budgetTokens: budget }),
    ...present('visible', visible),
  }
}

/**
 * Refuses to request reasoning where no endpoint has a model that reasons, as Google does. Hiding reasoning or
 * switching it off is no such request.
 */
export function checkReasoning({ reasoning }: RequestSettings, capabilities: readonly Capabilities[]): void {
  const isRequested =
    reasoning?.budgetTokens !== undefined || (reasoning?.effort !== undefined && reasoning.effort !== 'none')
  if (!isRequested || capabilities.some((model) => model.reasoning !== 'none')) return
  const param = 'generationConfig.thinkingConfig'
  throw new GatewayError(
    'unsupported_parameter',
    `${param}: this model does not reason; remove the field or use another model`,
    { param },
  )
}

function readLevel(thinking: GoogleFields): (typeof LEVELS)[number] | undefined {
  const name = thinking.string('thinkingLevel')
  if (name === undefined || name === 'THINKING_LEVEL_UNSPECIFIED') return undefined
  const level = LEVELS.find((known) => known === name.toLowerCase())
  if (level === undefined)
    throw invalid(thinking.at('thinkingLevel'), `must be one of MINIMAL, LOW, MEDIUM, HIGH, not '${name.slice(0, 64)}'`)
  return level
}

function readFormat(config: GoogleFields): OutputFormat | undefined {
  const mime = config.oneOf('responseMimeType', MIME_TYPES)
  const schema = config.take('responseSchema')
  const jsonSchema = config.take('responseJsonSchema')
  if (jsonSchema !== undefined) {
    const path = config.at('responseJsonSchema')
    if (schema !== undefined) throw invalid(path, 'must not be combined with responseSchema')
    if (mime !== 'application/json') throw invalid(path, "responseMimeType must be 'application/json'")
    if (typeof jsonSchema !== 'object' || Array.isArray(jsonSchema))
      throw invalid(path, `must be an object, not ${describeType(jsonSchema)}`)
    return { type: 'schema', schema: jsonSchema, strict: true }
  }
  if (schema !== undefined) return readSchemaFormat(schema, mime, config.at('responseSchema'))
  if (mime === 'text/x.enum')
    throw invalid(config.at('responseMimeType'), "responseSchema must have the values of 'text/x.enum'")
  return mime === undefined ? undefined : { type: mime === 'text/plain' ? 'text' : 'json' }
}

function readSchemaFormat(value: unknown, mime: (typeof MIME_TYPES)[number] | undefined, path: string): OutputFormat {
  const schema = readSchema(value, path)
  // Inside the schema, SDKs omit it for a value of any type.
  if (['type', 'anyOf', '$ref'].every((name) => schema[name] === undefined))
    throw invalid(`${path}.type`, 'is required: one of STRING, INTEGER, NUMBER, BOOLEAN, ARRAY, OBJECT')
  if (mime === undefined || mime === 'text/plain')
    throw invalid(path, "responseMimeType must be 'application/json' or 'text/x.enum'")
  return mime === 'text/x.enum' ? { type: 'enum', schema } : { type: 'schema', schema, strict: true }
}

function readModalities(config: GoogleFields): GenerationRequest['outputModalities'] {
  const path = config.at('responseModalities')
  const read = config.strings('responseModalities')?.flatMap((name, index) => {
    const modality = MODALITIES.find((known) => known === name.toLowerCase())
    if (modality !== undefined) return [modality]
    const problem = `must be one of TEXT, IMAGE, AUDIO, not '${name.slice(0, 64)}'`
    refuseElsewhere(config.extras!, invalid(`${path}[${index}]`, problem))
    return []
  })
  return read === undefined || read.length === 0 ? undefined : read
}

/** Aspect ratio and image size. An `imageConfig` with values of other types goes to Google only. */
function readImageConfig(config: GoogleFields): Config['imageOutput'] {
  const value = either(config.value, 'imageConfig')
  const isString = (member: unknown): boolean => member === undefined || typeof member === 'string'
  if (!isObject(value) || !isString(either(value, 'aspectRatio')) || !isString(either(value, 'imageSize')))
    return undefined
  const image = config.object('imageConfig')!
  const [aspectRatio, imageSize] = [image.string('aspectRatio'), image.string('imageSize')]
  return { ...present('aspectRatio', aspectRatio), ...present('imageSize', imageSize) }
}

/** `mediaResolution` in lower case: `HIGH`, `MEDIA_RESOLUTION_HIGH` or `{level: 'MEDIA_RESOLUTION_HIGH'}`. */
export function readResolution(holder: GoogleFields): string | undefined {
  const isLevel = isObject(either(holder.value, 'mediaResolution'))
  const fields = isLevel ? holder.object('mediaResolution')! : holder
  const member = isLevel ? 'level' : 'mediaResolution'
  const value = fields.take(member)
  if (value === undefined) return undefined
  const name = typeof value === 'string' ? value.replace(/^MEDIA_RESOLUTION_/, '') : undefined
  if (name === 'UNSPECIFIED') return undefined
  if (name === undefined || !RESOLUTIONS.has(name))
    throw invalid(
      fields.at(member),
      `must be HIGH, MEDIUM or LOW, not ${typeof value === 'string' ? `'${value.slice(0, 64)}'` : describeType(value)}`,
    )
  return name.toLowerCase()
}

const RESOLUTIONS: ReadonlySet<string> = new Set(['LOW', 'MEDIUM', 'HIGH', 'ULTRA_HIGH'])
