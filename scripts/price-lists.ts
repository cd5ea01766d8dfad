/** Prices in the lists of providers that @pydantic/genai-prices does not have. */
import type { ModelInfo, ModelPrice } from '@pydantic/genai-prices'
import type { PriceChange } from '../src/ledger/prices.ts'

/**
 * USD of one search, or of a request that searches (`perRequest`), for models to which the source gives no price of
 * searches.
 */
const SEARCH_RATES: {
  provider: string
  models: RegExp
  not?: RegExp
  rate: number
  perRequest?: true
  why: string
}[] = [
  {
    provider: 'openai',
    models: /^(gpt-[4-9]|gpt-chat|chatgpt|codex|computer|o[134])/,
    not: /image|audio|realtime|transcribe|tts|-search/,
    rate: 0.01,
    why: 'developers.openai.com/api/docs/pricing, 2026-11: 10 USD for 1,000, with any model.',
  },
  {
    provider: 'google',
    models: /^claude-/,
    rate: 0.01,
    why: 'cloud.google.com/vertex-ai/generative-ai/pricing, 2026-11: 10 USD for 1,000, as at Anthropic.',
  },
  {
    provider: 'google',
    models: /^gemini-3/,
    rate: 0.014,
    why: 'ai.google.dev/gemini-api/docs/pricing, 2026-09: 14 USD for 1,000 of Gemini 3; before, per prompt.',
  },
  {
    provider: 'google',
    models: /^gemini-2/,
    not: /image|tts|2\.0-flash-lite/,
    rate: 0.035,
    perRequest: true,
    why: 'ai.google.dev/gemini-api/docs/pricing, 2026-09: 35 USD for 1,000 prompts of Gemini 2 that searched.',
  },
  {
    provider: 'xai',
    models: /^grok-/,
    rate: 0.005,
    why: 'docs.x.ai/developers/pricing, 2026-11: 5 USD for 1,000.',
  },
  {
    provider: 'deepseek',
    models: /^deepseek-(v4|flash)/,
    rate: 0.00075,
    why: 'api-docs.deepseek.com/quick_start/pricing, 2026-11: 0.75 USD for 1,000, also of server tools.',
  },
]

const OPENROUTER_AUDIO =
  'openrouter.ai/api/v1/models, 2026: the price `audio` of the model, which is what its vendor charges.'

/** USD per million tokens of audio, for models of which the source has those of text only. */
const AUDIO_RATES: { provider: string; models: RegExp; input: number; output?: number; why: string }[] = [
  {
    provider: 'openai',
    models: /^gpt-4o-audio-preview$/,
    input: 40,
    output: 80,
    why: 'developers.openai.com/api/docs/pricing, 2026-03: audio 40 and 80. Its first snapshot, 100 and 200, is gone.',
  },
  {
    provider: 'openai',
    models: /^gpt-4o-mini-audio-preview$/,
    input: 10,
    output: 20,
    why: 'developers.openai.com/api/docs/pricing, 2026-03: audio 10 and 20.',
  },
  { provider: 'openrouter', models: /^openai\/gpt-audio$/, input: 32, output: 64, why: OPENROUTER_AUDIO },
  { provider: 'openrouter', models: /^openai\/gpt-audio-mini$/, input: 10, output: 20, why: OPENROUTER_AUDIO },
  { provider: 'openrouter', models: /^google\/gemini-2\.0-flash-001$/, input: 0.7, why: OPENROUTER_AUDIO },
  { provider: 'openrouter', models: /^google\/gemini-2\.5-flash-lite/, input: 0.3, why: OPENROUTER_AUDIO },
  {
    provider: 'openrouter',
    models: /^google\/gemini-(2\.5-flash|2\.5-flash-preview-09-2025|3-flash-preview)$/,
    input: 1,
    why: OPENROUTER_AUDIO,
  },
  { provider: 'openrouter', models: /^google\/gemini-3\.1-flash-lite$/, input: 0.5, why: OPENROUTER_AUDIO },
]

/** The days of hours with another price, where the source has the hours only. */
const PRICE_DAYS: { provider: string; models: RegExp; days: string; except: string[]; why: string }[] = [
  {
    provider: 'deepseek',
    models: /^deepseek-(v4|flash)/,
    days: 'Mon-Fri',
    except: ['2027-01-01', '2027-02-05', '2027-02-08', '2027-04-05', '2027-06-09', '2027-09-15', '2027-10-01'],
    why:
      'api-docs.deepseek.com/quick_start/pricing, 2026-11: Monday to Friday but Chinese public holidays. Those that ' +
      'the law fixes; days off that the State Council adds are not known before its notice.',
  },
]

/** The model with prices of searches, of audio and of cache writes of an hour, where it has other prices. */
export function completed(provider: string, model: ModelInfo): ModelInfo {
  const found = SEARCH_RATES.find(
    (one) => one.provider === provider && one.models.test(model.id) && one.not?.test(model.id) !== true,
  )
  const unit = found?.perRequest === true ? 'search_requests_kcount' : 'web_searches_kcount'
  const searches = found === undefined ? {} : { [unit]: found.rate * 1_000 }
  const add = (prices: ModelPrice): ModelPrice =>
    prices.input_mtok === undefined
      ? prices
      : {
          ...searches,
          ...audioRates(provider, model),
          ...prices,
          ...hourWrites(model, prices),
          ...wholeWrites(provider, model, prices),
        }
  const { prices } = model
  return {
    ...model,
    prices: Array.isArray(prices) ? prices.map((one) => ({ ...one, prices: add(one.prices) })) : add(prices),
  }
}

function audioRates(provider: string, { id }: ModelInfo): ModelPrice {
  const found = AUDIO_RATES.find((one) => one.provider === provider && one.models.test(id))
  if (found === undefined) return {}
  const { input, output } = found
  return { input_audio_mtok: input, ...(output === undefined ? {} : { output_audio_mtok: output }) }
}

/** Cache writes of an hour by Claude cost twice the input everywhere; the source has them for Anthropic only. */
function hourWrites(
  { id }: ModelInfo,
  { input_mtok: input, cache_write_mtok, cache_write_1h_mtok }: ModelPrice,
): ModelPrice {
  if (!id.includes('claude') || cache_write_mtok === undefined || cache_write_1h_mtok !== undefined) return {}
  if (typeof input === 'number') return { cache_write_1h_mtok: 2 * input }
  if (typeof input !== 'object' || !Array.isArray(input.tiers)) return {}
  const tiers = input.tiers.map(({ start, price }) => ({ start, price: 2 * price }))
  return { cache_write_1h_mtok: { base: 2 * input.base, tiers } as ModelPrice[string] }
}

/**
 * OpenRouter lists the storage of what Gemini writes to a cache, which it charges in addition to the input
 * (openrouter.ai/docs/guides/best-practices/prompt-caching, 2026-11). Of older models the list has both together.
 */
function wholeWrites(
  provider: string,
  { id }: ModelInfo,
  { input_mtok: input, cache_write_mtok: write }: ModelPrice,
): ModelPrice {
  if (provider !== 'openrouter' || !id.includes('gemini')) return {}
  if (typeof input !== 'number' || typeof write !== 'number' || write >= input) return {}
  return { cache_write_mtok: Number((input + write).toFixed(9)) }
}

/** The days on which the model's hours apply; none for every day. */
export function priceDays(provider: string, model: ModelInfo): Pick<PriceChange, 'days' | 'except'> {
  const found = PRICE_DAYS.find((one) => one.provider === provider && one.models.test(model.id))
  return found === undefined ? {} : { days: found.days, except: found.except }
}
