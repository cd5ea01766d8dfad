import { createHmac } from 'node:crypto'
import type { Keys } from '../../accounts/keys.ts'
import { Deadline, deadlines, type Expiring } from '../../deadlines.ts'
import { invalid } from '../../error.ts'
import { guardedPost, publicUrlProblem } from '../../http/ssrf-guard.ts'
import { log } from '../../log/log.ts'
import type { Fields } from '../../protocols/fields.ts'
import type { AppContext, AuthenticatedRequest } from '../../context.ts'
import type { WebhookDelivery } from '../../store/store.ts'
import { hasEnded, PREFIX, toReplicate, WEBHOOK_EVENTS, type Prediction, type WebhookEvent } from './prediction.ts'

/** Calls to the URL that the client of a prediction gave, signed as Standard Webhooks define. */

/** Replicate's default. */
const DEFAULT_EVENTS: readonly WebhookEvent[] = ['output', 'completed']

/**
 * `webhook` and `webhook_events_filter` of a request to create a prediction. Throws invalid_request for a URL that is
 * refused without resolving its host.
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
  const problem = publicUrlProblem(url, { private: exempt })
  if (problem !== undefined) throw invalid('webhook', problem)
  return { url, events: [...new Set((events as WebhookEvent[] | undefined) ?? DEFAULT_EVENTS)] }
}

/** The key that signs an account's webhook calls. */
const secretOf = (keys: Keys, accountId: string): Buffer => keys.derive('webhook', accountId)

/** `GET /v1/webhooks/default/secret` */
export const getWebhookSecret = ({ keys }: Modules, { identity }: AuthenticatedRequest): Response =>
  Response.json({ key: `whsec_${secretOf(keys, identity.accountId).toString('base64')}` })

/** A call without a 2xx response in this time has failed. */
const TIMEOUT_MS = 10_000
/** Bytes of a receiver's response that are read; its content does not matter. */
const RESPONSE_BYTES = 64 * 1024
/** Waits after the first, second, ... failure, with a jitter of 20 %: about a day in all. */
const RETRY_AFTER_MS: readonly number[] = [5, 30, 120, 600, 1_800, 3_600, 7_200, 14_400, 28_800, 28_800].map(
  (seconds) => seconds * 1_000,
)
/** Between two calls with the output and logs of one prediction. */
const PAUSE_MS = 500

/** Concurrent calls: for ends of predictions, in all and of one account; for other events of one account. */
const MOST_CALLS = 64
const MOST_CALLS_PER_ACCOUNT = 4
const MOST_LIVE_CALLS_PER_ACCOUNT = 8
/** After a call that the store did not update, or a failed search. */
const RECOVERY_MS = 1_000
/** Longest wait for a call that is due later: the clock may be set meanwhile. */
const LONGEST_WAIT_MS = 60_000
/** Rows read at a time: their bodies may be large. */
const PAGE = 8
/** Longest body that includes the prediction's input, in characters. */
const BODY_LENGTH = 1024 * 1024

type Modules = Pick<AppContext, 'store' | 'keys' | 'config' | 'clock'>

/** Shorter times for tests. */
type Options = { retryAfterMs?: readonly number[]; timeoutMs?: number; pauseMs?: number }

/** A running prediction with a webhook: the latest state for each event. One call at a time is made. */
type Live = {
  accountId: string
  waiting: Map<WebhookEvent, Prediction>
  ended: PromiseWithResolvers<void>
  hasEnded: boolean
  sending: Promise<void>
}

/**
 * Ends of predictions are delivered at least once, with retries and over restarts. Events before that are delivered at
 * most once, in order, and not after the end. Slow receivers delay only the calls of their own account.
 */
export class Webhooks implements Expiring {
  readonly #app: Modules
  readonly #retryAfterMs: readonly number[]
  readonly #timeoutMs: number
  readonly #pauseMs: number
  readonly #stopping = new AbortController()
  readonly #live = new Map<string, Live>()
  /** Calls for ends that are not settled yet, and so must not be reported. */
  readonly #withheld = new Set<string>()
  /** Calls for ends in progress, by the call's id. */
  readonly #calls = new Map<string, { accountId: string; done: Promise<void> }>()
  /** Until the next call is due; set only while there is one. */
  readonly #nextRound = new Deadline(this)
  /** A round is due after a failure: searches that began before it must not put it off. */
  #isRecovering = false
  #search: Promise<void> = Promise.resolve()
  #isSearching = false
  #searchAgain = false

  constructor(
    app: Modules,
    { retryAfterMs = RETRY_AFTER_MS, timeoutMs = TIMEOUT_MS, pauseMs = PAUSE_MS }: Options = {},
  ) {
    this.#app = app
    this.#retryAfterMs = retryAfterMs
    this.#timeoutMs = timeoutMs
    this.#pauseMs = pauseMs
  }

  /** The call for the end of this prediction, to be committed with it. It is made after `notify`, and not before. */
  delivery(prediction: Prediction): WebhookDelivery | undefined {
    const { id, accountId, webhook } = prediction
    if (webhook?.events.includes('completed') !== true) return undefined
    this.#withheld.add(callId(id))
    return {
      id: callId(id),
      accountId,
      predictionId: id,
      url: webhook.url,
      body: bodyOf(this.#app, prediction),
      attempts: 0,
      nextAt: this.#app.clock.now(),
    }
  }

  notify(prediction: Prediction, event: WebhookEvent): void {
    const { id, accountId, webhook } = prediction
    if (webhook === undefined) return
    const known = this.#live.get(id)
    if (event === 'completed') {
      this.#withheld.delete(callId(id))
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
      ended: Promise.withResolvers(),
      hasEnded: false,
      sending: Promise.resolve(),
    }
    this.#live.set(id, live)
    live.sending = this.#send(id, live)
  }

  async #send(predictionId: string, live: Live): Promise<void> {
    for (;;) {
      const [next] = live.waiting
      if (next === undefined || live.hasEnded || this.#stopping.signal.aborted)
        return void this.#live.delete(predictionId)
      const [event, prediction] = next
      live.waiting.delete(event)
      const id = `msg_${Bun.randomUUIDv7('buffer').toString('hex')}`
      await this.#post({
        id,
        accountId: live.accountId,
        url: prediction.webhook!.url,
        body: bodyOf(this.#app, prediction),
      }).catch(() => {})
      // Events during the pause are sent together.
      if (event !== 'start') await Promise.race([Bun.sleep(this.#pauseMs), live.ended.promise])
    }
  }

  /** Makes the calls that are due, within the limits, and those that are due later at their time. */
  round(): void {
    this.#searchAgain = true
    if (!this.#isSearching) this.#search = this.#findDue()
  }

  onDeadline(): void {
    this.#isRecovering = false
    this.round()
  }

  async #findDue(): Promise<void> {
    this.#isSearching = true
    try {
      while (this.#searchAgain && this.#calls.size < MOST_CALLS && !this.#stopping.signal.aborted) {
        this.#searchAgain = false
        const { predictions } = this.#app.store
        const due = await predictions.dueDeliveries(this.#app.clock.now(), PAGE, this.#skipped())
        for (const delivery of due) this.#begin(delivery)
        // Calls in progress begin a round at their end.
        if (due.length === 0) this.#roundAt(await predictions.nextDelivery(this.#skipped()))
      }
    } catch (error) {
      log.error('Webhooks could not be read', error)
      this.#recover()
    } finally {
      this.#isSearching = false
    }
  }

  #roundAt(instant: number | undefined): void {
    if (this.#isRecovering) return
    // Other processes leave calls, too.
    const next = instant ?? (this.#app.store.predictions.shared === undefined ? undefined : Infinity)
    if (next === undefined || this.#stopping.signal.aborted) deadlines.clear(this.#nextRound)
    else deadlines.set(this.#nextRound, Math.min(next - this.#app.clock.now(), LONGEST_WAIT_MS))
  }

  #recover(): void {
    if (this.#stopping.signal.aborted) return
    this.#isRecovering = true
    deadlines.setWithin(this.#nextRound, RECOVERY_MS)
  }

  /** Calls that must not be begun now, and accounts. */
  #skipped(): string[] {
    return [...this.#calls.keys(), ...this.#withheld, ...this.#busyAccounts()]
  }

  #busyAccounts(): string[] {
    return [...Map.groupBy(this.#calls.values(), ({ accountId }) => accountId)]
      .filter(([, calls]) => calls.length >= MOST_CALLS_PER_ACCOUNT)
      .map(([accountId]) => accountId)
  }

  #begin(delivery: WebhookDelivery): void {
    this.#searchAgain = true
    if (this.#stopping.signal.aborted || this.#busyAccounts().includes(delivery.accountId)) return
    const done = this.#deliver(delivery)
      .finally(() => this.#calls.delete(delivery.id))
      // A delivery that the store did not update is due again, but not at once: its receiver would get it in a loop.
      .then(
        () => this.round(),
        (error: unknown) => {
          log.error('A webhook could not be updated', error)
          this.#recover()
        },
      )
    this.#calls.set(delivery.id, { accountId: delivery.accountId, done })
  }

  async #deliver(delivery: WebhookDelivery): Promise<void> {
    // Earlier events must not arrive after the end.
    await this.#live.get(delivery.predictionId)?.sending
    const { shared } = this.#app.store.predictions
    if (shared !== undefined && !(await shared.claimDelivery(delivery.id, delivery.attempts))) return
    const delivered = await this.#post(delivery).then(
      (status) => status >= 200 && status < 300,
      () => false,
    )
    if (this.#stopping.signal.aborted && !delivered) return
    const { id, predictionId, url } = delivery
    const attempts = delivery.attempts + 1
    const wait = delivered ? undefined : this.#retryAfterMs[attempts - 1]
    await this.#app.store.predictions.updateDelivery(
      id,
      attempts,
      wait === undefined ? undefined : this.#app.clock.now() + Math.round(wait * (0.8 + 0.4 * Math.random())),
    )
    if (!delivered && wait === undefined)
      log.error(
        `webhook ${id} of ${PREFIX}${predictionId} to ${new URL(url).host}: giving up after ${attempts} attempts`,
      )
  }

  #post({ id, accountId, url, body }: Pick<WebhookDelivery, 'id' | 'accountId' | 'url' | 'body'>): Promise<number> {
    const { keys, config, clock } = this.#app
    const timestamp = Math.floor(clock.now() / 1000)
    const signature = createHmac('sha256', secretOf(keys, accountId))
      .update(`${id}.${timestamp}.${body}`)
      .digest('base64')
    const headers = {
      'content-type': 'application/json',
      'webhook-id': id,
      'webhook-timestamp': String(timestamp),
      'webhook-signature': `v1,${signature}`,
    }
    return guardedPost(url, body, headers, {
      private: config.fetch.private,
      maxBytes: RESPONSE_BYTES,
      totalMs: this.#timeoutMs,
      signal: this.#stopping.signal,
    })
  }

  /** Aborts the calls in progress; the next start makes those that are due. */
  async stop(): Promise<void> {
    this.#stopping.abort()
    deadlines.clear(this.#nextRound)
    for (const live of this.#live.values()) end(live)
    await this.#search
    await Promise.all([
      ...[...this.#calls.values()].map(({ done }) => done),
      ...[...this.#live.values()].map(({ sending }) => sending),
    ])
  }
}

const callId = (predictionId: string): string => `msg_${predictionId}`

function end(live: Live): void {
  live.hasEnded = true
  live.ended.resolve()
}

/** The prediction as GET gives it. Receivers take small bodies, so a large input, which the client has, is left out. */
function bodyOf(app: Modules, prediction: Prediction): string {
  const body = JSON.stringify(toReplicate(app, prediction, prediction.origin))
  return body.length <= BODY_LENGTH
    ? body
    : JSON.stringify(toReplicate(app, { ...prediction, input: {} }, prediction.origin))
}
