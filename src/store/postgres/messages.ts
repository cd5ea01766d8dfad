import { randomBytes } from 'node:crypto'
import type { ProcessMessages } from '../messages.ts'
import type { ChangeWatch } from './change-watch.ts'
import type { Connection } from './connection.ts'

/** Messages by notifications, which reach all processes that listen at that moment. */
export class Messages implements ProcessMessages {
  readonly #connection: Connection
  readonly #watch: ChangeWatch
  /** Notifications also reach the process that made them. */
  readonly #sender = randomBytes(8).toString('hex')

  constructor(connection: Connection, watch: ChangeWatch) {
    this.#connection = connection
    this.#watch = watch
  }

  send(text: string): void {
    this.#connection
      .run('SELECT pg_notify($1, $2)', this.#watch.messageChannel, `${this.#sender} ${text}`)
      .catch(() => {})
  }

  listen(listener: (text: string) => void): void {
    this.#watch.onMessage = (payload) => {
      const [sender, length] = [payload.slice(0, this.#sender.length), this.#sender.length]
      if (sender !== this.#sender) listener(payload.slice(length + 1))
    }
  }
}
