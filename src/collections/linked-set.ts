/** One element of the ring of a set. */
type Link<Member> = { next: Link<Member>; previous: Link<Member>; member?: Member; set?: unknown }

/** A member of at most one `LinkedSet` at a time. `link`: written by the set only. */
export type Listed = { link?: Link<unknown> | undefined }

/**
 * A set of objects that come and go all the time, in the order in which they came. JavaScriptCore's `Set` and `Map`
 * copy their tables after some deletions, and each old table refers to the next one. As soon as one of them has
 * survived a collection, all that are made after it, with all that was in them, survive the small collections too: of a
 * server under load every request would be kept until the next full collection.
 */
export class LinkedSet<Member extends Listed> {
  readonly #head = {} as Link<Member>
  #size = 0

  constructor() {
    this.#head.next = this.#head.previous = this.#head
  }

  get size(): number {
    return this.#size
  }

  /** The member that came first, of those that are left. */
  get first(): Member | undefined {
    return this.#head.next.member
  }

  add(member: Member): void {
    if (this.has(member)) return
    const head = this.#head
    const link: Link<Member> = { next: head, previous: head.previous, member, set: this }
    head.previous.next = link
    head.previous = link
    member.link = link
    this.#size += 1
  }

  has({ link }: Member): boolean {
    return link?.set === this
  }

  /** False where it is no member. */
  delete(member: Member): boolean {
    if (!this.has(member)) return false
    const link = member.link as Link<Member>
    link.previous.next = link.next
    link.next.previous = link.previous
    // It would keep those that came after it, as an old table does.
    link.next = link.previous = link
    member.link = undefined
    this.#size -= 1
    return true
  }

  /** The members, the first one first. The set must not change meanwhile. */
  *[Symbol.iterator](): Generator<Member> {
    for (let link = this.#head.next; link !== this.#head; link = link.next) yield link.member!
  }
}
