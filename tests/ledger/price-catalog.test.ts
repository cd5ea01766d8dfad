import { describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import {
  calcPrice,
  findProvider,
  type ModelInfo,
  type ModelPrice,
  type Usage as TheirUsage,
} from '@pydantic/genai-prices'
import { completionTokens, noUsage, promptTokens, type Usage } from '../../src/generation/usage.ts'
import { isFree, Prices, ratesOf } from '../../src/ledger/prices.ts'
import { rate } from '../../src/ledger/rating.ts'
import { MODEL_ROWS, PROVIDER_ROWS } from '../../src/providers/catalog-rows.ts'
import { fileText } from '../../scripts/prices.ts'
import { SOURCES } from './price-sources.ts'
import { catalogued, FILE, TODAY } from './catalogued-prices.ts'

describe('catalog/prices.json', () => {
  const rows = [
    ...Object.entries(FILE.own),
    ...Object.entries(FILE.providers).map(([id, { models }]) => [id, models] as const),
  ].flatMap(([provider, list]) => list.map((row) => ({ provider, row })))

  test('every line has a known provider, a day as its version and amounts as its prices', () => {
    const providers = PROVIDER_ROWS.map(({ id }) => id)
    expect(rows.length).toBeGreaterThan(900)
    for (const { provider, row } of rows) {
      expect(providers).toContain(provider)
      expect(row.version).toMatch(/^\d{4}-\d\d-\d\d$/)
      expect(Object.keys(ratesOf(row.prices)).sort()).toEqual(Object.keys(row.prices).sort())
      expect(row.match.length).toBeGreaterThan(0)
    }
    for (const { else: others } of Object.values(FILE.providers))
      for (const other of others) expect(Object.keys(FILE.providers)).toContain(other)
  })

  test('no cached token costs more than an uncached one, and none that is written to a cache less', () => {
    const odd = rows.flatMap(({ provider, row }) =>
      [row.prices, ...(row.schedule ?? []).map(({ prices }) => prices)].flatMap((prices) => {
        const { prompt, input_cache_read, input_cache_write_5_min, input_cache_write_1_h } = ratesOf(prices)
        const isOdd =
          (input_cache_read !== undefined && input_cache_read.base > prompt!.base) ||
          (input_cache_write_5_min !== undefined && input_cache_write_5_min.base < prompt!.base) ||
          (input_cache_write_1_h !== undefined && input_cache_write_1_h.base < input_cache_write_5_min!.base)
        return isOdd ? [`${provider}/${row.model}`] : []
      }),
    )
    expect(odd).toEqual([])
  })

  test('rates of long prompts are above those of short ones, and the tiers of a price begin together', () => {
    const odd = rows.flatMap(({ provider, row }) => {
      const tiered = Object.values(ratesOf(row.prices)).filter(({ tiers }) => tiers.length > 0)
      const starts = new Set(tiered.map(({ tiers }) => tiers.map(({ over }) => over).join()))
      const isOdd =
        starts.size > 1 ||
        tiered.some(({ base, tiers }) =>
          tiers.some(({ rate: later }, index) => later < (tiers[index - 1]?.rate ?? base)),
        )
      return isOdd ? [`${provider}/${row.model}`] : []
    })
    expect(odd).toEqual([])
  })

  test('the file is formatted as the importer writes it, so that an import changes only what changed', () => {
    expect(readFileSync(join(import.meta.dir, '../../catalog/prices.json'), 'utf8')).toBe(fileText(FILE))
  })

  test('simulated and local models have a price of 0', () => {
    for (const provider of PROVIDER_ROWS.filter(
      ({ inProcess, local, id }) =>
        inProcess !== undefined || local !== undefined || ['vllm', 'llamacpp', 'lmstudio'].includes(id),
    )) {
      const usage = { ...noUsage(), inputTokens: 5, outputTokens: 5, webSearches: 1, images: 1 }
      expect([provider.id, rate(usage, catalogued().cost(provider.id, 'any/name:1b')!, 0).bill]).toEqual([
        provider.id,
        0n,
      ])
    }
  })

  test('a model without a price in any source has no price instead of 0', () => {
    expect(catalogued().cost('openai', 'no-such-model')).toBeUndefined()
    expect(catalogued().cost('acme', 'gpt-5')).toBeUndefined()
    for (const name of ['__proto__', 'constructor', 'toString'])
      expect([catalogued().cost(name, 'x'), catalogued().cost('openai', name)]).toEqual([undefined, undefined])
  })
})

/** Primes, so that swapped buckets give another bill; below and above every tier. */
const USAGES: Usage[] = [
  { ...noUsage(), inputTokens: 7_919, outputTokens: 1_201 },
  {
    ...noUsage(),
    inputTokens: 104_729,
    cacheReadTokens: 15_485,
    cacheWrite5mTokens: 3_571,
    cacheWrite1hTokens: 1_297,
    outputTokens: 2_741,
    reasoningTokens: 409,
    webSearches: 3,
  },
  { ...noUsage(), inputTokens: 611_953, cacheReadTokens: 86_028, outputTokens: 6_131, reasoningTokens: 877 },
  { ...noUsage(), inputTokens: 128_000 },
  { ...noUsage(), inputTokens: 128_001 },
  { ...noUsage(), inputTokens: 200_000 },
  { ...noUsage(), inputTokens: 200_001 },
  { ...noUsage(), inputTokens: 271_999 },
  { ...noUsage(), inputTokens: 272_000 },
  {
    ...noUsage(),
    inputTokens: 9_973,
    inputAudioTokens: 1_009,
    inputImageTokens: 1_103,
    cacheReadAudioTokens: 997,
    outputVideoTokens: 401,
    outputTokens: 211,
    outputAudioTokens: 503,
    outputImageTokens: 307,
  },
]

const theirs = (usage: Usage): TheirUsage => ({
  input_tokens: promptTokens(usage),
  cache_read_tokens: usage.cacheReadTokens + usage.cacheReadAudioTokens,
  cache_write_tokens: usage.cacheWrite5mTokens + usage.cacheWrite1hTokens,
  cache_write_1h_tokens: usage.cacheWrite1hTokens,
  input_audio_tokens: usage.inputAudioTokens + usage.cacheReadAudioTokens,
  input_image_tokens: usage.inputImageTokens,
  cache_audio_read_tokens: usage.cacheReadAudioTokens,
  cache_image_read_tokens: 0,
  output_tokens: completionTokens(usage),
  output_reasoning_tokens: usage.reasoningTokens,
  output_audio_tokens: usage.outputAudioTokens,
  output_image_tokens: usage.outputImageTokens,
  output_video_tokens: usage.outputVideoTokens,
  web_searches: usage.webSearches,
})

const COUNTED_UNITS = [
  /^(input|output|cache_read|cache_write|cache_write_1h|input_audio|output_audio|output_image|output_reasoning)_mtok$/,
  /^(web_searches|requests)_kcount$/,
]
const counted = (prices: ModelPrice): boolean =>
  Object.keys(prices).some((unit) => COUNTED_UNITS.some((pattern) => pattern.test(unit)))

/** USD that the source leaves out: searches, audio, and hour-long cache writes of Claude, by the providers' lists. */
function leftOut(model: string, usage: Usage, known: ModelPrice): number {
  const fees = usage.webSearches * searchRate(model) + (usage.webSearches > 0 ? searchRequestRate(model) : 0)
  const searches = (known.web_searches_kcount === undefined ? fees : 0) + leftOutAudio(model, usage, known)
  const { input_mtok: input, cache_write_mtok: write } = known
  // OpenRouter lists the storage of what Gemini writes to a cache, without the input.
  if (/^openrouter\/.*gemini/.test(model) && write !== undefined && baseOf(write) < baseOf(input))
    return searches + ((usage.cacheWrite5mTokens + usage.cacheWrite1hTokens) * baseOf(input)) / 1e6
  if (!/claude/.test(model) || known.cache_write_1h_mtok !== undefined || write === undefined) return searches
  return searches + (usage.cacheWrite1hTokens * (2 * baseOf(input) - baseOf(write))) / 1e6
}

/** USD per million tokens of audio, input and output. */
const AUDIO: [name: RegExp, input: number, output?: number][] = [
  [/^openai\/gpt-4o-audio-preview/, 40, 80],
  [/^openai\/gpt-4o-mini-audio-preview/, 10, 20],
  [/^openrouter\/openai\/gpt-audio$/, 32, 64],
  [/^openrouter\/openai\/gpt-audio-mini$/, 10, 20],
  [/^openrouter\/google\/gemini-2\.0-flash-001/, 0.7],
  [/^openrouter\/google\/gemini-2\.5-flash-lite/, 0.3],
  [/^openrouter\/google\/gemini-(2\.5-flash(-preview-09-2025)?|3-flash-preview)$/, 1],
  [/^openrouter\/google\/gemini-3\.1-flash-lite/, 0.5],
]

/** The cost of audio beyond the text that the source takes it for. */
function leftOutAudio(model: string, usage: Usage, known: ModelPrice): number {
  const { input_mtok: text, output_mtok: completion, cache_read_mtok: cache } = known
  const [, input, output] = AUDIO.find(([name]) => name.test(model)) ?? []
  // Audio from a cache costs what cached text costs, and as much as any where that has no price.
  const atFullPrice = usage.inputAudioTokens + (cache === undefined ? usage.cacheReadAudioTokens : 0)
  const spokenInput = input === undefined ? 0 : atFullPrice * (input - baseOf(text))
  const spokenOutput = output === undefined ? 0 : usage.outputAudioTokens * (output - baseOf(completion))
  return (spokenInput + spokenOutput) / 1e6
}

const baseOf = (price: ModelPrice[string]): number => (typeof price === 'object' ? Number(price.base) : Number(price))

/** Google charges a prompt of Gemini 2 that searched, and each search of Gemini 3. */
const searchRequestRate = (model: string): number =>
  /^google\/(?!.*(image|tts|2\.0-flash-lite))gemini-2/.test(model) ? 0.035 : 0

const searchRate = (model: string): number => {
  if (/^google\/gemini-3/.test(model)) return 0.014
  if (/^xai\/grok-/.test(model)) return 0.005
  if (/^deepseek\/deepseek-v4/.test(model)) return 0.00075
  if (/^openai\/.*(image|audio|realtime|transcribe|tts|-search)/.test(model)) return 0
  return /^(openai\/(gpt-[4-9]|gpt-chat|chatgpt|codex|computer|o[134])|google\/claude)/.test(model) ? 0.01 : 0
}

/**
 * Compares our bill with the source's own calculation, within one nano-USD for each line. False where it has no price.
 */
function compare(prices: Prices, provider: string, model: string, at: number): boolean {
  const price = prices.cost(provider, model)
  // Prices that are kept by hand are those that the source does not have, or not as they are now.
  if (FILE.own[provider]?.some((row) => price?.model === `${provider}/${row.model}` && !isFree(price))) return false
  const [first] = USAGES
  const known = calcPrice(theirs(first!), model, { providerId: SOURCES[provider]!, timestamp: new Date(at) })
  if (known === null || !counted(known.model_price)) {
    const free = price !== undefined && rate(first!, price, 0).bill === 0n && /:free$/.test(model)
    expect([provider, model, price === undefined || free]).toEqual([provider, model, true])
    return false
  }
  for (const usage of USAGES) {
    const { total_price } = calcPrice(theirs(usage), model, {
      providerId: SOURCES[provider]!,
      timestamp: new Date(at),
    })!
    const ours = rate(usage, price!, 0)
    const whole = total_price + leftOut(price!.model, usage, known.model_price)
    const apart = Math.abs(Number(ours.bill) - whole * 1e9)
    // The source adds doubles, whose error grows with the amount.
    expect([provider, model, usage, apart <= ours.items.length + whole * 1e9 * 1e-12]).toEqual([
      provider,
      model,
      usage,
      true,
    ])
  }
  return true
}

describe("bills beside the source's own calculation", () => {
  const ANNOUNCED = Object.values(FILE.providers).flatMap(({ models }) =>
    models.flatMap(({ schedule = [] }) =>
      schedule.flatMap(({ from }) => (from === undefined ? [] : [Date.parse(from) - 1, Date.parse(from)])),
    ),
  )
  // The source has DeepSeek's peak hours on every day.
  const weekday = [0, 1, 2]
    .map((days) => new Date(TODAY + days * 86_400_000))
    .find((day) => day.getUTCDay() % 6 !== 0)!
    .toISOString()
    .slice(0, 10)
  const HOURS = [
    ...['00:00:00', '01:00:00', '03:59:59', '04:00:00', '08:00:00', '12:00:00', '20:00:00'].map((time) =>
      Date.parse(`${weekday}T${time}Z`),
    ),
    ...new Set(ANNOUNCED),
  ]

  test('every listed model is billed as the source calculates, at every hour', () => {
    const unknown = new Set<string>()
    for (const now of HOURS) {
      const prices = catalogued(now)
      for (const { id, endpoints, onlyImported } of MODEL_ROWS) {
        const [provider, ...rest] = id.split('/')
        if (endpoints === undefined && onlyImported !== true && !compare(prices, provider!, rest.join('/'), now))
          unknown.add(id)
      }
    }
    // Models whose price the source does not have, or not as it is now; remove one when it has.
    expect([...unknown]).toEqual([
      'openai/gpt-6.1-sol',
      'anthropic/claude-sonnet-5-5',
      'anthropic/claude-haiku-5-5',
      'deepseek/deepseek-flash',
      'xai/grok-4.7',
      'xai/grok-imagine-image',
    ])
  })

  for (const [provider, source] of Object.entries(SOURCES)) {
    test(`every model name of ${provider} in the source is billed as the source calculates`, () => {
      const prices = catalogued()
      let priced = 0
      for (const name of findProvider({ providerId: source })!.models.flatMap(namesOf))
        if (compare(prices, provider, name, TODAY)) priced++
      expect(priced).toBeGreaterThan(5)
    }, 30_000)
  }

  /** Names that a rule matches: those in it, with a suffix where it is open-ended. */
  const namesOf = ({ id, match }: ModelInfo): string[] => {
    const texts = [...JSON.stringify(match).matchAll(/"(equals|starts_with|contains|ends_with)":"([^"]+)"/g)].flatMap(
      ([, how, text]) =>
        how === 'equals'
          ? [text!]
          : how === 'starts_with'
            ? [text!, `${text}-x`, `${text}-tts`]
            : how === 'contains'
              ? [text!, `a-${text}-z`]
              : [text!, `a-${text}`],
    )
    const dated = [...JSON.stringify(match).matchAll(/"regex":"\^([^"()]+?)-\\\\d/g)].flatMap(([, name]) => [
      `${name!.replaceAll('\\\\', '')}-20260101`,
      `${name!.replaceAll('\\\\', '')}-2026-01-01`,
      `${name!.replaceAll('\\\\', '')}-x`,
    ])
    // The source also takes 20260101 for 2026-01-01, which Sluice does not.
    return [id, ...texts, ...dated].filter(
      (name) => !(/-20260101$/.test(name) && /gpt-/.test(name) && !name.includes('/')),
    )
  }
})
