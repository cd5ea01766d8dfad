/** The longest time for which providers are expected to keep a prompt that is not used again. */
const CACHED_MS = 300_000

/** Conversations that are remembered; the one that was used longest ago is forgotten first. */
const MOST = 10_000

/** `id`: of the endpoint. */
type CachedPrompt = { id: string; tokens: number; at: number }

/** The endpoint to which each conversation was sent last, and the tokens that are probably in its cache. */
export class Conversations {
  readonly #prompts = new Map<string, CachedPrompt>()

  get size(): number {
    return this.#prompts.size
  }

  /** Undefined where nothing is in a cache any more. */
  cachedPrompt(conversation: string, now: number): CachedPrompt | undefined {
    const prompt = this.#prompts.get(conversation)
    return prompt !== undefined && now - prompt.at < CACHED_MS ? prompt : undefined
  }

  remember(conversation: string, id: string, tokens: number, now: number): void {
    this.#prompts.delete(conversation)
    this.#prompts.set(conversation, { id, tokens, at: now })
    if (this.#prompts.size > MOST) this.#prompts.delete(this.#prompts.keys().next().value!)
  }
}
