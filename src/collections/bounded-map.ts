/**
 * A Map for caches with keys that clients choose: adding to a full one empties it first. Keeping the order of use would
 * cost every lookup more than an occasional recomputation does.
 */
export class BoundedMap<Key, Value> extends Map<Key, Value> {
  readonly #maxSize: number

  constructor(maxSize: number) {
    super()
    this.#maxSize = maxSize
  }

  override set(key: Key, value: Value): this {
    if (this.size >= this.#maxSize && !this.has(key)) this.clear()
    return super.set(key, value)
  }
}
