/** A person. `password`: a hash with its parameters, null where there is none. */
export type User = {
  id: string
  name: string
  /** In lower case, unique. */
  email: string | null
  password: string | null
  createdAt: number
  /** The first sign-in; null until then. */
  joinedAt: number | null
}

/** `scope`: `installation`, or the id of an account. */
export type StoredRole = { scope: string; role: string }

/** A session without its text. */
export type Session = {
  id: string
  userId: string
  /** 32 bytes. */
  hash: Uint8Array
  createdAt: number
  seenAt: number
  /** Unused for so long, it ends. */
  idleMs: number
  /** The end at the latest. */
  endsAt: number
  /** It needs a new text, because the roles of its user have changed. */
  isStale: boolean
  address: string | null
  /** The User-Agent. */
  client: string | null
}

/** All sessions of a user, or one alone, or all but one. */
export type WhichSessions = { only?: string | undefined; but?: string | undefined }

/** A link without its text. `userId`: null for the one that makes the first owner. */
export type SignInLink = {
  /** 32 bytes. */
  hash: Uint8Array
  userId: string | null
  createdAt: number
  expiresAt: number
}

export interface PeopleStore {
  count(): Promise<number>
  users(): Promise<User[]>
  user(id: string): Promise<User | undefined>
  userWithEmail(email: string): Promise<User | undefined>
  roles(userId: string): Promise<StoredRole[]>
  allRoles(): Promise<(StoredRole & { userId: string })[]>
  /** False, and nothing written, if the e-mail address is taken, or if there is a user and this is to be the first. */
  addUser(user: User, roles: readonly StoredRole[], isFirst?: boolean): Promise<boolean>
  /** False, and nothing changed, if the e-mail address is taken or there is no such user. */
  changeUser(user: User): Promise<boolean>
  /**
   * Replaces the roles of a user, whose sessions need a new text then, and whose links end: they were made by those who
   * managed the former roles. False, and nothing changed, if no owner of the installation would be left.
   */
  setRoles(userId: string, roles: readonly StoredRole[]): Promise<boolean>
  /** Removes the user with roles, sessions and links. False as above, and if there is no such user. */
  removeUser(userId: string): Promise<boolean>

  addSession(session: Session): Promise<void>
  /** The session with this text, or with the one before as long as that is good. */
  sessionWithHash(hash: Uint8Array, now: number): Promise<Session | undefined>
  /** Those that have not ended, the last used first. */
  sessions(userId: string, now: number): Promise<Session[]>
  /** Writes down the use of a session, without waiting for a flush. */
  seeSession(id: string, at: number): Promise<void>
  /** Ends sessions of a user. Gives their number. */
  endSessions(userId: string, which?: WhichSessions): Promise<number>
  /** The same. False, and nothing changed, if there is none. */
  endAnySessions(userId: string, which?: WhichSessions): Promise<boolean>
  /** Replaces the text of a session; the old one is good until `oldUntil`. False where it was replaced meanwhile. */
  replaceText(session: Session, hash: Uint8Array, oldUntil: number): Promise<boolean>

  addLink(link: SignInLink): Promise<void>
  link(hash: Uint8Array): Promise<SignInLink | undefined>
  /** Uses up a link, and all others of its user. False where it is used up already, or is unknown. */
  useLink(hash: Uint8Array): Promise<boolean>
  /** Removes links and sessions that ended before `now`. */
  purge(now: number): Promise<void>
}
