import { SQLiteError } from 'bun:sqlite'
import { GatewayError } from '../../error.ts'

/** True where another process has the lock. */
export const isLocked = (error: unknown): boolean =>
  error instanceof SQLiteError && error.code?.startsWith('SQLITE_BUSY') === true

/** A violated constraint is a bug, which a retry does not help: it is not reported as unavailability. */
export const asStoreError = (error: unknown): unknown =>
  error instanceof SQLiteError && !error.code?.startsWith('SQLITE_CONSTRAINT') ? unavailable(error) : error

export const unavailable = (cause: unknown): GatewayError => {
  if (cause instanceof GatewayError) return cause
  return isCorrupt(cause)
    ? new GatewayError('store_unavailable', `${CORRUPT}; the operator must restore it from a backup.`, { cause })
    : new GatewayError('store_unavailable', `The store is unavailable${reasonOf(cause)}; try again.`, {
        cause,
        retryAfterSeconds: 5,
        shouldRetry: true,
      })
}

const CORRUPT = 'The database of this Sluice is corrupt'

/** True where the file is no database any more, or parts of it were overwritten. */
export const isCorrupt = (cause: unknown): boolean =>
  cause instanceof SQLiteError && /^SQLITE_(CORRUPT|NOTADB)/.test(cause.code ?? '')

/** Causes that an operator can fix. Other messages of SQLite are about our statements and stay internal. */
const REASONS: Record<string, string> = {
  SQLITE_FULL: ': its disk is full',
  SQLITE_IOERR: ': disk I/O error',
  SQLITE_READONLY: ': it is read-only',
  SQLITE_BUSY: ': it is locked by another process',
}

const reasonOf = (cause: unknown): string =>
  cause instanceof SQLiteError
    ? (REASONS[/^SQLITE_[A-Z]+/.exec(cause.code ?? '')?.[0] ?? ''] ?? '')
    : REASONS.SQLITE_IOERR!
