import { log } from '../log/log.ts'
import { MESSAGE_BYTES, type ProcessMessages } from '../store/messages.ts'
import type { RowEvent, Tail } from './tail.ts'

/** Interval in which a process with followers asks the others for their events. */
const ASK_MS = 10_000
/** Others send events for so long after they were asked. */
const ASKED_MS = 25_000
/** Events of this time are sent together. */
const TOGETHER_MS = 250
/** Events that a process sends in a second: as many as one follower gets. */
const EVENTS_A_SECOND = 50
const SECOND_MS = 1_000

type Message = { type: 'ask' } | { type: 'events'; events: RowEvent[]; isDropped: boolean }

/** Has the followers of each process see the requests of all; nothing is sent while there are none. */
export class SharedTail {
  readonly #tail: Tail
  readonly #messages: ProcessMessages
  #askTimer: Timer | undefined
  #askedTimer: Timer | undefined
  #sendTimer: Timer | undefined
  /** Events as JSON. */
  #events: string[] = []
  #isDropped = false
  #second = { beganAt: -Infinity, events: 0 }

  constructor(tail: Tail, messages: ProcessMessages) {
    this.#tail = tail
    this.#messages = messages
    tail.onFollowed = () => this.#ask()
    messages.listen((text) => this.#read(text))
  }

  #ask(): void {
    clearTimeout(this.#askTimer)
    if (this.#tail.size === 0) return
    this.#send({ type: 'ask' })
    this.#askTimer = setTimeout(() => this.#ask(), ASK_MS).unref()
  }

  #read(text: string): void {
    let message: Message
    try {
      message = JSON.parse(text, readBigint) as Message
    } catch (error) {
      return log.warn(`A message of another process is not read: ${(error as Error).message}`)
    }
    if (message.type === 'ask') return this.#beAsked()
    for (const event of message.events) this.#tail.deliver(event)
    if (message.isDropped) this.#tail.deliver({ type: 'dropped', count: 1 })
  }

  #beAsked(): void {
    clearTimeout(this.#askedTimer)
    this.#tail.relay = (event) => this.#take(event)
    this.#askedTimer = setTimeout(() => (this.#tail.relay = undefined), ASKED_MS).unref()
  }

  #take(event: RowEvent): void {
    const now = performance.now()
    if (now - this.#second.beganAt >= SECOND_MS) this.#second = { beganAt: now, events: 0 }
    if (this.#second.events++ < EVENTS_A_SECOND) this.#events.push(JSON.stringify(event, writeBigint))
    else this.#isDropped = true
    this.#sendTimer ??= setTimeout(() => this.#sendTogether(), TOGETHER_MS).unref()
  }

  /** In as few messages as their size allows. */
  #sendTogether(): void {
    this.#sendTimer = undefined
    const most = MESSAGE_BYTES - Buffer.byteLength(eventsMessage([], true))
    let [group, bytes]: [string[], number] = [[], 0]
    for (const event of this.#events.splice(0)) {
      const length = Buffer.byteLength(event) + 1
      if (length > most) {
        this.#isDropped = true
        continue
      }
      if (bytes + length > most) {
        this.#messages.send(eventsMessage(group, false))
        ;[group, bytes] = [[], 0]
      }
      group.push(event)
      bytes += length
    }
    this.#messages.send(eventsMessage(group, this.#isDropped))
    this.#isDropped = false
  }

  #send(message: Message): void {
    this.#messages.send(JSON.stringify(message))
  }
}

/** `events`: each as JSON. */
const eventsMessage = (events: readonly string[], isDropped: boolean): string =>
  `{"type":"events","events":[${events.join()}],"isDropped":${isDropped}}`

/** Amounts are more exact than the numbers of JSON. */
const writeBigint = (_: string, value: unknown): unknown =>
  typeof value === 'bigint' ? { nano: String(value) } : value

const readBigint = (_: string, value: unknown): unknown =>
  typeof value === 'object' && value !== null && 'nano' in value ? BigInt(value.nano as string) : value
