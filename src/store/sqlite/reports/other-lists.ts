import type { Database, SQLQueryBindings } from 'bun:sqlite'
import type { BookAccount } from '../../ledger.ts'
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
  type FoundTransfers,
  LONGEST_MS,
  mergedTransfers,
  type ReadTransferRow,
  transferRowOf,
} from '../../transfer-page.ts'
import { firstIdAt } from './recount.ts'

/** Rows that one statement reads, and the time after which a page comes back short. */
const CHUNK = 5_000
const SEARCH_MS = 150

const TRANSFERS = `
  SELECT CASE typeof(t.reference) WHEN 'blob' THEN lower(hex(t.reference)) ELSE t.reference END AS reference,
    t.kind, CAST(t.amount AS TEXT) AS amount, t.at, t.note,
    d.kind AS debitKind, d.owner AS debitOwner, c.kind AS creditKind, c.owner AS creditOwner
  FROM transfers AS t JOIN book_accounts AS d ON d.id = t.debit JOIN book_accounts AS c ON c.id = t.credit`

/** Lists of the book and of files. */
export class OtherLists {
  readonly #database: Database

  constructor(database: Database) {
    this.#database = database
  }

  #all<Row>(sql: string, ...values: SQLQueryBindings[]): Row[] {
    return this.#database.query(sql).all(...values) as Row[]
  }

  /** Balances in the order in which they were opened. */
  balances(accountIds: readonly string[] | undefined, after: number, limit: number): BookRow[] {
    const rows = this.#all<Omit<BookRow, 'balance'> & { balance: string }>(
      `SELECT id, kind, owner, CAST(balance AS TEXT) AS balance FROM book_accounts
       WHERE id > ?1 AND (?2 IS NULL OR (kind IN ('credit', 'bonus') AND owner IN (SELECT value FROM json_each(?2))))
       ORDER BY id LIMIT ?3`,
      after,
      jsonOf(accountIds),
      limit,
    )
    return rows.map((row) => ({ ...row, balance: BigInt(row.balance) }))
  }

  /** Transfers, the newest first: those of generations by id, and between them those of operations by their time. */
  transfers(question: TransferQuestion, before: TransferPosition | undefined, limit: number): TransferPage {
    const accepts = acceptor(question)
    const operations = this.#operations()
      .filter(accepts)
      .slice(before?.operations ?? 0)
    return mergedTransfers(this.#generations(question, before?.id, limit, accepts), operations, before, limit)
  }

  /** All operations, the newest first: people make them, so that there are few. */
  #operations(): TransferRow[] {
    return this.#all<ReadTransferRow>(
      `${TRANSFERS} WHERE t.reference < x'' ORDER BY t.at DESC, t.reference, t.kind`,
    ).map(transferRowOf)
  }

  /**
   * The transfers of generations before an id: whole generations, `limit` rows or a few more. `end`: the id from which
   * the search goes on; undefined at the end.
   */
  #generations(
    { from }: TransferQuestion,
    before: string | undefined,
    limit: number,
    accepts: (row: TransferRow) => boolean,
  ): FoundTransfers {
    const giveUpAt = performance.now() + SEARCH_MS
    const low = from === undefined ? new Uint8Array(16) : firstIdAt(from - LONGEST_MS)
    const rows: TransferRow[] = []
    let end = before ?? 'f'.repeat(32)
    while (performance.now() < giveUpAt) {
      const read = this.#all<ReadTransferRow>(
        `${TRANSFERS} WHERE t.reference < ? AND t.reference >= ? ORDER BY t.reference DESC, t.kind LIMIT ?`,
        Uint8Array.fromHex(end),
        low,
        CHUNK,
      )
      const isEnd = read.length < CHUNK
      // The last one may have more transfers than were read.
      const last = isEnd ? undefined : read.at(-1)!.reference
      for (const row of read) {
        if (row.reference === last) break
        if (rows.length >= limit && row.reference !== rows.at(-1)!.reference) return { rows, end }
        const transfer = transferRowOf(row)
        if (accepts(transfer)) rows.push(transfer)
        end = row.reference
      }
      if (isEnd) return { rows, end: undefined }
    }
    return { rows, end }
  }

  /** Files that have not expired, the newest first. */
  files(
    accountIds: readonly string[] | undefined,
    now: number,
    before: FilePosition | undefined,
    limit: number,
  ): FileRow[] {
    return this.#all<FileRow>(
      `SELECT id, account_id AS accountId, filename, purpose, media_type AS mediaType, bytes, created_at AS createdAt,
         expires_at AS expiresAt
       FROM files
       WHERE (?1 IS NULL OR account_id IN (SELECT value FROM json_each(?1))) AND coalesce(expires_at > ?2, true)
         AND (created_at, id) < (?3, ?4)
       ORDER BY created_at DESC, id DESC LIMIT ?5`,
      jsonOf(accountIds),
      now,
      before?.createdAt ?? Number.MAX_SAFE_INTEGER,
      before?.id ?? '',
      limit,
    )
  }
}

const jsonOf = (ids: readonly string[] | undefined): string | null => (ids === undefined ? null : JSON.stringify(ids))

function acceptor({ accountIds, kinds, from, to }: TransferQuestion): (row: TransferRow) => boolean {
  const isOwn = ({ kind, owner }: BookAccount): boolean =>
    (kind === 'credit' || kind === 'bonus') && accountIds!.includes(owner)
  return (row) =>
    (accountIds === undefined || isOwn(row.from) || isOwn(row.to)) &&
    (kinds === undefined || kinds.includes(row.kind)) &&
    (from === undefined || row.at >= from) &&
    (to === undefined || row.at < to)
}
