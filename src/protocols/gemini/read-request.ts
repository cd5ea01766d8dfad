import type { GenerationRequest } from '../../generation/request.ts'
import { classValue } from '../../generation/service-class.ts'
import { collectExtras, type Extras, present, tryRead } from '../fields.ts'
import type { RawRequest } from '../protocol.ts'
import { GoogleFields } from './fields.ts'
import { readConfig } from './read-request-config.ts'
import { ContentReader } from './read-request-contents.ts'
import { readToolConfig, readTools } from './read-request-tools.ts'

/**
 * The request in the body of `:generateContent` and `:streamGenerateContent`; model and streaming come from the path.
 * Throws a GatewayError with the path of an invalid field that Sluice needs itself.
 */
export function readRequest(rawRequest: RawRequest): GenerationRequest {
  const extras: Extras = Object.create(null)
  const body = new GoogleFields(rawRequest.body, '', extras)
  // Some clients repeat the model of the path here; the path takes precedence.
  body.string('model')
  const contents = tryRead(contentsOf, body, extras) ?? []
  const reader = new ContentReader(rawRequest, extras)
  for (const part of reader.readSystem(body)) reader.reading.system.push(part)
  reader.read(body, contents)
  const toolChoice = readToolConfig(body)
  const cached = body.string('cachedContent')
  if (cached !== undefined) extras[body.at('cachedContent')] = cached
  const safety = body.take('safetySettings')
  if (safety !== undefined && !(Array.isArray(safety) && safety.length === 0))
    extras[body.at('safetySettings')] = safety
  const request: GenerationRequest = {
    model: rawRequest.model ?? '',
    system: reader.reading.system,
    turns: reader.reading.turns,
    ...readTools(body, extras),
    ...(toolChoice === undefined ? {} : { toolChoice }),
    ...readConfig(body.object('generationConfig') ?? body.inner({}, 'generationConfig'), extras),
    ...present('serviceTier', readServiceTier(body)),
    stream: rawRequest.stream ?? false,
    protocol: 'generateContent',
    extras,
  }
  collectExtras(body, extras)
  return request
}

function readServiceTier(body: GoogleFields): string | undefined {
  const tier = body.string('serviceTier')
  if (tier === undefined) return undefined
  const value = classValue(tier)
  return value === 'unspecified' ? 'auto' : value
}

const contentsOf = (body: GoogleFields): unknown[] =>
  body.require('contents', body.array('contents', { min: 1, of: 'contents' }), 'an array of at least one content')
