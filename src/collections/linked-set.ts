/** A link of the ring of a set. */
type Place<Member> = { next: Place<Member>; previous: Place<Member>; member?: Member; set?: unknown }

/** A member of at most one `LinkedSet` at a time. `place`: written by the set only. */
export type Listed = { place?: Place<unknown> | undefined }

/**
 * A set of objects that come and go all the time, in the order in which they came. JavaScriptCore's `Set` and `Map`
 * copy their tables after some deletions, and each old table refers to the next one. As soon as one of them has
 * survived a collection, all that are made after it, with all that was in them, survive the small collections too: of a
 * server under load every request would be kept until the next full collection.
 */
export class LinkedSet<Member extends Listed> {
  readonly #head = {} as Place<Member>
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
    const place: Place<Member> = { next: head, previous: head.previous, member, set: this }
    head.previous.next = place
    head.previous = place
    member.place = place
    this.#size += 1
  }

  has({ place }: Member): boolean {
    return place?.set === this
  }

  /** False where it is no member. */
  delete(member: Member): boolean {
    if (!this.has(member)) return false
    const place = member.place as Place<Member>
    place.previous.next = place.next
    place.next.previous = place.previous
    // It would keep those that came after it, as an old table does.
    place.next = place.previous = place
    member.place = undefined
    this.#size -= 1
    return true
  }

  /** The members, the first one first. The set must not change meanwhile. */
  *[Symbol.iterator](): Generator<Member> {
    for (let place = this.#head.next; place !== this.#head; place = place.next) yield place.member!
  }
}
