import type { AppContext } from '../../context.ts'
import { GatewayError } from '../../error.ts'
import { streamBody, type TextSource } from '../../http/stream.ts'
import type { RowEvent, TailEvent } from '../../pipeline/tail.ts'
import { matches } from '../../store/request-filter.ts'
import type { RequestFilter } from '../../store/store.ts'
import { filterOf } from './filters.ts'
import { rowWriter } from './requests.ts'
import type { ManagementRequest } from './route.ts'

const SUBSCRIBERS_MAX = 20
/** One caller leaves subscriptions for others. */
const SUBSCRIBERS_OF_ONE = 10
/** Rows that one subscriber gets in a second. */
const ROWS_A_SECOND = 50
const SECOND_MS = 1_000
const COMMENT = { text: ': \n\n', afterMs: 10_000 }
/** A stream ends after this time, so that its caller is asked again who it is. */
const LONGEST_MS = 300_000

/** `GET /v1/management/requests/stream`: requests that match the filter, as they begin, end and are refused. */
export async function streamRequests(app: AppContext, inbound: ManagementRequest): Promise<Response> {
  const filter = await filterOf(app, inbound)
  if (app.tail.size >= SUBSCRIBERS_MAX)
    throw new GatewayError('overloaded', `${SUBSCRIBERS_MAX} pages watch the requests already; close one of them.`, {
      retryAfterSeconds: 10,
    })
  if (app.tail.sizeOf(inbound.caller.id!) >= SUBSCRIBERS_OF_ONE)
    throw new GatewayError(
      'overloaded',
      `${SUBSCRIBERS_OF_ONE} pages of yours watch the requests; close one of them.`,
      {
        retryAfterSeconds: 10,
      },
    )
  const source = new RequestStream(app, inbound, filter)
  return new Response(streamBody(source, COMMENT, inbound.request.signal, app.config.timeouts.clientStalledMs), {
    headers: { 'content-type': 'text/event-stream', 'cache-control': 'no-store', 'x-accel-buffering': 'no' },
  })
}

class RequestStream implements TextSource {
  readonly #app: AppContext
  readonly #inbound: ManagementRequest
  readonly #filter: RequestFilter
  readonly #unfollow: () => void
  readonly #end: Timer
  #events: RowEvent[] = []
  #dropped = 0
  #second = { began: 0, rows: 0 }
  #dropTimer: Timer | undefined
  #isEnded = false
  #wake: (() => void) | undefined
  #isFirst = true

  constructor(app: AppContext, inbound: ManagementRequest, filter: RequestFilter) {
    this.#app = app
    this.#inbound = inbound
    this.#filter = filter
    this.#unfollow = app.tail.follow(
      inbound.caller.id!,
      (event) => this.#take(event),
      () => this.cancel(),
    )
    this.#end = setTimeout(() => this.cancel(), LONGEST_MS).unref()
  }

  #take(event: TailEvent): void {
    if (event.type === 'dropped') return this.#drop(event.count)
    // The list's own function: `open` is what the filter sees of a request that begins.
    if (!matches(this.#filter, event.row)) return
    const now = this.#app.clock.elapsed()
    if (now - this.#second.began >= SECOND_MS) this.#second = { began: now, rows: 0 }
    if (this.#second.rows++ < ROWS_A_SECOND && this.#events.length < ROWS_A_SECOND) {
      this.#events.push(event)
      this.#wake?.()
    } else this.#drop(1)
  }

  #drop(count: number): void {
    this.#dropped += count
    // Those of one second are reported together.
    this.#dropTimer ??= setTimeout(() => {
      this.#dropTimer = undefined
      this.#wake?.()
    }, SECOND_MS).unref()
  }

  async pull(): Promise<string | undefined> {
    if (this.#isFirst) {
      this.#isFirst = false
      return ': following\n\n'
    }
    while (!this.#isEnded && this.#events.length === 0 && (this.#dropped === 0 || this.#dropTimer !== undefined)) {
      const { promise, resolve } = Promise.withResolvers<void>()
      this.#wake = resolve
      await promise
      this.#wake = undefined
    }
    if (this.#isEnded) return undefined
    const events = this.#events.splice(0)
    const rows = events.map(({ row }) => row)
    const write = await rowWriter(this.#app, this.#inbound, rows)
    let text = events.map(({ type, row }) => frame(type, write(row))).join('')
    if (this.#dropTimer === undefined && this.#dropped > 0) {
      text += frame('dropped', { count: this.#dropped })
      this.#dropped = 0
    }
    return text
  }

  cancel(): void {
    this.#isEnded = true
    this.#unfollow()
    clearTimeout(this.#end)
    clearTimeout(this.#dropTimer)
    this.#wake?.()
  }
}

const frame = (event: string, data: object): string => `event: ${event}\ndata: ${JSON.stringify(data)}\n\n`
