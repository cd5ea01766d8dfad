/** An output limit is not lowered below this: a conversation that leaves less room is too long. */
const LEAST_OUTPUT_TOKENS = 256

/** A limit that every model accepts, where the refusal of a higher one does not say how high it may be. */
const SAFE_OUTPUT_TOKENS = 4_096

/** A refusal that is about the output limit, by the names that providers have for it. */
const OUTPUT_LIMIT = /max_?(?:\w+_)?tokens|max(?:imum)? (?:\w+ )?tokens|output tokens|in the completion/i

/** Shapes of refusals that say how much of the context the prompt takes, and how many tokens the two groups are. */
const LEFT_OF_CONTEXT: readonly [RegExp, (first: number, second: number) => number][] = [
  // Anthropic: `input length and max_tokens exceed context limit: 190000 + 32768 > 200000`
  [/(\d+) *\+ *\d+ *> *(\d+)/, (prompt, context) => context - prompt],
  // vLLM: `(32768 > 8192 - 20)`
  [/\d+ *> *(\d+) *- *(\d+)/, (context, prompt) => context - prompt],
  // OpenAI and many servers: `maximum context length is 8192 tokens ... (20 in the messages, 32768 in the completion)`
  [/context length is (\d+)[^]{0,120}?(\d+) in the (?:messages|prompt)/, (context, prompt) => context - prompt],
]

/** Whole numbers, with or without commas, that are no part of a name such as `claude-3-5-haiku-20241022`. */
const NUMBERS = /(?<![\w.-])(?:\d{1,3}(?:,\d{3})+(?![,\d])|\d+)(?![\w-])/g

/**
 * The highest output limit that a provider's refusal of `sent` allows; undefined where it refuses something else, or
 * nothing that is worth asking for.
 */
export function allowedLimit(message: string, sent: number): number | undefined {
  if (!OUTPUT_LIMIT.test(message)) return undefined
  for (const [shape, left] of LEFT_OF_CONTEXT) {
    const found = shape.exec(message)
    if (found !== null) return worthAsking(left(Number(found[1]), Number(found[2])), sent)
  }
  const named = [...message.matchAll(NUMBERS)].map(([digits]) => Number(digits.replaceAll(',', '')))
  const allowed = named.filter((one) => one >= LEAST_OUTPUT_TOKENS && one < sent)
  return allowed.length > 0 ? Math.max(...allowed) : worthAsking(SAFE_OUTPUT_TOKENS, sent)
}

const worthAsking = (limit: number, sent: number): number | undefined =>
  limit >= LEAST_OUTPUT_TOKENS && limit < sent ? limit : undefined
