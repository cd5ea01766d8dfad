/** The longest time for which providers are expected to keep a prompt that is not used again. */
const CACHED_MS = 300_000

/** Conversations that are remembered; the one that was used longest ago is forgotten first. */
const MOST = 10_000

type Place = { id: string; tokens: number; at: number }

/** The endpoint to which each conversation was sent last, and the tokens that are probably in its cache. */
export class Conversations {
  readonly #places = new Map<string, Place>()

  get size(): number {
    return this.#places.size
  }

  /** Undefined where nothing is in a cache any more. */
  placeOf(conversation: string, now: number): Place | undefined {
    const place = this.#places.get(conversation)
    return place !== undefined && now - place.at < CACHED_MS ? place : undefined
  }

  remember(conversation: string, id: string, tokens: number, now: number): void {
    this.#places.delete(conversation)
    this.#places.set(conversation, { id, tokens, at: now })
    if (this.#places.size > MOST) this.#places.delete(this.#places.keys().next().value!)
  }
}
