import type { Transfer } from '../../ledger.ts'
import type { RequestDetail, Scope } from '../../reports.ts'
import { isInScope } from '../../request-filter.ts'
import { detailOfGeneration, detailOfRefusal, type ReadDetail } from '../../request-row.ts'
import { type ReadTransfer, transferOf } from '../../transfer-rows.ts'
import type { Questions } from '../client.ts'
import { LINE_COLUMNS, lineOf, REFUSAL_COLUMNS, refusalLineOf, type LineRow, type RefusalRow } from './request-rows.ts'

/** One request with all that its record has. */
export async function requestDetail(
  questions: Questions,
  id: string,
  scope: Scope,
): Promise<RequestDetail | undefined> {
  const [row] = await questions.ask<LineRow & ReadDetail>(
    `SELECT ${LINE_COLUMNS}, g.translation, g.discount, g.held::text AS held, p.version AS "priceVersion",
       p.rates AS "priceRates", p.model AS "priceModel"
     FROM generations AS g LEFT JOIN prices AS p ON p.id = g.price WHERE g.id = $1::uuid`,
    [id],
  )
  if (row === undefined) return refusalDetail(questions, id, scope)
  const line = lineOf(row)
  if (!isInScope(scope, line)) return undefined
  return detailOfGeneration(line, row, await transfersOf(questions, id))
}

async function refusalDetail(questions: Questions, id: string, scope: Scope): Promise<RequestDetail | undefined> {
  const [row] = await questions.ask<RefusalRow>(`SELECT ${REFUSAL_COLUMNS} FROM refusals AS r WHERE r.id = $1::uuid`, [
    id,
  ])
  const line = row === undefined ? undefined : refusalLineOf(row)
  if (row === undefined || line === undefined || !isInScope(scope, line)) return undefined
  return detailOfRefusal(line, row)
}

async function transfersOf(questions: Questions, id: string): Promise<Transfer[]> {
  const rows = await questions.ask<ReadTransfer>(
    `SELECT t.kind, t.amount::text AS amount, d.kind AS "debitKind", d.owner AS "debitOwner", c.kind AS "creditKind",
       c.owner AS "creditOwner"
     FROM transfers AS t JOIN book_accounts AS d ON d.id = t.debit JOIN book_accounts AS c ON c.id = t.credit
     WHERE t.id = $1::uuid ORDER BY t.kind`,
    [id],
  )
  return rows.map(transferOf)
}
