import { penaltyOf } from '../accounts/abuse-detection.ts'
import { GatewayError, invalid } from '../error.ts'
import type { FinishReason } from '../generation/event.ts'
import type { ProtocolName } from '../generation/request.ts'
import type { Outcome } from '../ledger/outcomes.ts'
import type { RatedItem } from '../ledger/rating.ts'
import { ratingOf } from '../ledger/recorded.ts'
import { usdOf } from '../money.ts'
import { writeFinishReason, writeUsage } from '../protocols/chat/shapes.ts'
import { protocols } from '../protocols/index.ts'
import type { InboundRequest, AppContext } from '../context.ts'
import type { GenerationRecord } from '../store/store.ts'

/** An id as an answer carried it, whatever its protocol calls it, or without its prefix. */
const ID = /^(?:chatcmpl-|resp_|msg_|img_|pred_)?([0-9a-f]{32})$/

/** `GET /v1/management/generation?id=`: one generation of the asking key's account. */
export async function getGeneration(app: AppContext, call: InboundRequest): Promise<Response> {
  return Response.json(await found(app, call))
}

/** The day from which `GET /v1/generation` is deprecated, in Unix seconds: 2026-11-21. */
const DEPRECATED = '@1795219200'

/** `GET /v1/generation`: the same, and where it is found from now on (RFC 9745, RFC 5829). */
export async function getGenerationAtOldPath(app: AppContext, call: InboundRequest): Promise<Response> {
  const headers = (query: string): Record<string, string> => ({
    deprecation: DEPRECATED,
    link: `</v1/management/generation${query}>; rel="successor-version"`,
  })
  call.errorHeaders = headers('')
  const record = await found(app, call)
  return Response.json(record, { headers: headers(`?id=${record.generationId}`) })
}

/**
 * What is unknown, malformed or another account's is told in the same words, so that none of them can be told from the
 * others.
 */
async function found(app: AppContext, call: InboundRequest): Promise<WrittenRecord> {
  const [, id] = ID.exec(askedId(call.query)) ?? []
  const record = id === undefined ? undefined : await app.store.ledger.findGeneration(call.identity.accountId, id)
  if (record === undefined)
    throw new GatewayError('not_found', 'No generation of this account has this id.', { param: 'id' })
  return write(record, showsCosts(record, call, app.config.billing.delayMs))
}

function askedId(query: URLSearchParams): string {
  const [id, ...others] = new Set([...query.getAll('id'), ...query.getAll('generate_id')])
  if (id === undefined || id === '') throw invalid('id', 'must be the id of a generation, as its answer carried it')
  if (others.length > 0) throw invalid('id', 'must be one id; id and generate_id mean the same')
  return id
}

/** Costs belong to pay-as-you-go on both sides, and are shown when nothing can change them any more. */
function showsCosts(
  { kind, createdAt, latency, duration }: GenerationRecord,
  { identity }: InboundRequest,
  delayMs: number,
): boolean {
  return (
    kind === 'pay-as-you-go' &&
    identity.kind !== 'subscription' &&
    Date.now() >= createdAt + latency + duration + delayMs
  )
}

type WrittenRecord = { generationId: string } & Record<string, unknown>

function write(record: GenerationRecord, costs: boolean): WrittenRecord {
  const {
    api,
    id,
    model,
    createdAt,
    duration,
    latency,
    usage,
    streamed,
    finish,
    retries,
    estimated,
    ending,
    provider,
    attempts,
    translation,
  } = record
  return {
    api,
    generationId: prefixOf(api) + id,
    model,
    createAt: new Date(createdAt).toISOString(),
    generationTime: duration,
    latency,
    nativeTokens: writeUsage(usage),
    streamed,
    finishReason: UNHEARD[finish] ?? writeFinishReason(finish as FinishReason, false),
    requestRetryTimes: retries,
    // The record is of the whole generation: what it tells was the last try.
    finalRetry: true,
    estimated,
    ending,
    provider,
    ...(attempts === null ? {} : { attempts: JSON.parse(attempts) as unknown }),
    ...(translation === null ? {} : { translation: JSON.parse(translation) as unknown }),
    ...(costs ? writeCosts(record) : {}),
  }
}

/** What stands before the id in an answer; a prediction's id is its generation's. */
const prefixOf = (api: string): string =>
  api === 'predictions' ? 'pred_' : protocols[api as ProtocolName].serve.idPrefix

/** The words for answers in which no model was heard to say why it stopped; for all others chat completions has one. */
const UNHEARD: Record<string, string | undefined> = {
  completed: 'stop',
  'client-left': 'cancelled',
  failed: 'error',
  'timed-out': 'error',
  shutdown: 'error',
  crashed: 'error',
} satisfies Record<Outcome, string>

function writeCosts(record: GenerationRecord): object {
  const { version, items, origin, discount, bill } = ratingOf(record)
  return {
    usage: usdOf(record.bill),
    ratingResponses: {
      billAmount: usdOf(bill),
      discountAmount: usdOf(discount),
      originAmount: usdOf(origin),
      priceVersion: version,
      ratingDetails: items.map(writeItem),
    },
  }
}

/** `rate`: USD per million tokens, or per one of what is counted one by one. */
const writeItem = ({ item, quantity, rate, origin, discount, bill }: RatedItem): object => ({
  feeItemCode: item,
  quantity,
  rate: usdOf(rate),
  originAmount: usdOf(origin),
  discountAmount: usdOf(discount),
  billAmount: usdOf(bill),
})

/**
 * `GET /v1/management/payg/balance`: what may be spent, in USD; what is held by requests under way is still part of it.
 */
export function getBalance(app: AppContext, call: InboundRequest): Response {
  const { credit, bonus } = app.ledger.balance(call.identity.accountId)
  return Response.json({
    success: true,
    data: {
      currency: 'usd',
      total_credits: usdOf(credit + bonus),
      top_up_credits: usdOf(credit),
      bonus_credits: usdOf(bonus),
    },
  })
}

/** `GET /v1/management/subscription/detail`: plan, quota windows and status. */
export function getSubscription(app: AppContext, call: InboundRequest): Response {
  const { accountId, accountStatus } = call.identity
  return Response.json({
    success: true,
    data: app.ledger
      .quota(accountId)
      .detail(Date.now(), accountStatus, penaltyOf(accountStatus, app.config.accountStatus)),
  })
}
