import type { Config } from '../config/load.ts'
import { asGatewayError } from '../error.ts'
import { fold, unfold, type Answer, type GenerationEvent } from '../generation/event.ts'
import { noUsage, type Usage } from '../generation/usage.ts'
import { lose } from '../protocols/losses.ts'
import type { SchemaCache } from '../protocols/schema/cache.ts'
import type { CallSignal } from '../http/connection.ts'
import { attempt, PreparedRequests, readAnswer, readWhole, UpstreamRefusal, type Upstream } from './attempt.ts'

/**
 * A provider that draws within a conversation makes one image at a time: it is asked again for each of the others, at
 * once.
 */
export async function joinAnswers(
  { config: { timeouts }, schemaCache }: { config: Pick<Config, 'timeouts'>; schemaCache: SchemaCache },
  upstream: Upstream,
  signal: CallSignal,
  first: GenerationEvent[],
): Promise<GenerationEvent[]> {
  const { context, endpoint } = upstream
  const wanted = context.request.imageOutput?.count ?? 1
  const begun = imagesIn(first)
  // Who draws nothing at first would only say again why.
  if (begun === 0 || begun >= wanted) return first
  const others = await Promise.allSettled(
    Array.from({ length: wanted - begun }, async () => {
      const other = await attempt([endpoint], new PreparedRequests(context, schemaCache), timeouts, signal, [])
      return readAnswer(other, await readWhole(other))
    }),
  )
  const told = [first, ...others.flatMap((other) => (other.status === 'fulfilled' ? [other.value] : []))]
  const answers = told.map(fold)
  const joined: Answer = {
    ...answers[0]!,
    parts: answers.flatMap(({ parts }) => parts),
    usage: sumOf(answers.map(({ usage }) => usage)),
    metered: answers.some(({ metered }) => metered),
  }
  const made = told.reduce((sum, events) => sum + imagesIn(events), 0)
  const failed = others.find((other) => other.status === 'rejected')
  if (made < wanted)
    lose(
      context,
      'response_images_missing',
      'images',
      `${made} of ${wanted} images${failed === undefined ? '' : `: another call failed (${codeOf(failed.reason)})`}`,
    )
  return [...unfold(joined)]
}

const imagesIn = (events: readonly GenerationEvent[]): number =>
  events.filter((event) => event.type === 'part-start' && event.head.type === 'image').length

const codeOf = (error: unknown): string => (error instanceof UpstreamRefusal ? error.error : asGatewayError(error)).code

function sumOf(usages: Usage[]): Usage {
  const sum = noUsage()
  for (const usage of usages) for (const bucket of Object.keys(sum) as (keyof Usage)[]) sum[bucket] += usage[bucket]
  return sum
}
