import type { InboundRequest, AppContext } from '../context.ts'
import { checkAllowed } from '../accounts/allowed-models.ts'
import { GatewayError } from '../error.ts'
import { splice } from '../json/edit.ts'
import { members } from '../json/scan.ts'
import { readAll } from '../http/call.ts'
import { estimateInputTokens } from '../ledger/estimate.ts'
import { protocols } from '../protocols/index.ts'
import { readCountRequest } from '../protocols/messages/read-request.ts'
import { transport } from '../providers/attempt.ts'
import type { Endpoint } from '../providers/catalogue.ts'
import type { ProtocolName } from '../generation/request.ts'
import type { RawRequest } from '../protocols/protocol.ts'
import { readRawRequest } from '../protocols/raw-request.ts'

const ANSWER_BYTES = 1024 * 1024

/**
 * Puts what a request names in its place, in its body and text. Gives the endpoints that take it, or undefined where it
 * names nothing.
 */
type ResolveMedia = (
  app: AppContext,
  call: InboundRequest,
  name: ProtocolName,
  rawRequest: RawRequest,
) => Promise<{ endpoints: readonly Endpoint[]; release(): void } | undefined>

/** Asks a provider that counts by itself; undefined when it does not, so that an estimate serves. */
async function ask(
  app: AppContext,
  call: InboundRequest,
  endpoint: Endpoint,
  path: string,
  body: string,
  headers: Record<string, string>,
): Promise<unknown> {
  const url = endpoint.baseUrl + path
  try {
    const incoming = await transport(endpoint)({
      url,
      method: 'POST',
      body,
      timeouts: app.config.timeouts,
      signal: call.request.signal,
      headers: {
        'content-type': 'application/json',
        ...headers,
        ...endpoint.provider.headers,
        ...endpoint.credentials,
      },
    })
    const text = await readAll(incoming.body, ANSWER_BYTES)
    if (incoming.status === 200) return JSON.parse(text)
    if (incoming.status === 400) throw protocols[endpoint.protocol].call.readError(incoming.status, text)
  } catch (error) {
    if (error instanceof GatewayError && error.status === 400) throw error
  }
  return undefined
}

const numberIn = (answer: unknown, field: string): number | undefined => {
  const value = (answer as Record<string, unknown> | undefined)?.[field]
  return typeof value === 'number' ? value : undefined
}

/**
 * `POST /v1/messages/count_tokens`: the provider's own count where it speaks messages, an estimate
 * (`x-sluice-estimated: true`) elsewhere.
 */
export async function countMessagesTokens(
  app: AppContext,
  call: InboundRequest,
  resolveMedia: ResolveMedia,
): Promise<Response> {
  const rawRequest = await readRawRequest(call.request, app.config.limits.bodyBytes, call.fromPath)
  const media = await resolveMedia(app, call, 'messages', rawRequest)
  try {
    const request = readCountRequest(rawRequest)
    checkAllowed(call.identity, request.model)
    const endpoint = (media?.endpoints ?? app.catalogue.endpoints(request.model, 'messages'))[0]!
    const answer =
      endpoint.protocol === 'messages'
        ? await ask(
            app,
            call,
            endpoint,
            '/messages/count_tokens',
            splice(rawRequest.text, { model: JSON.stringify(endpoint.target.model) }),
            protocols.messages.call.headers(rawRequest),
          )
        : undefined
    const counted = numberIn(answer, 'input_tokens')
    if (counted !== undefined) return Response.json(answer)
    return Response.json(
      { input_tokens: await estimateInputTokens(request) },
      { headers: { 'x-sluice-estimated': 'true' } },
    )
  } finally {
    media?.release()
  }
}

/** `POST .../models/{model}:countTokens`, Google's form of the same. `generateContentRequest` may wrap the contents. */
export async function countGeminiTokens(
  app: AppContext,
  call: InboundRequest,
  resolveMedia: ResolveMedia,
): Promise<Response> {
  const rawRequest = await readRawRequest(call.request, app.config.limits.bodyBytes, call.fromPath)
  const wrapped = members(rawRequest.text).find(({ key, start }) => key === WRAPPER && rawRequest.text[start] === '{')
  const asked =
    wrapped === undefined
      ? rawRequest
      : {
          ...rawRequest,
          body: rawRequest.body[WRAPPER] as Record<string, unknown>,
          text: rawRequest.text.slice(wrapped.start, wrapped.end),
        }
  const media = await resolveMedia(app, call, 'generateContent', asked)
  try {
    const request = protocols.generateContent.serve.readRequest(asked)
    checkAllowed(call.identity, request.model)
    const endpoint = (media?.endpoints ?? app.catalogue.endpoints(request.model, 'generateContent'))[0]!
    const text = wrapped === undefined ? asked.text : splice(rawRequest.text, { [WRAPPER]: asked.text })
    const answer =
      endpoint.protocol === 'generateContent'
        ? await ask(app, call, endpoint, `/models/${endpoint.target.model}:countTokens`, text, {})
        : undefined
    const counted = numberIn(answer, 'totalTokens')
    if (counted !== undefined) return Response.json(answer)
    return Response.json(
      { totalTokens: await estimateInputTokens(request) },
      { headers: { 'x-sluice-estimated': 'true' } },
    )
  } finally {
    media?.release()
  }
}

const WRAPPER = 'generateContentRequest'
