import type { Timeouts } from '../http/call.ts'
import { scrub } from '../log/secrets.ts'
import { parseRawRequest } from '../protocols/raw-request.ts'
import { protocols } from '../protocols/index.ts'
import type { TranslationContext } from '../protocols/protocol.ts'
import { SchemaCache } from '../protocols/schema/cache.ts'
import { callEndpoint, PreparedRequests, readEvents, readResponseText } from './attempt.ts'
import { errorOfAttempt, UpstreamRefusal } from './upstream-refusal.ts'
import type { Endpoint } from './catalogue.ts'

const MOST_MS = 30_000

/** The result of a call that only shows if a provider answers. `error`: without secrets, null for an answer. */
type TestCall = { status: number | null; firstByteMs: number | null; totalMs: number; error: string | null }

/** Calls an endpoint with a request of two words and few tokens, which is not recorded. */
export async function testCall(endpoint: Endpoint, timeouts: Timeouts): Promise<TestCall> {
  const { model } = endpoint.target
  const body = { model, max_tokens: 16, messages: [{ role: 'user', content: 'Say OK.' }] }
  const rawRequest = parseRawRequest(JSON.stringify(body), new Headers())
  const request = protocols['chat.completions'].serve.readRequest(rawRequest)
  const context: TranslationContext = { rawRequest, request, responseIdentity: { id: '', model, createdAt: 0 } }
  const startedAt = performance.now()
  const elapsed = (): number => Math.round(performance.now() - startedAt)
  let status: number | null = null
  let firstByteMs: number | null = null
  try {
    const upstream = await callEndpoint(
      endpoint,
      new PreparedRequests(context, new SchemaCache()),
      {
        timeouts: { ...timeouts, totalMs: Math.min(timeouts.totalMs, MOST_MS) },
        signal: AbortSignal.timeout(MOST_MS),
        onSent: () => {},
      },
      1,
    )
    status = upstream.incoming.status
    firstByteMs = elapsed()
    readEvents(upstream, await readResponseText(upstream))
    return { status, firstByteMs, totalMs: elapsed(), error: null }
  } catch (error) {
    const response = error instanceof UpstreamRefusal ? error.response : undefined
    return {
      status: response?.status ?? status,
      firstByteMs,
      totalMs: elapsed(),
      error: scrub(errorOfAttempt(error).message).slice(0, 500),
    }
  }
}
