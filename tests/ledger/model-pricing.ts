/** The expected pricing of the ledger, written independently of the code under test. Amounts are nano-USD. */
export type Usage = Record<
  | 'inputTokens'
  | 'cacheReadTokens'
  | 'cacheWrite5mTokens'
  | 'cacheWrite1hTokens'
  | 'inputAudioTokens'
  | 'outputTokens'
  | 'reasoningTokens'
  | 'outputAudioTokens'
  | 'outputImageTokens'
  | 'webSearches'
  | 'images'
  | 'inputImageTokens'
  | 'cacheReadAudioTokens'
  | 'outputVideoTokens'
  | 'imageToolInputTokens'
  | 'imageToolInputImageTokens'
  | 'imageToolOutputTokens'
  | 'imageToolOutputImageTokens',
  number
>
type Rate = { base: bigint; tiers: { over: number; rate: bigint }[] }
export type Rates = Partial<
  Record<
    | 'prompt'
    | 'input_cache_read'
    | 'input_cache_write_5_min'
    | 'input_cache_write_1_h'
    | 'input_audio'
    | 'input_image'
    | 'input_cache_read_audio'
    | 'completion'
    | 'reasoning'
    | 'output_audio'
    | 'output_image'
    | 'output_video'
    | 'image_tool_prompt'
    | 'image_tool_input_image'
    | 'image_tool_completion'
    | 'image_tool_output_image'
    | 'web_search'
    | 'search_request'
    | 'image'
    | 'request',
    Rate
  >
>
/**
 * The part of a response that was received. `text` and `reasoning` count words. `firstOutputMs`: from its admission to
 * the first part that is not reasoning.
 */
export type Received = {
  begun: boolean
  usage: Usage
  finished: boolean
  text: number
  reasoning: number
  reasons: boolean
  firstOutputMs: number | undefined
}
export const nothing = (): Usage => ({
  inputTokens: 0,
  cacheReadTokens: 0,
  cacheWrite5mTokens: 0,
  cacheWrite1hTokens: 0,
  inputAudioTokens: 0,
  outputTokens: 0,
  reasoningTokens: 0,
  outputAudioTokens: 0,
  outputImageTokens: 0,
  webSearches: 0,
  images: 0,
  inputImageTokens: 0,
  cacheReadAudioTokens: 0,
  outputVideoTokens: 0,
  imageToolInputTokens: 0,
  imageToolInputImageTokens: 0,
  imageToolOutputTokens: 0,
  imageToolOutputImageTokens: 0,
})
export const nothingReceived = (): Received => ({
  begun: false,
  usage: nothing(),
  finished: false,
  text: 0,
  reasoning: 0,
  reasons: false,
  firstOutputMs: undefined,
})
/** A text of one token; and the tokens of a request's input where they are counted. */
export const [WORD, COUNTED_INPUT] = [' word', 37]

const ITEMS: [keyof Usage, ...(keyof Rates)[]][] = [
  ['inputTokens', 'prompt'],
  ['cacheReadTokens', 'input_cache_read', 'prompt'],
  ['cacheWrite5mTokens', 'input_cache_write_5_min', 'prompt'],
  ['cacheWrite1hTokens', 'input_cache_write_1_h', 'input_cache_write_5_min', 'prompt'],
  ['inputAudioTokens', 'input_audio', 'prompt'],
  ['outputTokens', 'completion'],
  ['reasoningTokens', 'reasoning', 'completion'],
  ['outputAudioTokens', 'output_audio', 'completion'],
  ['outputImageTokens', 'output_image', 'completion'],
  ['webSearches', 'search_request', 'web_search'],
  ['images', 'image'],
  ['inputImageTokens', 'input_image', 'prompt'],
  ['cacheReadAudioTokens', 'input_cache_read_audio', 'input_cache_read', 'input_audio', 'prompt'],
  ['outputVideoTokens', 'output_video', 'completion'],
  ['imageToolInputTokens', 'image_tool_prompt'],
  ['imageToolInputImageTokens', 'image_tool_input_image', 'image_tool_prompt'],
  ['imageToolOutputTokens', 'image_tool_completion'],
  ['imageToolOutputImageTokens', 'image_tool_output_image', 'image_tool_completion'],
]

export const sum = (amounts: bigint[]): bigint => amounts.reduce((all, amount) => all + amount, 0n)
export const least = (a: bigint, b: bigint): bigint => (a < b ? a : b)
/** n / d rounded half to even; neither is negative. */
export const rounded = (n: bigint, d: bigint): bigint =>
  2n * (n % d) < d || (2n * (n % d) === d && (n / d) % 2n === 0n) ? n / d : n / d + 1n
const PROMPTS = [
  'inputTokens',
  'cacheReadTokens',
  'cacheWrite5mTokens',
  'cacheWrite1hTokens',
  'inputAudioTokens',
  'inputImageTokens',
  'cacheReadAudioTokens',
] as const
const prompt = (u: Usage): number => PROMPTS.reduce((all, kind) => all + u[kind], 0)
const OUTPUTS = [
  'outputTokens',
  'reasoningTokens',
  'outputAudioTokens',
  'outputImageTokens',
  'outputVideoTokens',
] as const
export const outputOf = (u: Usage): number => OUTPUTS.reduce((all, kind) => all + u[kind], 0)

/** Usage without what cannot have been asked for: output above its limit, a prompt far above its size. */
export function asked(usage: Usage, worst: Usage): Usage {
  const charged = { ...usage }
  if (prompt(usage) > prompt(worst) + 1_000_000) for (const kind of PROMPTS) charged[kind] = worst[kind]
  if (outputOf(usage) > worst.outputTokens) {
    const most = OUTPUTS.toSorted((a, b) => usage[b] - usage[a])[0]!
    for (const kind of OUTPUTS) charged[kind] = kind === most ? worst.outputTokens : 0
  }
  return charged
}

/** Hidden reasoning in tokens and the milliseconds it took, of all responses with reported usage. */
export class Speed {
  tokens = 0
  ms = 0

  measure({ usage, reasoning, firstOutputMs }: Received): void {
    if (firstOutputMs === undefined) return
    const shown = (reasoning * WORD.length) / 4
    this.tokens += shown < usage.reasoningTokens / 2 ? usage.reasoningTokens - shown : 0
    this.ms += Math.max(1, firstOutputMs)
    if (this.ms > 600_000) [this.tokens, this.ms] = [(this.tokens * 600_000) / this.ms, 600_000]
  }

  /** The same, assumed where nothing was measured. */
  possible({ firstOutputMs }: Received, ageMs: number): number {
    return Math.round((this.ms > 0 ? this.tokens / this.ms : 0.05) * (firstOutputMs ?? ageMs))
  }

  /** Tokens of reasoning in a response that is left after `ageMs`. */
  hidden({ reasons, firstOutputMs }: Received, ageMs: number): number {
    const speed = this.ms > 0 ? this.tokens / this.ms : reasons ? 0.05 : 0
    return Math.round(speed * (firstOutputMs ?? ageMs))
  }
}

/** List price, and the bill after the discount; every line is rounded once. */
export function priced(
  usage: Usage,
  rates: Rates | undefined,
  discount: number,
): { list: bigint; bill: bigint; lines: number } {
  if (rates === undefined) return { list: 0n, bill: 0n, lines: 0 }
  const quantities = new Map<string, number>(rates.request === undefined ? [] : [['request', 1]])
  for (const [bucket, ...items] of ITEMS) {
    const item = items.find((name) => rates[name] !== undefined) ?? items.at(-1)!
    const quantity = item === 'search_request' ? Math.min(1, usage[bucket]) : usage[bucket]
    if (quantity > 0) quantities.set(item, (quantities.get(item) ?? 0) + quantity)
  }
  const lines = [...quantities].map(([item, quantity]) => {
    const { base = 0n, tiers = [] } = rates[item as keyof Rates] ?? {}
    const exact = BigInt(quantity) * (tiers.filter(({ over }) => prompt(usage) > over).pop()?.rate ?? base)
    const unit = ['web_search', 'search_request', 'image', 'request'].includes(item) ? 1n : 1_000_000n
    return { list: rounded(exact, unit), off: rounded(exact * BigInt(discount), unit * 10_000n) }
  })
  const list = sum(lines.map((line) => line.list))
  return { list, bill: list - sum(lines.map((line) => line.off)), lines: lines.length }
}

/** The most expensive of all kinds of output. */
export function worstPriced(worst: Usage, rates: Rates | undefined, discount: number): { list: bigint; bill: bigint } {
  const kinds = OUTPUTS.map((kind) =>
    priced({ ...worst, outputTokens: 0, [kind]: worst.outputTokens }, rates, discount),
  )
  return kinds.reduce((most, one) => (one.list > most.list ? one : most))
}

/** The usage that Sluice counts itself for this outcome; undefined if nothing is charged. */
export function counted(
  { begun, usage, finished, text, reasoning }: Received,
  outcome: string,
): { input: boolean; output: boolean } | undefined {
  if (!['completed', 'client-left', 'exhausted'].includes(outcome) && !begun) return undefined
  return {
    input: prompt(usage) === 0,
    output: (!finished && outcome !== 'completed') || (usage.outputTokens === 0 && text + reasoning > 0),
  }
}

/** A response for which no more can be held than `tokens`, with what it generated unseen. */
export type Exhausted = { tokens: number; candidates: number; unseen: number; cause: string }

/** The usage charged for this outcome; undefined: none. `estimated`: not all reported by the provider. */
export function charged(
  received: Received,
  outcome: string,
  countedInput: number,
  hidden = 0,
  limit = 0,
  exhausted?: Exhausted,
): { usage: Usage; estimated: boolean } | undefined {
  const { usage, text, reasoning } = received
  const counts = counted(received, outcome)
  if (counts === undefined) return undefined
  const crashed = outcome === 'crashed'
  const tokens = (words: number): number => (crashed ? Math.ceil((words * WORD.length) / 4) : words)
  const inputTokens = counts.input ? countedInput : usage.inputTokens
  const all = { ...usage, inputTokens }
  if (counts.output || crashed) {
    all.outputTokens = Math.max(usage.outputTokens, tokens(text) * (exhausted?.candidates ?? 1))
    all.reasoningTokens = Math.max(usage.reasoningTokens, tokens(reasoning))
    if (!received.finished) {
      const most = Math.min(limit, exhausted?.tokens ?? limit)
      all.reasoningTokens += Math.max(0, Math.min(hidden, most - outputOf(all)))
      for (const kind of exhausted === undefined ? [] : OUTPUTS)
        all[kind] = Math.max(0, all[kind] - Math.max(0, outputOf(all) - exhausted!.tokens))
    }
  }
  return { usage: all, estimated: crashed || counts.input || counts.output }
}
