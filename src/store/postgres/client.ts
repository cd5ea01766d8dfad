import { Client, types } from 'pg'
import { within } from '../../deadlines.ts'
import { isDisconnected } from './errors.ts'
import { readText, storedText } from './values.ts'

export type Binding = string | number | bigint | boolean | null | Uint8Array

/** Statements on one connection, or on any. Parameters are `$1`, `$2` ...; aliases with capitals need quotes. */
export interface Queries {
  /** Gives the number of rows that a statement changed. */
  run(sql: string, ...values: Binding[]): Promise<{ changes: number }>
  all<Row>(sql: string, ...values: Binding[]): Promise<Row[]>
  one<Row>(sql: string, ...values: Binding[]): Promise<Row | undefined>
}

const OIDS = { bytea: 17, int8: 20, text: 25, json: 114, jsonb: 3802, numeric: 1700 }

/** As with SQLite, integers arrive as doubles: amounts are read as text (`amount::text`). */
const PARSERS = new Map<number, (text: string) => unknown>([
  [OIDS.int8, Number],
  [OIDS.numeric, Number],
  [OIDS.text, readText],
  [OIDS.json, readText],
  [OIDS.jsonb, readText],
  [OIDS.bytea, (text) => Uint8Array.fromHex(text.slice(2))],
])

const parserOf = (oid: number): ((text: string) => unknown) => PARSERS.get(oid) ?? types.getTypeParser(oid)

/** Statements that differ with what is asked, so that they are not prepared. */
export interface Questions {
  ask<Row>(sql: string, values: readonly Binding[]): Promise<Row[]>
}

/** A server that does not end a statement in time does not answer at all. */
const ANSWER_MS = 2_000
const IDLE_MS = 5_000
/** The longest wait for the server to close a connection. */
const CLOSE_MS = 1_000

export type Address = {
  url: string
  /** The longest that a connection may take to open. */
  connectMs: number
  /** The longest that a statement may take. */
  statementMs: number
}

/** Statements that are prepared. Some are composed of conditions, so that their number is unbounded. */
const MAX_PREPARED = 500
/** Names under which statements are prepared, the same on each connection. */
const names = new Map<string, string>()

/** Undefined for a statement that is not prepared. */
function nameOf(sql: string): string | undefined {
  let name = names.get(sql)
  if (name === undefined && names.size < MAX_PREPARED) names.set(sql, (name = `s${names.size}`))
  return name
}

/** One connection to PostgreSQL. `onEnd`: called once, when it has broken or was closed. */
export class PostgresClient implements Queries, Questions {
  readonly #client: Client
  readonly #onEnd: () => void
  /** The longest that a statement may take, where that is not what the connection was opened with. */
  #limitMs: number | undefined
  isOpen = true

  private constructor(client: Client, onEnd: () => void) {
    this.#client = client
    this.#onEnd = onEnd
    client.on('error', () => this.#end())
    client.on('end', () => this.#end())
  }

  static async open({ url, connectMs, statementMs }: Address, onEnd: () => void = () => {}): Promise<PostgresClient> {
    const client = new Client({
      connectionString: url,
      connectionTimeoutMillis: connectMs,
      statement_timeout: statementMs,
      query_timeout: statementMs + ANSWER_MS,
      keepAlive: true,
      // A process that sleeps in the middle of a transaction must not keep its locks.
      idle_in_transaction_session_timeout: IDLE_MS,
      application_name: 'sluice',
      types: { getTypeParser: parserOf as never },
    })
    const opened = new PostgresClient(client, onEnd)
    await client.connect()
    return opened
  }

  async run(sql: string, ...values: Binding[]): Promise<{ changes: number }> {
    return { changes: (await this.#query(sql, values)).rowCount ?? 0 }
  }

  async all<Row>(sql: string, ...values: Binding[]): Promise<Row[]> {
    return (await this.#query(sql, values)).rows as Row[]
  }

  async one<Row>(sql: string, ...values: Binding[]): Promise<Row | undefined> {
    return (await this.#query(sql, values)).rows[0] as Row | undefined
  }

  async ask<Row>(sql: string, values: readonly Binding[]): Promise<Row[]> {
    return (await this.#answered(this.#client.query({ text: sql, values: values.map(bound) }))).rows as Row[]
  }

  /** Runs statements that may take so long. */
  async within<T>(limitMs: number, run: () => Promise<T>): Promise<T> {
    await this.script(`SET statement_timeout = ${limitMs}`)
    this.#limitMs = limitMs
    try {
      return await run()
    } finally {
      this.#limitMs = undefined
      if (this.isOpen) await this.script('RESET statement_timeout').catch(() => this.destroy())
    }
  }

  /** Several statements in one text, without values. */
  async script(sql: string): Promise<void> {
    await this.#answered(this.#client.query(sql))
  }

  /** Calls the listener for each notification on the channel. */
  async listen(channel: string, listener: (payload: string) => void): Promise<void> {
    this.#client.on('notification', (message) => {
      if (message.channel === channel) listener(message.payload ?? '')
    })
    await this.#client.query(`LISTEN ${channel}`)
  }

  async close(): Promise<void> {
    if (this.isOpen) await within(this.#client.end(), CLOSE_MS, () => this.destroy()).catch(() => {})
  }

  /** Ends the connection without waiting for the server. */
  destroy(): void {
    const { stream } = (this.#client as unknown as { connection: { stream: { destroy(): void } } }).connection
    stream.destroy()
    this.#end()
  }

  #end(): void {
    if (!this.isOpen) return
    this.isOpen = false
    this.#onEnd()
  }

  #query(sql: string, values: readonly Binding[]): Promise<{ rows: unknown[]; rowCount: number | null }> {
    const name = nameOf(sql)
    return this.#answered(
      this.#client.query({
        text: sql,
        values: values.map(bound),
        ...(name === undefined ? {} : { name }),
        ...(this.#limitMs === undefined ? {} : { query_timeout: this.#limitMs + ANSWER_MS }),
      }),
    )
  }

  /** Nothing more is sent to a server that has not answered in time: it would wait for that answer as long again. */
  #answered<T>(answer: Promise<T>): Promise<T> {
    answer.catch((error: unknown) => isDisconnected(error) && this.destroy())
    return answer
  }
}

const bound = (value: Binding): Binding => (typeof value === 'string' ? storedText(value) : value)
