import type { Call, Spine } from '../spine.ts'
import { checkAllowed } from '../accounts/allowed-models.ts'
import { GatewayError } from '../error.ts'
import { members, splice } from '../generation/json-text.ts'
import { readAll } from '../http/call.ts'
import { estimateInputTokens } from '../ledger/estimate.ts'
import { protocols } from '../protocols/index.ts'
import { readCountRequest } from '../protocols/messages/serve.ts'
import { transport } from '../providers/attempt.ts'
import type { Endpoint } from '../providers/catalogue.ts'
import type { ProtocolName } from '../generation/request.ts'
import type { Wire } from '../protocols/protocol.ts'
import { readWire } from '../protocols/wire.ts'

const ANSWER_BYTES = 1024 * 1024

/**
 * Puts what a request names in its place, in its body and text. Gives the endpoints that take it, or undefined where it
 * names nothing.
 */
type ResolveMedia = (
  spine: Spine,
  call: Call,
  name: ProtocolName,
  wire: Wire,
) => Promise<{ endpoints: readonly Endpoint[]; release(): void } | undefined>

/** Asks a provider that counts by itself; undefined when it does not, so that an estimate serves. */
async function ask(
  spine: Spine,
  call: Call,
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
      timeouts: spine.config.timeouts,
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
export async function countMessagesTokens(spine: Spine, call: Call, resolveMedia: ResolveMedia): Promise<Response> {
  const wire = await readWire(call.request, spine.config.limits.bodyBytes, call.fromPath)
  const media = await resolveMedia(spine, call, 'messages', wire)
  try {
    const request = readCountRequest(wire)
    checkAllowed(call.identity, request.model)
    const endpoint = (media?.endpoints ?? spine.catalogue.endpoints(request.model, 'messages'))[0]!
    const answer =
      endpoint.protocol === 'messages'
        ? await ask(
            spine,
            call,
            endpoint,
            '/messages/count_tokens',
            splice(wire.text, { model: JSON.stringify(endpoint.target.model) }),
            protocols.messages.call.headers(wire),
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
export async function countGeminiTokens(spine: Spine, call: Call, resolveMedia: ResolveMedia): Promise<Response> {
  const wire = await readWire(call.request, spine.config.limits.bodyBytes, call.fromPath)
  const wrapped = members(wire.text).find(({ key, start }) => key === WRAPPER && wire.text[start] === '{')
  const asked =
    wrapped === undefined
      ? wire
      : {
          ...wire,
          body: wire.body[WRAPPER] as Record<string, unknown>,
          text: wire.text.slice(wrapped.start, wrapped.end),
        }
  const media = await resolveMedia(spine, call, 'generateContent', asked)
  try {
    const request = protocols.generateContent.serve.readRequest(asked)
    checkAllowed(call.identity, request.model)
    const endpoint = (media?.endpoints ?? spine.catalogue.endpoints(request.model, 'generateContent'))[0]!
    const text = wrapped === undefined ? asked.text : splice(wire.text, { [WRAPPER]: asked.text })
    const answer =
      endpoint.protocol === 'generateContent'
        ? await ask(spine, call, endpoint, `/models/${endpoint.target.model}:countTokens`, text, {})
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
