import { noUsage } from '../generation/usage.ts'
import type { GenerationRecord } from './ledger.ts'
import type { Refusal, RequestRow } from './reports.ts'

/** The line of a generation that has ended. */
export const rowOfRecord = (record: GenerationRecord): RequestRow => ({
  id: record.id,
  at: record.createdAt,
  accountId: record.accountId,
  keyId: record.keyId,
  kind: record.kind,
  api: record.api,
  model: record.model,
  provider: record.provider,
  client: record.client,
  outcome: record.ending,
  finish: record.finish,
  error: errorOf(record.ending, record.attempts),
  streamed: record.streamed,
  firstTokenMs: firstTokenOf(record),
  totalMs: record.latency + record.duration,
  tries: record.retries + 1,
  losses: record.translation === null ? 0 : (JSON.parse(record.translation) as unknown[]).length,
  estimated: record.estimated,
  usage: record.usage,
  bill: record.bill,
  flows: record.flows,
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
export const firstTokenOf = ({
  streamed,
  ending,
  latency,
  duration,
}: Pick<GenerationRecord, 'streamed' | 'ending' | 'latency' | 'duration'>): number | null =>
  streamed && (ending === 'completed' || duration > 0) ? latency : null

/** The error of the last attempt that failed. */
export function errorOf(ending: string, attempts: string | null): RequestRow['error'] {
  if (ending === 'completed' || attempts === null) return null
  const last = (JSON.parse(attempts) as { error?: string; message?: string }[]).findLast(({ error }) => error)
  return last?.error === undefined ? null : { code: last.error, message: last.message ?? null }
}
