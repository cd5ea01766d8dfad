import type { AppContext } from '../../context.ts'
import type { ProtocolName } from '../../generation/request.ts'
import { completionTokens, type Usage } from '../../generation/usage.ts'
import { ratingOf } from '../../ledger/record-rating.ts'
import { rowOfOpen } from '../../pipeline/tail.ts'
import { protocols } from '../../protocols/index.ts'
import { modelNamed } from '../../providers/attempt-record.ts'
import { isInScope } from '../../store/request-filter.ts'
import type { RequestDetail, RequestRow, Transfer } from '../../store/store.ts'
import { answer, cursorAfter, limitOf, positionOf, time, timeOrNull, unknown, usd, type Page } from './answer.ts'
import { bodiesOf, type BodiesOfRequest } from './bodies.ts'
import { filterOf, idIn, scopeOf, seesListPrices } from './filters.ts'
import { namedIn, namesOf, type Named } from './names.ts'
import { findOpen, openRows } from './open-requests.ts'
import { finishReasonOf } from './records.ts'
import type { ManagementRequest } from './route.ts'

export type TokenCounts = { input: number; cache_read: number; cache_write: number; output: number; reasoning: number }

/** A line of the list of requests. `account` and `key` are null for a request without a valid key. */
export type RequestAnswer = {
  id: string
  public_id: string
  at: string
  account: Named | null
  key: Named | null
  api: string
  model: string | null
  provider: string | null
  client: string | null
  outcome: string
  finish_reason: string | null
  error: { code: string; message: string | null } | null
  streamed: boolean
  first_token_ms: number | null
  total_ms: number | null
  tries: number
  losses: number
  estimated: boolean
  tokens: TokenCounts
  cost_usd: string | null
  flows: number | null
  bodies: boolean
}

export type AttemptAnswer = {
  provider: string
  model: string | null
  protocol: string | null
  started_ms: number | null
  duration_ms: number
  status: number | null
  error: { code: string; message: string | null } | null
}

export type RatingAnswer = {
  version: string
  origin_usd: string
  discount_usd: string
  bill_usd: string
  items: {
    item: string
    quantity: number
    rate_usd: string
    origin_usd: string
    discount_usd: string
    bill_usd: string
  }[]
}

export type PostingAnswer = { kind: string; debit: string; credit: string; amount_usd: string }

export type RequestDetailAnswer = Omit<RequestAnswer, 'bodies'> & {
  attempts: AttemptAnswer[]
  translation: unknown[]
  usage: Usage | null
  rating: RatingAnswer | null
  hold: { held_usd: string; settled_usd: string } | null
  postings: PostingAnswer[]
  refusal: { status: number; param: string | null } | null
  bodies: BodiesOfRequest
}

/** Micro-flows in a flow. */
const FLOW = 1_000_000

const REQUEST_PREFIX = 'req_'

const publicId = ({ id, api, outcome }: RequestRow): string => {
  if (outcome === 'refused') return REQUEST_PREFIX + id
  return (api === 'predictions' ? 'pred_' : (protocols[api as ProtocolName]?.serve.idPrefix ?? '')) + id
}

export const tokensOf = (usage: Usage): TokenCounts => ({
  input: usage.inputTokens + usage.inputAudioTokens + usage.inputImageTokens,
  cache_read: usage.cacheReadTokens + usage.cacheReadAudioTokens,
  cache_write: usage.cacheWrite5mTokens + usage.cacheWrite1hTokens,
  output: completionTokens(usage) - usage.reasoningTokens,
  reasoning: usage.reasoningTokens,
})

export const flowsOf = (flows: bigint): number => Number(flows) / FLOW

/** The cost of a line as far as the caller may see it: the list price of a subscription is for the installation. */
const costOf = ({ outcome, kind, bill }: RequestRow, listPrices: boolean): string | null =>
  outcome === 'open' || outcome === 'refused' || (kind === 'subscription' && !listPrices) ? null : usd(bill)

type RowWriter = (row: RequestRow) => RequestAnswer

const NONE: ReadonlySet<string> = new Set()

/** A function that writes these rows for this caller. `withBodies`: the ids of requests whose bodies are stored. */
export async function rowWriter(
  app: AppContext,
  inbound: ManagementRequest,
  rows: readonly Pick<RequestRow, 'keyId'>[],
  withBodies = NONE,
): Promise<RowWriter> {
  const names = await namesOf(
    app,
    rows.map(({ keyId }) => keyId),
  )
  const listPrices = seesListPrices(inbound)
  return (row) => ({
    id: row.id,
    public_id: publicId(row),
    at: time(row.at),
    account: namedIn(names.accounts, row.accountId),
    key: namedIn(names.keys, row.keyId),
    api: row.api,
    model: row.model,
    provider: row.provider,
    client: row.client,
    outcome: row.outcome,
    finish_reason: row.finish === null ? null : finishReasonOf(row.finish, row.api),
    error: row.error,
    streamed: row.streamed,
    first_token_ms: row.firstTokenMs,
    total_ms: row.totalMs,
    tries: row.tries,
    losses: row.losses,
    estimated: row.estimated,
    tokens: tokensOf(row.usage),
    cost_usd: costOf(row, listPrices),
    flows: row.kind === 'subscription' && row.outcome !== 'open' ? flowsOf(row.flows) : null,
    bodies: withBodies.has(row.id),
  })
}

const LAST_ID = 'f'.repeat(32)

/** `GET /v1/management/requests`: the newest first; those that are open come before all that are recorded. */
export async function listRequests(app: AppContext, inbound: ManagementRequest): Promise<Response> {
  const filter = await filterOf(app, inbound)
  const limit = limitOf(inbound)
  const before = positionOf<string>(inbound)
  const open = before === undefined ? await openRows(app, filter, limit) : []
  const left = limit - open.length
  const { rows, next, scannedTo } =
    left === 0 ? { rows: [], next: LAST_ID, scannedTo: null } : await app.store.reports.requests(filter, before, left)
  const withBodies = await app.bodies.among(rows.map(({ id }) => id))
  const write = await rowWriter(app, inbound, [...open, ...rows], withBodies)
  // A generation may have ended while the store was asked.
  const ended = new Set(rows.map(({ id }) => id))
  const page: Page<RequestAnswer> = {
    data: [...open.filter(({ id }) => !ended.has(id)), ...rows].map(write),
    next: next === null ? null : cursorAfter(inbound, next),
    scanned_to: timeOrNull(scannedTo),
  }
  return answer(page)
}

/** `GET /v1/management/requests/{id}`: one, by any form of its id. */
export async function getRequest(app: AppContext, inbound: ManagementRequest): Promise<Response> {
  const id = idIn(inbound.params[0]!)
  const scope = await scopeOf(app, inbound, 'requests.read')
  const detail = id === undefined ? undefined : await app.store.reports.request(id, scope)
  if (detail !== undefined) {
    const bodies = await bodiesOf(app, detail.row)
    const write = await rowWriter(app, inbound, [detail.row])
    return answer({ ...writeDetail(detail, write, seesListPrices(inbound)), bodies } satisfies RequestDetailAnswer)
  }
  const open = id === undefined ? undefined : await findOpen(app, id)
  const row = open && rowOfOpen(open)
  if (row === undefined || !isInScope(scope, row)) throw unknown('request', 'id')
  const write = await rowWriter(app, inbound, [row])
  const { losses } = open!.meter
  const attempts = writeAttempts(open!.meter.attempts)
  const bodies = await bodiesOf(app, row)
  return answer({ ...write(row), ...NO_DETAIL, attempts, translation: [...losses], usage: row.usage, bodies })
}

const NO_DETAIL = { rating: null, hold: null, postings: [], refusal: null }

/**
 * An attempt as a record has it; earlier versions stored fewer members. One without a provider is why none was asked,
 * which is the error of the line.
 */
type StoredAttempt = {
  provider?: string
  model?: string
  protocol?: string
  startedMs?: number
  milliseconds: number
  status?: number
  error?: string
  message?: string
}

const writeAttempts = (attempts: readonly StoredAttempt[]): AttemptAnswer[] =>
  attempts.flatMap(({ provider, model, protocol, startedMs, milliseconds, status, error, message }) =>
    provider === undefined
      ? []
      : {
          provider,
          model: model ?? null,
          protocol: protocol ?? null,
          started_ms: startedMs ?? null,
          duration_ms: milliseconds,
          status: status ?? null,
          error: error === undefined ? null : { code: error, message: message ?? null },
        },
  )

function writeDetail(
  detail: RequestDetail,
  write: RowWriter,
  listPrices: boolean,
): Omit<RequestDetailAnswer, 'bodies'> {
  const { row, attempts, translation, held, transfers, status, param } = detail
  const line = write(row)
  if (status !== null)
    return { ...line, ...NO_DETAIL, attempts: [], translation: [], usage: null, refusal: { status, param } }
  const shown = row.kind !== 'subscription' || listPrices
  return {
    ...line,
    attempts: attempts === null ? lone(row) : writeAttempts(JSON.parse(attempts) as StoredAttempt[]),
    translation: translation === null ? [] : (JSON.parse(translation) as unknown[]),
    usage: row.usage,
    rating: shown ? ratingAnswer(detail) : null,
    hold: shown ? { held_usd: usd(held), settled_usd: usd(row.kind === 'subscription' ? 0n : row.bill) } : null,
    // The cost of providers is not for accounts.
    postings: transfers.filter(({ kind }) => listPrices || kind !== 'cost').map(writePosting),
    refusal: null,
  }
}

/** The attempt of a generation that succeeded with its first, whose protocol no record has. */
function lone({ provider, model: requested, totalMs }: RequestRow): AttemptAnswer[] {
  if (provider === null) return []
  const model = requested === null ? null : (modelNamed(requested, provider) ?? null)
  return [{ provider, model, protocol: null, started_ms: 0, duration_ms: totalMs ?? 0, status: null, error: null }]
}

function ratingAnswer({ row, price, discount }: RequestDetail): RatingAnswer {
  const { version, items, ...rating } = ratingOf({
    usage: row.usage,
    price,
    discount,
    bill: row.bill,
    ending: row.outcome,
  })
  return {
    version,
    origin_usd: usd(rating.origin),
    discount_usd: usd(rating.discount),
    bill_usd: usd(rating.bill),
    items: items.map(({ item, quantity, rate, origin, discount: off, bill }) => ({
      item,
      quantity,
      rate_usd: usd(rate),
      origin_usd: usd(origin),
      discount_usd: usd(off),
      bill_usd: usd(bill),
    })),
  }
}

const bookText = ({ kind, owner }: Transfer['debit']): string => (owner === '' ? kind : `${kind} ${owner}`)

const writePosting = ({ kind, debit, credit, amount }: Transfer): PostingAnswer => ({
  kind,
  debit: bookText(debit),
  credit: bookText(credit),
  amount_usd: usd(amount),
})
