import { GatewayError, isUnavailable } from '../../error.ts'
import { stringOf } from '../../json/parse.ts'

/** This process was declared dead by another one, which has taken over what it had open. It must not write any more. */
export class Fenced extends Error {
  constructor() {
    super('another process has taken over from this one, which did not report for too long')
  }
}

/** The acknowledgement of a write was lost: whether it was made is not known. */
export class Unacknowledged extends Error {
  constructor(cause?: unknown) {
    super('the acknowledgement of a write was lost', { cause })
  }
}

/** SQLSTATEs after which the same transaction may succeed at once: serialization failure and deadlock. */
const REPEATABLE = new Set(['40001', '40P01'])

/**
 * Classes of SQLSTATEs by which a server refuses what it could do later: connection, resources, operator, system; and
 * our own for a process that has ended.
 */
const UNAVAILABLE = /^(?:08|53|57|58|XX|25006|SLF01)/

/** A table or column that is missing, or that this user may not use: of one write, unlike the others. */
const OF_TABLE = /^(?:42P01|42703|42501)$/

const codeOf = (error: unknown): string => stringOf((error as { code?: unknown }).code)

export const isRepeatable = (error: unknown): boolean => REPEATABLE.has(codeOf(error))

export const isOfTable = (error: unknown): boolean => OF_TABLE.test(codeOf(error))

const isSqlState = (code: string): boolean => /^[0-9A-Z]{5}$/.test(code)

/**
 * Classes of SQLSTATEs by which a server ends a connection, or opens none: those of connections and shutdowns, too many
 * connections, and connections that were idle for too long, as those of a process that slept. One that is read-only may
 * have been replaced by another one, to which new connections lead.
 */
const DISCONNECTED = /^(?:08|57P0[1235]|53300|25P03|25006)/

/** True where no answer came: the server may have done what it was asked, or not. */
export const isDisconnected = (error: unknown): boolean => {
  // A write can also read, on a connection of the pool.
  if (error instanceof GatewayError) return error.cause !== undefined && isDisconnected(error.cause)
  const code = codeOf(error)
  if (isSqlState(code)) return DISCONNECTED.test(code)
  return code !== '' || /connection|terminated|timeout/i.test(error instanceof Error ? error.message : '')
}

/** True where a write that failed was not made, and will not be. */
export const isUnwritten = (error: unknown): boolean => isUnavailable(error) && !(error.cause instanceof Unacknowledged)

/** Causes that an operator can fix. */
export const reasonOf = (error: unknown): string | undefined => {
  const code = codeOf(error)
  if (code === '53100') return 'the disk of PostgreSQL is full'
  if (code === '53300') return 'PostgreSQL has no connection left'
  if (code === '25006') return 'this PostgreSQL is read-only'
  if (/^28|^42501/.test(code)) return 'PostgreSQL refuses this user'
  if (isOfTable(error)) return 'its tables are not those of this version'
  return isDisconnected(error) || error instanceof Unacknowledged ? 'PostgreSQL does not answer' : undefined
}

/** A violated constraint is a bug, which a retry does not help: it is not reported as unavailability. */
export const asStoreError = (error: unknown): unknown => {
  if (error instanceof GatewayError) return error
  const code = codeOf(error)
  const isOfServer = isSqlState(code) && (UNAVAILABLE.test(code) || isOfTable(error) || isRepeatable(error))
  return isOfServer || error instanceof Fenced || isDisconnected(error) ? unavailable(error) : error
}

export const unavailable = (cause: unknown): GatewayError => {
  const reason = reasonOf(cause)
  return new GatewayError('store_unavailable', `The store is unavailable${reason ? `: ${reason}` : ''}; try again.`, {
    cause,
    retryAfterSeconds: 5,
    shouldRetry: true,
  })
}
