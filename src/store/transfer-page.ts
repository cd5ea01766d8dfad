import { instantOf } from './generation-ids.ts'
import type { TransferPage, TransferPosition, TransferRow } from './reports.ts'
import { type ReadTransfer, transferOf } from './transfer-rows.ts'

/** The transfers of a generation have the time of its end, which is this much after the time in its id at most. */
export const LONGEST_MS = 26 * 3_600_000

/** A transfer of a report as stores read it. */
export type ReadTransferRow = ReadTransfer & Pick<TransferRow, 'reference' | 'at' | 'note'>

export function transferRowOf(row: ReadTransferRow): TransferRow {
  const { debit, credit, ...rest } = transferOf(row)
  return { ...rest, from: debit, to: credit }
}

/** Transfers of whole generations. `end`: the id from which the search goes on; undefined at the end. */
export type FoundTransfers = { rows: TransferRow[]; end: string | undefined }

/**
 * A page of transfers, the newest first: those of generations by id, and between them those of operations by their
 * time. `operations`: those after the position, more than a page of them or all. A page has whole generations.
 */
export function mergedTransfers(
  { rows, end }: FoundTransfers,
  operations: readonly TransferRow[],
  before: TransferPosition | undefined,
  limit: number,
): TransferPage {
  const page: TransferRow[] = []
  let [generation, operation] = [0, 0]
  while (page.length < limit) {
    const [one, other] = [rows[generation], operations[operation]]
    // An operation that is older than all that was searched has its turn later.
    if (one === undefined && (other === undefined || (end !== undefined && other.at < instantOf(end)))) break
    if (other !== undefined && (one === undefined || other.at >= instantOf(one.reference))) {
      page.push(other)
      operation++
    } else {
      do page.push(rows[generation++]!)
      while (rows[generation]?.reference === one!.reference)
    }
  }
  const lastId = rows[generation - 1]?.reference ?? before?.id
  const isEnd = generation === rows.length && end === undefined && operation === operations.length
  const id = generation === rows.length ? (end ?? '0'.repeat(32)) : (lastId ?? 'f'.repeat(32))
  return { rows: page, next: isEnd ? null : { id, operations: (before?.operations ?? 0) + operation } }
}
