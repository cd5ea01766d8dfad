import { noUsage } from '../generation/usage.ts'
import { priceOf, type ReadPrice } from './generation-row.ts'
import type { GenerationRecord, Transfer } from './ledger.ts'
import type { Refusal, RequestDetail, RequestRow } from './reports.ts'

/** All that the line of a generation that has ended is made of. */
export type EndedRequest = Omit<RequestRow, 'outcome' | 'error' | 'firstTokenMs' | 'totalMs' | 'tries'> &
  Pick<GenerationRecord, 'ending' | 'attempts' | 'latency' | 'duration' | 'retries'>

/** The line of a generation that has ended. */
export const rowOfEnded = (ended: EndedRequest): RequestRow => ({
  id: ended.id,
  at: ended.at,
  accountId: ended.accountId,
  keyId: ended.keyId,
  kind: ended.kind,
  api: ended.api,
  model: ended.model,
  provider: ended.provider,
  client: ended.client,
  outcome: ended.ending,
  finish: ended.finish,
  error: errorOf(ended.ending, ended.attempts),
  streamed: ended.streamed,
  firstTokenMs: firstTokenOf(ended),
  totalMs: ended.latency + ended.duration,
  // Without a provider there was no first attempt.
  tries: ended.provider === null ? 0 : ended.retries + 1,
  losses: ended.losses,
  estimated: ended.estimated,
  usage: ended.usage,
  bill: ended.bill,
  flows: ended.flows,
})

export const rowOfRecord = (record: GenerationRecord): RequestRow =>
  rowOfEnded({
    ...record,
    at: record.createdAt,
    losses: record.translation === null ? 0 : (JSON.parse(record.translation) as unknown[]).length,
  })

/** The columns of the detail of a generation beside those of its line, as stores read them. */
export type ReadDetail = ReadPrice & Pick<GenerationRecord, 'attempts' | 'translation' | 'discount'> & { held: string }

export const detailOfGeneration = (row: RequestRow, read: ReadDetail, transfers: Transfer[]): RequestDetail => ({
  row,
  attempts: read.attempts,
  translation: read.translation,
  price: priceOf(read),
  discount: read.discount,
  held: BigInt(read.held),
  transfers,
  status: null,
  param: null,
})

export const detailOfRefusal = (
  row: RequestRow,
  { status, param }: Pick<Refusal, 'status' | 'param'>,
): RequestDetail => ({
  row,
  attempts: null,
  translation: null,
  price: null,
  discount: 0,
  held: 0n,
  transfers: [],
  status,
  param,
})

/** The line of a refusal. */
export const rowOfRefusal = (refusal: Refusal): RequestRow => ({
  id: refusal.id,
  at: refusal.at,
  accountId: refusal.accountId,
  keyId: refusal.keyId,
  kind: null,
  api: refusal.route,
  model: refusal.model,
  provider: null,
  client: refusal.client,
  outcome: 'refused',
  finish: null,
  error: { code: refusal.code, message: refusal.message },
  streamed: false,
  firstTokenMs: null,
  totalMs: null,
  tries: 0,
  losses: 0,
  estimated: false,
  usage: noUsage(),
  bill: 0n,
  flows: 0n,
})

/** The time to the first token of a stream that began. */
const firstTokenOf = ({
  streamed,
  ending,
  latency,
  duration,
}: Pick<GenerationRecord, 'streamed' | 'ending' | 'latency' | 'duration'>): number | null =>
  streamed && (ending === 'completed' || duration > 0) ? latency : null

/** The error of the last attempt that failed. */
function errorOf(ending: string, attempts: string | null): RequestRow['error'] {
  if (ending === 'completed' || attempts === null) return null
  const last = (JSON.parse(attempts) as { error?: string; message?: string }[]).findLast(({ error }) => error)
  return last?.error === undefined ? null : { code: last.error, message: last.message ?? null }
}
