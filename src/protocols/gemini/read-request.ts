import type { GenerationRequest } from '../../generation/request.ts'
import { collectExtras } from '../fields.ts'
import type { RawRequest } from '../protocol.ts'
import { GoogleFields } from './fields.ts'
import { readConfig } from './read-request-config.ts'
import { ContentReader } from './read-request-contents.ts'
import { readSafety, readToolConfig, readTools } from './read-request-tools.ts'

/**
 * Body of `:generateContent` and `:streamGenerateContent`. Model and streaming come from the path. Throws
 * invalid_request with the path of a wrong field.
 */
export function readRequest(rawRequest: RawRequest): GenerationRequest {
  const body = new GoogleFields(rawRequest.body)
  const extras: Record<string, unknown> = Object.create(null)
  // Some clients repeat the model of the path here; the path takes precedence.
  body.string('model')
  body.require('contents', body.array('contents', { min: 1, of: 'contents' }), 'an array of at least one content')
  const reader = new ContentReader(rawRequest, extras)
  const system = reader.readSystem(body)
  const turns = reader.read(body.objects('contents')!)
  const toolChoice = readToolConfig(body, extras)
  const cached = body.string('cachedContent')
  if (cached !== undefined) extras[body.at('cachedContent')] = cached
  readSafety(body, extras)
  const request: GenerationRequest = {
    model: rawRequest.model ?? '',
    system,
    turns,
    ...readTools(body, extras),
    ...(toolChoice === undefined ? {} : { toolChoice }),
    ...readConfig(body.object('generationConfig') ?? new GoogleFields({}, 'generationConfig'), extras),
    stream: rawRequest.stream ?? false,
    protocol: 'generateContent',
    extras,
  }
  collectExtras(body, extras)
  return request
}
