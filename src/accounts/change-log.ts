import { digestOfChange, type ChangeFilter, type ChangeStore, type StoredChange } from '../store/store.ts'

/** Who changes something: a user, a management key, or the command line. */
export type Actor = { id: string; name: string; address?: string | undefined }

export const COMMAND_LINE: Actor = { id: 'command-line', name: 'command line' }

/** `before` and `after`: as the API shows it, without secrets. */
export type ChangeEntry = {
  action: string
  target: string
  accountId?: string | undefined
  before?: object | undefined
  after?: object | undefined
}

const PAGE = 500

/** The log of all changes, each with a digest over itself and the digest of the one before. */
export class ChangeLog {
  readonly #store: ChangeStore
  readonly #now: () => number

  constructor(store: ChangeStore, now: () => number) {
    this.#store = store
    this.#now = now
  }

  add(actor: Actor, { action, target, accountId, before, after }: ChangeEntry): Promise<void> {
    return this.#store.add({
      at: this.#now(),
      actor: actor.id,
      actorName: actor.name,
      address: actor.address ?? null,
      action,
      target,
      accountId: accountId ?? null,
      before: before === undefined ? null : JSON.stringify(before),
      after: after === undefined ? null : JSON.stringify(after),
    })
  }

  list(filter: ChangeFilter): Promise<StoredChange[]> {
    return this.#store.list(filter)
  }

  /** The position of the first change whose digest is wrong; undefined where the chain holds. */
  async firstWrong(): Promise<number | undefined> {
    let [digest, last] = ['', 0]
    for (;;) {
      const page = await this.#store.page(last, PAGE)
      for (const change of page) {
        digest = digestOfChange(digest, change)
        if (digest !== change.digest) return change.position
        last = change.position
      }
      if (page.length < PAGE) return undefined
    }
  }
}
