import { penaltyOf } from '../../accounts/abuse-detection.ts'
import { GatewayError, invalid } from '../../error.ts'
import type { FinishReason } from '../../generation/event.ts'
import type { ProtocolName } from '../../generation/request.ts'
import type { Outcome } from '../../ledger/outcomes.ts'
import type { RatedItem } from '../../ledger/rating.ts'
import { ratingOf } from '../../ledger/record-rating.ts'
import { usdOf } from '../../money.ts'
import { writeFinishReason, writeUsage } from '../../protocols/chat/shapes.ts'
import { protocols } from '../../protocols/index.ts'
import type { AuthenticatedRequest, AppContext } from '../../context.ts'
import type { GenerationRecord } from '../../store/store.ts'

const PREDICTION_PREFIX = 'pred_'

const ID_PREFIXES = [PREDICTION_PREFIX, ...Object.values(protocols).map(({ serve }) => serve.idPrefix)].filter(Boolean)
/** A generation id with the prefix of a protocol, or without one. */
const ID = new RegExp(`^(?:${ID_PREFIXES.join('|')})?([0-9a-f]{32})$`)

/** `GET /v1/management/generation?id=`: one generation of the key's account. */
export async function getGeneration(app: AppContext, inbound: AuthenticatedRequest): Promise<Response> {
  return Response.json(await findGeneration(app, inbound))
}

/** The day from which `GET /v1/generation` is deprecated, in Unix seconds: 2026-11-21. */
const DEPRECATED = '@1795219200'

/** `GET /v1/generation`: the same, with headers that name the new path (RFC 9745, RFC 5829). */
export async function getGenerationAtOldPath(app: AppContext, inbound: AuthenticatedRequest): Promise<Response> {
  const headers = (query: string): Record<string, string> => ({
    deprecation: DEPRECATED,
    link: `</v1/management/generation${query}>; rel="successor-version"`,
  })
  inbound.errorHeaders = headers('')
  const record = await findGeneration(app, inbound)
  return Response.json(record, { headers: headers(`?id=${record.generationId}`) })
}

/** One error for ids that are unknown, malformed or of another account, so that ids cannot be probed. */
async function findGeneration(app: AppContext, inbound: AuthenticatedRequest): Promise<WrittenRecord> {
  const [, id] = ID.exec(readId(inbound.query)) ?? []
  const record = id === undefined ? undefined : await app.store.ledger.findGeneration(inbound.identity.accountId, id)
  if (record === undefined) throw new GatewayError('not_found', 'No such generation.', { param: 'id' })
  return writeRecord(record, showsCosts(record, inbound, app))
}

function readId(query: URLSearchParams): string {
  const [id, ...others] = new Set([...query.getAll('id'), ...query.getAll('generate_id')])
  if (id === undefined || id === '') throw invalid('id', 'is required: the id of a generation, as in its response')
  if (others.length > 0) throw invalid('id', 'must be a single id; generate_id is an alias of id')
  return id
}

/**
 * Costs are shown if the generation and the key are pay-as-you-go, once the configured delay has passed. Without a
 * delay the clock is not asked: the recorded times are whole milliseconds, so their end may lie ahead of it.
 */
function showsCosts(
  { kind, createdAt, latency, duration }: GenerationRecord,
  { identity }: AuthenticatedRequest,
  { clock, config }: AppContext,
): boolean {
  const { delayMs } = config.billing
  return (
    kind === 'pay-as-you-go' &&
    identity.kind !== 'subscription' &&
    (delayMs === 0 || clock.now() >= createdAt + latency + duration + delayMs)
  )
}

type WrittenRecord = { generationId: string } & Record<string, unknown>

function writeRecord(record: GenerationRecord, costs: boolean): WrittenRecord {
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
    estimation,
    disputed,
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
    // The model generated while the client waited for the whole response.
    generationTime: streamed ? duration : latency + duration,
    latency,
    nativeTokens: writeUsage(usage),
    streamed,
    finishReason: finishReasonOf(finish, api),
    requestRetryTimes: retries,
    // A record is written after the last attempt.
    finalRetry: true,
    estimated,
    ...(estimation === null ? {} : { estimation }),
    ...(disputed === null ? {} : { disputed: JSON.parse(disputed) as unknown }),
    ending,
    provider,
    ...(attempts === null ? {} : { attempts: JSON.parse(attempts) as unknown }),
    ...(translation === null ? {} : { translation: JSON.parse(translation) as unknown }),
    ...(costs ? writeCosts(record) : {}),
  }
}

/** The prefix of ids in responses. The id of a prediction is that of its generation. */
const prefixOf = (api: string): string =>
  api === 'predictions' ? PREDICTION_PREFIX : protocols[api as ProtocolName].serve.idPrefix

/** The finish reason of a record in terms of chat completions, as the response had it. */
export const finishReasonOf = (finish: string, api: string): string =>
  finish === 'refusal-in-words'
    ? writeFinishReason('refusal', api === 'chat.completions' || api === 'responses')
    : (FINISH_REASON_OF_OUTCOME[finish] ?? writeFinishReason(finish as FinishReason, false))

/** `finishReason` of generations whose model reported none: `finish` is then the outcome. */
const FINISH_REASON_OF_OUTCOME: Record<string, string | undefined> = {
  completed: 'stop',
  'client-left': 'cancelled',
  failed: 'error',
  'timed-out': 'error',
  shutdown: 'error',
  crashed: 'error',
  exhausted: 'length',
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

/** `rate`: USD per million tokens or per unit. */
const writeItem = ({ item, quantity, rate, origin, discount, bill }: RatedItem): object => ({
  feeItemCode: item,
  quantity,
  rate: usdOf(rate),
  originAmount: usdOf(origin),
  discountAmount: usdOf(discount),
  billAmount: usdOf(bill),
})

/** `GET /v1/management/payg/balance`: the balance in USD, including what is reserved by requests in flight. */
export async function getBalance(app: AppContext, inbound: AuthenticatedRequest): Promise<Response> {
  const { credit, bonus } = await app.ledger.funds.of(inbound.identity.accountId)
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
export async function getSubscription(app: AppContext, inbound: AuthenticatedRequest): Promise<Response> {
  const { accountId, accountStatus } = inbound.identity
  const { quota } = await app.ledger.funds.of(accountId)
  return Response.json({
    success: true,
    data: quota.detail(app.clock.now(), accountStatus, penaltyOf(accountStatus, app.config.accountStatus)),
  })
}
