import { createHash } from 'node:crypto'

/** One line of the change log. */
export type Change = {
  at: number
  /** Who did it: the id of a user or key, and the name it had then. */
  actor: string
  actorName: string
  address: string | null
  action: string
  /** The id of what was changed, and its account, if it belongs to one. */
  target: string
  accountId: string | null
  /** JSON without secrets; null where there was or is nothing. */
  before: string | null
  after: string | null
}

/** `digest`: over the digest of the change before and all of this one, in hexadecimal. */
export type StoredChange = Change & { position: number; digest: string }

export type ChangeFilter = {
  /** Only before this position; without it, from the last one on. */
  before?: number | undefined
  limit: number
  accountIds?: readonly string[] | undefined
  actor?: string | undefined
  action?: string | undefined
  target?: string | undefined
}

export interface ChangeStore {
  /** With `together` of the store, it is in the transaction of the write that it is about. */
  add(change: Change): Promise<void>
  /** The last ones first. */
  list(filter: ChangeFilter): Promise<StoredChange[]>
  /** One page in the order of their positions, for checking the chain. */
  page(after: number, limit: number): Promise<StoredChange[]>
}

/** The digest of a change that follows one with the digest `before`; empty for the first. */
export const digestOfChange = (before: string, change: Change): string =>
  createHash('sha256')
    .update(
      JSON.stringify([
        before,
        change.at,
        change.actor,
        change.actorName,
        change.address,
        change.action,
        change.target,
        change.accountId,
        change.before,
        change.after,
      ]),
    )
    .digest('hex')
