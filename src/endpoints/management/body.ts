import { readJson } from '../../config/read-json.ts'
import type { Shape } from '../../config/shape.ts'
import { GatewayError, invalid } from '../../error.ts'
import { readBody } from '../../http/serve.ts'
import type { ManagementRequest } from './route.ts'

const BODY_BYTES = 256 * 1024

/** The request's JSON body, read by a shape. Throws invalid_request (400) with the path of the first problem. */
export async function bodyOf<T>({ request }: ManagementRequest, shape: Shape<T>): Promise<T> {
  const type = request.headers.get('content-type') ?? ''
  if (!/^application\/json\s*(?:;|$)/i.test(type))
    throw new GatewayError('unsupported_media_type', 'The body must be JSON: send content-type: application/json.')
  const read = readJson((await readBody(request, BODY_BYTES)).toString(), shape)
  if ('value' in read) return read.value
  throw invalid(read.problem.path === '' ? 'body' : read.problem.path, read.problem.message)
}
