import { createHmac } from 'node:crypto'
import type { Keys } from '../../accounts/keys.ts'
import { invalid } from '../../error.ts'
import { postOutside, wrongOutsideUrl } from '../../http/outside.ts'
import type { Fields } from '../../protocols/fields.ts'
import type { InboundRequest, AppContext } from '../../context.ts'
import type { WebhookDelivery } from '../../store/store.ts'
import { hasEnded, PREFIX, shown, WEBHOOK_EVENTS, type Prediction, type WebhookEvent } from './prediction.ts'

/**
 * Calls to the address that a prediction's client named, when something happens to it. Signed as Standard Webhooks are.
 */

/** Replicate's, where the client does not choose. */
const DEFAULT_EVENTS: readonly WebhookEvent[] = ['output', 'completed']

/**
 * `webhook` and `webhook_events_filter` of a request to create a prediction. Throws invalid_request for an address that
 * can be refused by its text alone.
 */
export function readWebhook(body: Fields, exempt: readonly string[]): Prediction['webhook'] {
  const url = body.string('webhook')
  const events = body.strings('webhook_events_filter', { min: 1 })
  const wrong = events?.findIndex((event) => !(WEBHOOK_EVENTS as readonly string[]).includes(event)) ?? -1
  if (wrong >= 0)
    throw invalid(
      `webhook_events_filter[${wrong}]`,
      `must be one of ${WEBHOOK_EVENTS.map((event) => `'${event}'`).join(', ')}`,
    )
  if (url === undefined) return undefined
  const problem = wrongOutsideUrl(url, { private: exempt })
  if (problem !== undefined) throw invalid('webhook', problem)
  return { url, events: [...new Set((events as WebhookEvent[] | undefined) ?? DEFAULT_EVENTS)] }
}

/** What an account's webhook calls are signed with. */
const secretOf = (keys: Keys, accountId: string): Buffer => keys.derive('webhook', accountId)

/** `GET /v1/webhooks/default/secret` */
export const getWebhookSecret = ({ keys }: Rooms, { identity }: InboundRequest): Response =>
  Response.json({ key: `whsec_${secretOf(keys, identity.accountId).toString('base64')}` })

/** After so long without a 2xx a call has failed. */
const TIMEOUT_MS = 10_000
/** Bytes of a receiver's answer that are read: nothing in it is of interest. */
const ANSWER_BYTES = 64 * 1024
/** What is waited after the first, second, ... failure, give or take a fifth: about a day in all. */
const RETRY_AFTER_MS: readonly number[] = [5, 30, 120, 600, 1_800, 3_600, 7_200, 14_400, 28_800, 28_800].map(
  (seconds) => seconds * 1_000,
)
/** Between two calls that tell of one prediction's output and logs. */
const PAUSE_MS = 500

/** Calls at a time: of ends of predictions, in all and of one account, and of an account's other events. */
const MOST_CALLS = 64
const MOST_CALLS_PER_ACCOUNT = 4
const MOST_LIVE_CALLS_PER_ACCOUNT = 8
/** Rows read at a time: their bodies may be large. */
const PAGE = 8
/** Characters of a body with the prediction's input in it. */
const BODY_LENGTH = 1024 * 1024

type Rooms = Pick<AppContext, 'store' | 'keys' | 'config'>

/** For tests: real time is too long for them. */
type Options = { retryAfterMs?: readonly number[]; timeoutMs?: number; pauseMs?: number }

/**
 * One prediction under way whose client hears of it: the latest state for each event, of which one is told at a time.
 */
type Live = {
  accountId: string
  waiting: Map<WebhookEvent, Prediction>
  over: PromiseWithResolvers<void>
  isOver: boolean
  telling: Promise<void>
}

/**
 * Ends are told at least once, however often it takes and over restarts; what happens before is told at best, in order,
 * and not any more when it has ended.
 * Slow receivers hold back nothing but what is due to their own account.
 */
export class Webhooks {
  readonly #rooms: Rooms
  readonly #retryAfterMs: readonly number[]
  readonly #timeoutMs: number
  readonly #pauseMs: number
  readonly #stopping = new AbortController()
  readonly #live = new Map<string, Live>()
  /** Calls that are owed for ends that nobody may hear of yet. */
  readonly #withheld = new Set<string>()
  /** Of ends, by the call's id. */
  readonly #calls = new Map<string, { accountId: string; done: Promise<void> }>()
  #looked: Promise<void> = Promise.resolve()
  #isLooking = false
  #lookAgain = false

  constructor(
    rooms: Rooms,
    { retryAfterMs = RETRY_AFTER_MS, timeoutMs = TIMEOUT_MS, pauseMs = PAUSE_MS }: Options = {},
  ) {
    this.#rooms = rooms
    this.#retryAfterMs = retryAfterMs
    this.#timeoutMs = timeoutMs
    this.#pauseMs = pauseMs
  }

  /**
   * The call that the end of this prediction owes, to be committed with it; `notify` then has it made, and not before.
   */
  owed(prediction: Prediction): WebhookDelivery | undefined {
    const { id, accountId, webhook } = prediction
    if (webhook?.events.includes('completed') !== true) return undefined
    this.#withheld.add(callOf(id))
    return {
      id: callOf(id),
      accountId,
      predictionId: id,
      url: webhook.url,
      body: bodyOf(this.#rooms, prediction),
      attempts: 0,
      nextAt: Date.now(),
    }
  }

  notify(prediction: Prediction, event: WebhookEvent): void {
    const { id, accountId, webhook } = prediction
    if (webhook === undefined) return
    const known = this.#live.get(id)
    if (event === 'completed') {
      this.#withheld.delete(callOf(id))
      if (known !== undefined) end(known)
      return this.round()
    }
    if (!webhook.events.includes(event) || hasEnded(prediction) || this.#stopping.signal.aborted) return
    if (known !== undefined) return void known.waiting.set(event, prediction)
    if ([...this.#live.values()].filter((live) => live.accountId === accountId).length >= MOST_LIVE_CALLS_PER_ACCOUNT)
      return
    const live: Live = {
      accountId,
      waiting: new Map([[event, prediction]]),
      over: Promise.withResolvers(),
      isOver: false,
      telling: Promise.resolve(),
    }
    this.#live.set(id, live)
    live.telling = this.#tell(id, live)
  }

  async #tell(predictionId: string, live: Live): Promise<void> {
    for (;;) {
      const [next] = live.waiting
      if (next === undefined || live.isOver || this.#stopping.signal.aborted)
        return void this.#live.delete(predictionId)
      const [event, prediction] = next
      live.waiting.delete(event)
      const id = `msg_${Bun.randomUUIDv7().replaceAll('-', '')}`
      await this.#post({
        id,
        accountId: live.accountId,
        url: prediction.webhook!.url,
        body: bodyOf(this.#rooms, prediction),
      }).catch(() => {})
      // Whatever comes meanwhile is told together.
      if (event !== 'start') await Promise.race([Bun.sleep(this.#pauseMs), live.over.promise])
    }
  }

  /** Makes the calls that are due, as many at a time as may be. */
  round(): void {
    this.#lookAgain = true
    if (!this.#isLooking) this.#looked = this.#look()
  }

  async #look(): Promise<void> {
    this.#isLooking = true
    try {
      while (this.#lookAgain && this.#calls.size < MOST_CALLS && !this.#stopping.signal.aborted) {
        this.#lookAgain = false
        const due = await this.#rooms.store.predictions.dueDeliveries(Date.now(), PAGE, [
          ...this.#calls.keys(),
          ...this.#withheld,
          ...this.#busyAccounts(),
        ])
        for (const delivery of due) this.#begin(delivery)
      }
    } catch (error) {
      // The next round asks again.
      console.error(error)
    } finally {
      this.#isLooking = false
    }
  }

  #busyAccounts(): string[] {
    return [...Map.groupBy(this.#calls.values(), ({ accountId }) => accountId)]
      .filter(([, calls]) => calls.length >= MOST_CALLS_PER_ACCOUNT)
      .map(([accountId]) => accountId)
  }

  #begin(delivery: WebhookDelivery): void {
    this.#lookAgain = true
    if (this.#stopping.signal.aborted || this.#busyAccounts().includes(delivery.accountId)) return
    const done = this.#deliver(delivery)
      .finally(() => this.#calls.delete(delivery.id))
      // What the store did not take is due again: not at once, or its receiver would hear of it without end.
      .then(
        () => this.round(),
        (error: unknown) => console.error(error),
      )
    this.#calls.set(delivery.id, { accountId: delivery.accountId, done })
  }

  async #deliver(delivery: WebhookDelivery): Promise<void> {
    // What was told of it before must not arrive after it.
    await this.#live.get(delivery.predictionId)?.telling
    const delivered = await this.#post(delivery).then(
      (status) => status >= 200 && status < 300,
      () => false,
    )
    if (this.#stopping.signal.aborted && !delivered) return
    const { id, predictionId, url } = delivery
    const attempts = delivery.attempts + 1
    const wait = delivered ? undefined : this.#retryAfterMs[attempts - 1]
    await this.#rooms.store.predictions.updateDelivery(
      id,
      attempts,
      wait === undefined ? undefined : Date.now() + Math.round(wait * (0.8 + 0.4 * Math.random())),
    )
    if (!delivered && wait === undefined)
      console.error(
        `webhook ${id} of ${PREFIX}${predictionId} to ${new URL(url).host} was given up after ${attempts} attempts`,
      )
  }

  #post({ id, accountId, url, body }: Pick<WebhookDelivery, 'id' | 'accountId' | 'url' | 'body'>): Promise<number> {
    const { keys, config } = this.#rooms
    const timestamp = Math.floor(Date.now() / 1000)
    const signature = createHmac('sha256', secretOf(keys, accountId))
      .update(`${id}.${timestamp}.${body}`)
      .digest('base64')
    const headers = {
      'content-type': 'application/json',
      'webhook-id': id,
      'webhook-timestamp': String(timestamp),
      'webhook-signature': `v1,${signature}`,
    }
    return postOutside(url, body, headers, {
      private: config.fetch.private,
      maxBytes: ANSWER_BYTES,
      totalMs: this.#timeoutMs,
      signal: this.#stopping.signal,
    })
  }

  /** Breaks off what is being told: the next start makes the calls that are owed. */
  async stop(): Promise<void> {
    this.#stopping.abort()
    for (const live of this.#live.values()) end(live)
    await this.#looked
    await Promise.all([
      ...[...this.#calls.values()].map(({ done }) => done),
      ...[...this.#live.values()].map(({ telling }) => telling),
    ])
  }
}

const callOf = (predictionId: string): string => `msg_${predictionId}`

function end(live: Live): void {
  live.isOver = true
  live.over.resolve()
}

/** The prediction as GET gives it. Receivers take small bodies: a large input, which its client has, is left out. */
function bodyOf(rooms: Rooms, prediction: Prediction): string {
  const body = JSON.stringify(shown(rooms, prediction, prediction.origin))
  return body.length <= BODY_LENGTH
    ? body
    : JSON.stringify(shown(rooms, { ...prediction, input: {} }, prediction.origin))
}
