import type { PeopleStore, Session, User, WhichSessions } from '../store/store.ts'
import { newId } from './key-text.ts'
import { hashOfSecret, newSecret } from './secret-text.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS

/** The time for which a session lasts unused, and at most. On this machine alone it lasts longer. */
export const sessionTimes = (isLoopback: boolean, hours = 12): { idleMs: number; mostMs: number } =>
  isLoopback ? { idleMs: 7 * DAY_MS, mostMs: 30 * DAY_MS } : { idleMs: hours * HOUR_MS, mostMs: 7 * DAY_MS }

/** The use of a session is written down at most so often. */
const SEEN_EVERY_MS = 60_000
/** Requests in flight have the old text for a moment when a session gets a new one. */
const OLD_TEXT_MS = 60_000
const CLIENT_LENGTH = 200

/** The client with which a session begins. */
export type SessionClient = { address: string | undefined; client: string | null }

/** The sessions of people who are signed in. */
export class Sessions {
  readonly #store: PeopleStore
  readonly #now: () => number

  constructor(store: PeopleStore, now: () => number) {
    this.#store = store
    this.#now = now
  }

  /** A new session and its text, which is not stored; `begin` stores the session. */
  create(
    user: User,
    { address, client }: SessionClient,
    { idleMs, mostMs }: { idleMs: number; mostMs: number },
  ): { session: Session; text: string } {
    const [text, now] = [newSecret(), this.#now()]
    const session: Session = {
      id: newId('ses'),
      userId: user.id,
      hash: hashOfSecret(text),
      createdAt: now,
      seenAt: now,
      idleMs,
      endsAt: now + mostMs,
      isStale: false,
      address: address ?? null,
      client: client?.slice(0, CLIENT_LENGTH) ?? null,
    }
    return { session, text }
  }

  begin(session: Session): Promise<void> {
    return this.#store.addSession(session)
  }

  /** The session with this text and its user. `renewed`: the new text that the client gets instead. */
  async find(text: string): Promise<{ session: Session; user: User; renewed?: string } | undefined> {
    const now = this.#now()
    const session = await this.#store.sessionWithHash(hashOfSecret(text), now)
    const user = session && (await this.#store.user(session.userId))
    if (session === undefined || user === undefined) return undefined
    if (now - session.seenAt >= SEEN_EVERY_MS) await this.#store.seeSession(session.id, now)
    if (!session.isStale) return { session, user }
    const renewed = newSecret()
    const isReplaced = await this.#store.replaceText(session, hashOfSecret(renewed), now + OLD_TEXT_MS)
    return { session, user, ...(isReplaced ? { renewed } : {}) }
  }

  list(userId: string): Promise<Session[]> {
    return this.#store.sessions(userId, this.#now())
  }

  /** The same as `end`. False, and nothing changed of what is made together, where there is none. */
  endAny(userId: string, which?: WhichSessions): Promise<boolean> {
    return this.#store.endAnySessions(userId, which)
  }

  /** Ends sessions of a user; gives their number. */
  end(userId: string, which?: WhichSessions): Promise<number> {
    return this.#store.endSessions(userId, which)
  }
}

/** The end of a session that is not used any more. */
export const endOf = ({ seenAt, idleMs, endsAt }: Session): number => Math.min(seenAt + idleMs, endsAt)
