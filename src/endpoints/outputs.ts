import type { AppContext, PublicRequest } from '../context.ts'
import { GatewayError } from '../error.ts'
import { contentHeaders } from '../http/content.ts'

/** `GET /v1/outputs/{token}`: an image or other output of a model, for anyone who has the token. */
export async function getOutput(
  { files }: AppContext,
  { params, request, receivedAt }: PublicRequest,
): Promise<Response> {
  const output = await files.findOutput(params[0]!)
  if (output === undefined) throw new GatewayError('not_found', 'No such output: the URL is wrong, or it has expired.')
  const secondsLeft = Math.max(0, Math.floor((output.expiresAt - receivedAt) / 1000))
  return files.respond(output, {
    range: request.headers.get('range'),
    headers: { ...contentHeaders(output.mediaType), 'cache-control': `private, max-age=${secondsLeft}` },
  })
}
