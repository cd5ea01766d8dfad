import { readJson } from '../../config/read-json.ts'
import type { Shape } from '../../config/shape.ts'
import { GatewayError, invalid } from '../../error.ts'
import { readBody } from '../../http/serve.ts'
import { checkJson } from '../../json/scan.ts'
import { syntaxProblem } from '../../json/syntax-error.ts'
import type { ManagementRequest } from './route.ts'

const BODY_BYTES = 256 * 1024

/** The request's JSON body, read by a shape. Throws invalid_request (400) with the path of the first problem. */
export async function bodyOf<T>(inbound: ManagementRequest, shape: Shape<T>): Promise<T> {
  const read = readJson(await bodyTextOf(inbound, BODY_BYTES), shape)
  if ('value' in read) return read.value
  throw invalid(read.problem.path === '' ? 'body' : read.problem.path, read.problem.message)
}

/**
 * The text of the request's JSON body. Its sender decides how long that takes, so that what was read before is old:
 * handlers read what they change after it. Throws unsupported_media_type (415), request_too_large, invalid_request. */
export async function bodyTextOf(inbound: ManagementRequest, limitBytes: number): Promise<string> {
  const { request } = inbound
  const type = request.headers.get('content-type') ?? ''
  if (!/^application\/json\s*(?:;|$)/i.test(type))
    throw new GatewayError('unsupported_media_type', 'The body must be JSON: send content-type: application/json.')
  const text = (await readBody(request, limitBytes)).toString()
  await inbound.identifyAgain?.()
  const problem = checkJson(text)
  if (problem !== undefined) throw invalid('body', problem)
  try {
    JSON.parse(text)
  } catch (error) {
    throw invalid('body', syntaxProblem(text, error))
  }
  return text
}
