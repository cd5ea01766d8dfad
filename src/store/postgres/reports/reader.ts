import { GatewayError } from '../../../error.ts'
import type { Questions } from '../client.ts'
import type { Connection } from '../connection.ts'

/** The longest that one statement of a report may take. */
const STATEMENT_MS = 10_000
const MAX_WAITING = 200
/** SQLSTATE of a statement that took too long. */
const CANCELED = '57014'

/** Reads of reports, which take at most half of the connections, and each for a bounded time. */
export class Reader {
  readonly #connection: Connection
  readonly #statementMs: number
  readonly #waiting: (() => void)[] = []
  #free: number

  constructor(connection: Connection, statementMs = STATEMENT_MS) {
    this.#connection = connection
    this.#statementMs = statementMs
    this.#free = Math.max(1, Math.floor(connection.readers / 2))
  }

  /** All statements of `read` see one state. */
  async read<T>(read: (questions: Questions) => Promise<T>): Promise<T> {
    if (this.#free > 0) this.#free--
    else await this.#wait()
    try {
      return await this.#connection.readWithin(this.#statementMs, (questions) =>
        read(questions).catch((error: unknown) => explain(error, this.#statementMs)),
      )
    } finally {
      const next = this.#waiting.shift()
      if (next === undefined) this.#free++
      else next()
    }
  }

  #wait(): Promise<void> {
    if (this.#waiting.length >= MAX_WAITING)
      throw new GatewayError('store_unavailable', 'Too many reports are being read; try again.', {
        retryAfterSeconds: 5,
        shouldRetry: true,
      })
    return new Promise((resolve) => this.#waiting.push(resolve))
  }
}

function explain(error: unknown, statementMs: number): never {
  if ((error as { code?: unknown }).code !== CANCELED) throw error
  throw new GatewayError(
    'store_unavailable',
    `The report took more than ${statementMs / 1000} seconds; ask for a shorter range or fewer groups.`,
    { cause: error },
  )
}
