import { GatewayError } from '../error.ts'
import { contentHeaders } from '../http/content.ts'
import type { InboundRequest, AppContext } from '../context.ts'

/** `GET /v1/outputs/{token}`: what a model made, for whoever knows the token. */
export async function getOutput({ files }: AppContext, { params, receivedAt }: InboundRequest): Promise<Response> {
  const output = await files.findOutput(params[0]!)
  if (output === undefined)
    throw new GatewayError('not_found', 'There is nothing here: the address is wrong, or what was here has expired.')
  const secondsLeft = Math.max(0, Math.floor((output.expiresAt - receivedAt) / 1000))
  return new Response(files.content(output), {
    headers: { ...contentHeaders(output.mediaType), 'cache-control': `private, max-age=${secondsLeft}` },
  })
}
