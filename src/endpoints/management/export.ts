import type { AppContext } from '../../context.ts'
import { GatewayError, invalid } from '../../error.ts'
import { streamBody, type TextSource } from '../../http/stream.ts'
import type { RequestFilter } from '../../store/store.ts'
import { csvLine } from './csv.ts'
import { filterOf } from './filters.ts'
import { rowWriter, type RequestAnswer } from './requests.ts'
import type { ManagementRequest } from './route.ts'

/** Rows that one read of the store gives: what an export has in memory at once. */
const ROWS = 200

const FORMATS = { csv: 'text/csv; charset=utf-8', jsonl: 'application/jsonl' } as const
type Format = keyof typeof FORMATS

/** Callers with an export under way. */
const exporting = new WeakMap<AppContext, Set<string>>()

/** `GET /v1/management/requests/export`: all that the filter accepts and that has ended, the newest first. */
export async function exportRequests(app: AppContext, inbound: ManagementRequest): Promise<Response> {
  const format = inbound.query.get('format') ?? 'csv'
  if (format !== 'csv' && format !== 'jsonl') throw invalid('format', "must be 'csv' or 'jsonl'")
  const filter = await filterOf(app, inbound)
  const callers = exporting.get(app) ?? new Set()
  exporting.set(app, callers)
  const caller = inbound.caller.id!
  if (callers.has(caller))
    throw new GatewayError('request_in_progress', 'An export of yours is under way: wait for its end, then try again.')
  callers.add(caller)
  const source = new Export(app, inbound, filter, format, () => callers.delete(caller))
  return new Response(streamBody(source, undefined, inbound.request.signal, app.config.timeouts.clientStalledMs), {
    headers: {
      'content-type': FORMATS[format],
      'content-disposition': `attachment; filename="requests.${format}"`,
      'cache-control': 'no-store',
    },
  })
}

class Export implements TextSource {
  readonly #app: AppContext
  readonly #inbound: ManagementRequest
  #filter: RequestFilter
  readonly #format: Format
  readonly #release: () => void
  #before: string | undefined
  #isDone = false
  #isFirst = true

  constructor(app: AppContext, inbound: ManagementRequest, filter: RequestFilter, format: Format, release: () => void) {
    this.#app = app
    this.#inbound = inbound
    this.#filter = filter
    this.#format = format
    this.#release = release
  }

  async pull(): Promise<string | undefined> {
    try {
      if (this.#isDone) {
        this.#release()
        return undefined
      }
      if (this.#isFirst) {
        this.#isFirst = false
        if (this.#format === 'csv') return csvLine(COLUMNS.map(([name]) => name))
      }
      await this.#authorizeAgain()
      const { rows, next } = await this.#app.store.reports.requests(this.#filter, this.#before, ROWS)
      if (next === null) this.#isDone = true
      else this.#before = next
      const withBodies = await this.#app.bodies.among(rows.map(({ id }) => id))
      const write = await rowWriter(this.#app, this.#inbound, rows, withBodies)
      const lines = rows.map(write)
      return this.#format === 'csv'
        ? lines.map((line) => csvLine(COLUMNS.map(([, cell]) => cell(line)))).join('')
        : lines.map((line) => `${JSON.stringify(line)}\n`).join('')
    } catch (error) {
      this.#release()
      throw error
    }
  }

  /** A key or session may have ended since the page before, and roles may have changed. */
  async #authorizeAgain(): Promise<void> {
    await this.#inbound.identifyAgain?.()
    const { from, to } = this.#filter
    this.#filter = { ...(await filterOf(this.#app, this.#inbound)), from, to }
  }

  cancel(): void {
    this.#release()
  }
}

type Column = [name: string, cell: (line: RequestAnswer) => string | number | boolean | null]

const COLUMNS: readonly Column[] = [
  ['id', (line) => line.id],
  ['public_id', (line) => line.public_id],
  ['at', (line) => line.at],
  ['account', (line) => line.account?.name ?? line.account?.id ?? null],
  ['key_id', (line) => line.key?.id ?? null],
  ['key', (line) => line.key?.name ?? null],
  ['api', (line) => line.api],
  ['model', (line) => line.model],
  ['provider', (line) => line.provider],
  ['client', (line) => line.client],
  ['outcome', (line) => line.outcome],
  ['finish_reason', (line) => line.finish_reason],
  ['error_code', (line) => line.error?.code ?? null],
  ['error_message', (line) => line.error?.message ?? null],
  ['streamed', (line) => line.streamed],
  ['first_token_ms', (line) => line.first_token_ms],
  ['total_ms', (line) => line.total_ms],
  ['tries', (line) => line.tries],
  ['losses', (line) => line.losses],
  ['estimated', (line) => line.estimated],
  ['input', (line) => line.tokens.input],
  ['cache_read', (line) => line.tokens.cache_read],
  ['cache_write', (line) => line.tokens.cache_write],
  ['output', (line) => line.tokens.output],
  ['reasoning', (line) => line.tokens.reasoning],
  ['cost_usd', (line) => line.cost_usd],
  ['flows', (line) => line.flows],
]
