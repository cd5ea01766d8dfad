import type { Call, Spine } from './spine.ts'
import { asGatewayError } from './error.ts'
import { fold, unfold, type Answer, type GenerationEvent } from './generation/event.ts'
import { noUsage, type Usage } from './generation/usage.ts'
import { originOf } from './http/serve.ts'
import type { Underway } from './open.ts'
import { attempt, readAnswer, readWhole, Refusal, type Upstream } from './providers/attempt.ts'

/** An answer to the images API before it is told: with the further answers that the number of images asks for, and with addresses where the client wants some. */
export async function completeImages(spine: Spine, call: Call, upstream: Upstream, underway: Underway, first: GenerationEvent[]): Promise<GenerationEvent[]> {
  const { exchange, sameProtocol } = upstream
  const events = sameProtocol ? first : await joinAnswers(spine, upstream, underway, first)
  if (exchange.wire.body.response_format === 'url') exchange.imageUrls = await publish(spine, call, events)
  return events
}

/** A provider that draws within a conversation makes one image at a time: it is asked again for each of the others, at once. */
async function joinAnswers({ config }: Spine, upstream: Upstream, underway: Underway, first: GenerationEvent[]): Promise<GenerationEvent[]> {
  const { exchange, endpoint, losses } = upstream
  const wanted = exchange.request.imageOutput?.count ?? 1
  if (wanted === 1) return first
  const others = await Promise.allSettled(Array.from({ length: wanted - 1 }, async () => {
    const other = await attempt([endpoint], exchange, config.timeouts, underway, [])
    return readAnswer(other, await readWhole(other))
  }))
  const answers = [first, ...others.flatMap((other) => (other.status === 'fulfilled' ? [other.value] : []))].map(fold)
  const joined: Answer = { ...answers[0]!, parts: answers.flatMap(({ parts }) => parts), usage: sumOf(answers.map(({ usage }) => usage)), metered: answers.some(({ metered }) => metered) }
  const made = joined.parts.filter(({ type }) => type === 'image').length
  const failed = others.find((other) => other.status === 'rejected')
  if (made < wanted && made > 0) losses.push({ field: 'n', what: 'approximated', why: `${made} of ${wanted} images${failed === undefined ? '' : `: another call failed (${codeOf(failed.reason)})`}` })
  return [...unfold(joined)]
}

const codeOf = (error: unknown): string => (error instanceof Refusal ? error.error : asGatewayError(error)).code

function sumOf(usages: Usage[]): Usage {
  const sum = noUsage()
  for (const usage of usages) for (const bucket of Object.keys(sum) as (keyof Usage)[]) sum[bucket] += usage[bucket]
  return sum
}

/** Keeps the images and gives their addresses. They are durable before anyone hears of them. */
async function publish({ files, config }: Spine, { request, identity }: Call, events: readonly GenerationEvent[]): Promise<string[]> {
  const origin = originOf(request, config.listen.publicUrl)
  const images = fold(events).parts.flatMap((part) => (part.type === 'image' && part.source.type === 'data' ? [part.source] : []))
  const tokens = await Promise.all(images.map(({ mediaType, data }) => files.publish(identity.accountId, { mediaType, data: Buffer.from(data, 'base64') })))
  return tokens.map((token) => `${origin}/v1/outputs/${token}`)
}
