import { where } from '../../choices.ts'
import { firstIdAt } from '../../generation-ids.ts'
import type {
  BookRow,
  FilePosition,
  FileRow,
  TransferPage,
  TransferPosition,
  TransferQuestion,
  TransferRow,
} from '../../reports.ts'
import {
  LONGEST_MS,
  mergedTransfers,
  type FoundTransfers,
  type ReadTransferRow,
  transferRowOf,
} from '../../transfer-page.ts'
import type { Questions } from '../client.ts'
import { idOfUuid } from '../generation-rows.ts'
import { Values } from './conditions.ts'

/** Generations' transfers among which one statement searches, and the time after which a page comes back short. */
const CHUNK = 20_000
const SEARCH_MS = 150

/** Balances in the order in which they were opened. */
export async function balanceRows(
  questions: Questions,
  accountIds: readonly string[] | undefined,
  after: number,
  limit: number,
): Promise<BookRow[]> {
  const values = new Values()
  const conditions = [`a.id > ${values.add(after)}::bigint`]
  if (accountIds !== undefined)
    conditions.push(`a.kind IN ('credit', 'bonus') AND ${values.isIn('a.owner', accountIds)}`)
  const rows = await questions.ask<Omit<BookRow, 'balance'> & { balance: string }>(
    `SELECT a.id, a.kind, a.owner, b.balance
     FROM book_accounts AS a, LATERAL (
       SELECT sum(balance)::text AS balance FROM book_balances WHERE account = a.id HAVING count(*) > 0) AS b
     WHERE ${conditions.join(' AND ')} ORDER BY a.id LIMIT ${values.add(limit)}`,
    values.list,
  )
  return rows.map((row) => ({ ...row, balance: BigInt(row.balance) }))
}

const transfersFrom = (table: string, reference: string): string => `
  SELECT t.${reference}::text AS reference, t.kind, t.amount::text AS amount, t.at, t.note, d.kind AS "debitKind",
    d.owner AS "debitOwner", c.kind AS "creditKind", c.owner AS "creditOwner"
  FROM ${table} AS t JOIN book_accounts AS d ON d.id = t.debit JOIN book_accounts AS c ON c.id = t.credit`

function transferConditions(values: Values, { accountIds, kinds, from, to }: TransferQuestion): string[] {
  const conditions: string[] = []
  const isOwn = (side: string): string =>
    `(${side}.kind IN ('credit', 'bonus') AND ${values.isIn(`${side}.owner`, accountIds!)})`
  if (accountIds !== undefined) conditions.push(`(${isOwn('d')} OR ${isOwn('c')})`)
  if (kinds !== undefined) conditions.push(values.isIn('t.kind', kinds))
  if (from !== undefined) conditions.push(`t.at >= ${values.add(`${from}`)}::numeric`)
  if (to !== undefined) conditions.push(`t.at < ${values.add(`${to}`)}::numeric`)
  return conditions
}

/** Transfers, the newest first: those of generations by id, and between them those of operations by their time. */
export async function transferPage(
  questions: Questions,
  question: TransferQuestion,
  before: TransferPosition | undefined,
  limit: number,
): Promise<TransferPage> {
  const operations = await operationRows(questions, question, before?.operations ?? 0, limit + 1)
  const found = await generationRows(questions, question, before?.id, limit)
  return mergedTransfers(found, operations, before, limit)
}

async function operationRows(
  questions: Questions,
  question: TransferQuestion,
  skipped: number,
  limit: number,
): Promise<TransferRow[]> {
  const values = new Values()
  const rows = await questions.ask<ReadTransferRow>(
    `${transfersFrom('operations', 'reference')} WHERE true${where(transferConditions(values, question))}
     ORDER BY t.at DESC, t.reference, t.kind LIMIT ${limit} OFFSET ${values.add(skipped)}`,
    values.list,
  )
  return rows.map(transferRowOf)
}

/** The transfers of generations before an id: whole generations, `limit` rows or a few more. */
async function generationRows(
  questions: Questions,
  question: TransferQuestion,
  before: string | undefined,
  limit: number,
): Promise<FoundTransfers> {
  const giveUpAt = performance.now() + SEARCH_MS
  const low = question.from === undefined ? '0'.repeat(32) : firstIdAt(question.from - LONGEST_MS)
  const rows: TransferRow[] = []
  let end = before ?? 'f'.repeat(32)
  do {
    const start = await chunkStart(questions, low, end)
    const found = await rowsOfChunk(questions, question, start, end, limit - rows.length)
    for (const row of found) rows.push(row)
    if (rows.length >= limit) return { rows, end: rows.at(-1)!.reference }
    if (start <= low) return { rows, end: undefined }
    end = start
  } while (performance.now() < giveUpAt)
  return { rows, end }
}

/** The last transfers of a range of ids which are asked for, of whole generations. */
async function rowsOfChunk(
  questions: Questions,
  question: TransferQuestion,
  start: string,
  end: string,
  limit: number,
): Promise<TransferRow[]> {
  const values = new Values()
  const range = `t.id < ${values.add(end)}::uuid AND t.id >= ${values.add(start)}::uuid`
  const rows = await questions.ask<ReadTransferRow>(
    `SELECT * FROM (${transfersFrom('transfers', 'id')}
       WHERE ${range}${where(transferConditions(values, question))}
       ORDER BY t.id DESC FETCH FIRST ${limit} ROWS WITH TIES) AS t
     ORDER BY reference COLLATE "C" DESC, kind`,
    values.list,
  )
  return rows.map(transferRowOf).map((row) => ({ ...row, reference: idOfUuid(row.reference) }))
}

/** The id with which the last transfers before `end` begin, or `low`. */
async function chunkStart(questions: Questions, low: string, end: string): Promise<string> {
  const [row] = await questions.ask<{ id: string }>(
    `SELECT id FROM transfers WHERE id < $1::uuid AND id >= $2::uuid ORDER BY id DESC LIMIT 1 OFFSET ${CHUNK - 1}`,
    [end, low],
  )
  return row === undefined ? low : idOfUuid(row.id)
}

/** Files that have not expired, the newest first. */
export function fileRows(
  questions: Questions,
  accountIds: readonly string[] | undefined,
  now: number,
  before: FilePosition | undefined,
  limit: number,
): Promise<FileRow[]> {
  const values = new Values()
  const conditions = [`(expires_at IS NULL OR expires_at > ${values.add(now)}::bigint)`]
  if (accountIds !== undefined) conditions.push(values.isIn('account_id', accountIds))
  if (before !== undefined)
    conditions.push(`(created_at, id) < (${values.add(before.createdAt)}::bigint, ${values.add(before.id)}::text)`)
  return questions.ask<FileRow>(
    `SELECT id, account_id AS "accountId", filename, purpose, media_type AS "mediaType", bytes,
       created_at AS "createdAt", expires_at AS "expiresAt"
     FROM files WHERE ${conditions.join(' AND ')} ORDER BY created_at DESC, id DESC LIMIT ${values.add(limit)}`,
    values.list,
  )
}
