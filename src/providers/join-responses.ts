import type { Config } from '../config/load.ts'
import { fold, unfold, type GenerationResponse, type GenerationEvent } from '../generation/event.ts'
import { addUsage, noUsage, type Usage } from '../generation/usage.ts'
import { lose } from '../protocols/losses.ts'
import type { RequestContext } from '../protocols/protocol.ts'
import type { SchemaCache } from '../protocols/schema/cache.ts'
import type { CallSignal } from '../http/connection.ts'
import { callEndpoint, PreparedRequests, readEvents, readResponseText, type Upstream } from './attempt.ts'
import { errorOfAttempt } from './upstream-refusal.ts'

/**
 * Requests the missing images with parallel calls and joins the responses, since a conversation model generates one
 * image per call. `first`: the events of the first response. A failed call is reported as a loss.
 */
export async function joinResponses(
  { config: { timeouts }, schemaCache }: { config: Pick<Config, 'timeouts'>; schemaCache: SchemaCache },
  upstream: Upstream<RequestContext>,
  signal: CallSignal,
  first: GenerationEvent[],
): Promise<GenerationEvent[]> {
  const { context, endpoint } = upstream
  const requested = context.request.imageOutput?.count ?? 1
  const generated = imagesIn(first)
  // If the first call produced no image, more calls would fail the same way.
  if (generated === 0 || generated >= requested) return first
  const others = await Promise.allSettled(
    Array.from({ length: requested - generated }, async () => {
      const requests = new PreparedRequests(context, schemaCache)
      const other = await callEndpoint(endpoint, requests, { timeouts, signal, onSent() {} }, 1)
      return readEvents(other, await readResponseText(other))
    }),
  )
  const responses = [first, ...others.flatMap((other) => (other.status === 'fulfilled' ? [other.value] : []))]
  const answers = responses.map(fold)
  const joined: GenerationResponse = {
    ...answers[0]!,
    parts: answers.flatMap(({ parts }) => parts),
    usage: sumOf(answers.map(({ usage }) => usage)),
    metered: answers.some(({ metered }) => metered),
  }
  const made = responses.reduce((sum, events) => sum + imagesIn(events), 0)
  const failed = others.find((other) => other.status === 'rejected')
  const cause = failed === undefined ? '' : `: another call failed (${errorOfAttempt(failed.reason).code})`
  if (made < requested) lose(context, 'response_images_missing', 'images', `${made} of ${requested} images${cause}`)
  return [...unfold(joined)]
}

const imagesIn = (events: readonly GenerationEvent[]): number =>
  events.filter((event) => event.type === 'part-start' && event.head.type === 'image').length

function sumOf(usages: Usage[]): Usage {
  const sum = noUsage()
  for (const usage of usages) addUsage(sum, usage)
  return sum
}
