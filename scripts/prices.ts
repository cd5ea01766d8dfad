/**
 * Updates catalog/prices.json from @pydantic/genai-prices: `npm run prices`, or `npm run prices -- --force` to accept
 * that models disappeared and prices changed much. A refused import leaves the file unchanged.
 */
import { readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import {
  findProvider,
  type ConditionalPrice,
  type MatchLogic,
  type ModelInfo,
  type ModelPrice,
  type Provider,
} from '@pydantic/genai-prices'
import { MAX_USD, type PriceText, type RateText } from '../src/config/model-settings.ts'
import type { FeeItem } from '../src/config/terms.ts'
import { divideHalfEven, nanoOf, usdOf, type Nano } from '../src/money.ts'
import {
  encodeRates,
  ratesOf,
  type PriceFile,
  type PriceRow,
  type Rate,
  type PriceChange,
} from '../src/ledger/prices.ts'
import { completed, priceDays } from './price-lists.ts'

/**
 * Our provider ids -> the source's. `else`: our providers whose rows are used for names without a row; `searchesApart`:
 * those of them that do not say what searches cost.
 */
const PROVIDERS: Record<string, { source?: string; else: string[]; searchesApart?: string[] }> = {
  openai: { source: 'openai', else: [] },
  anthropic: { source: 'anthropic', else: [] },
  google: { source: 'google', else: ['anthropic'] },
  vertex: { else: ['google'] },
  openrouter: { source: 'openrouter', else: [] },
  deepseek: { source: 'deepseek', else: [] },
  mistral: { source: 'mistral', else: [] },
  xai: { source: 'x-ai', else: [] },
  groq: { source: 'groq', else: [] },
  together: { source: 'together', else: [] },
  fireworks: { source: 'fireworks', else: [] },
  // DeepSeek's own prices are lower, by the hour, than those of its models on Azure, which no list has. Searches there
  // are Microsoft's, by Bing: 14 USD for 1,000 by one account of it, none by another. Those of Claude are Anthropic's.
  azure: { source: 'azure', else: ['openai', 'anthropic', 'xai'], searchesApart: ['openai', 'xai'] },
}

/** The source's units -> our fee items. `perThousand`: the source's price is for a thousand. */
const ITEMS: Record<string, { item: FeeItem; perThousand?: true }> = {
  input_mtok: { item: 'prompt' },
  cache_read_mtok: { item: 'input_cache_read' },
  cache_write_mtok: { item: 'input_cache_write_5_min' },
  cache_write_1h_mtok: { item: 'input_cache_write_1_h' },
  cache_audio_read_mtok: { item: 'input_cache_read_audio' },
  input_audio_mtok: { item: 'input_audio' },
  input_image_mtok: { item: 'input_image' },
  output_mtok: { item: 'completion' },
  output_reasoning_mtok: { item: 'reasoning' },
  output_audio_mtok: { item: 'output_audio' },
  output_image_mtok: { item: 'output_image' },
  output_video_mtok: { item: 'output_video' },
  web_searches_kcount: { item: 'web_search', perThousand: true },
  search_requests_kcount: { item: 'search_request', perThousand: true },
  requests_kcount: { item: 'request', perThousand: true },
}

/** A rate that changes by more than this factor is taken for an error of the source. */
const MAX_FACTOR = 20n
const CHANGES_KEPT = 20
const CHANGE_LINES = 100

export class Refused extends Error {}

type Import = { file: PriceFile; changed: string[]; uncounted: Record<string, number> }

/** The file with the source's prices, and the changes. `today`: YYYY-MM-DD. Throws Refused with every reason. */
export function importPrices(
  sources: Record<string, Provider>,
  previous: PriceFile,
  options: { source: string; today: string; force: boolean },
): Import {
  const { source, today, force } = options
  const uncounted: Record<string, number> = {}
  const wrong: string[] = []
  const providers: PriceFile['providers'] = {}
  for (const [id, { source: theirs, else: others, searchesApart }] of Object.entries(PROVIDERS)) {
    const models = theirs === undefined ? [] : (sources[theirs]?.models ?? [])
    if (theirs !== undefined && models.length === 0) wrong.push(`${id}: the source has no models of ${theirs}`)
    const before = new Map((previous.providers[id]?.models ?? []).map((row) => [row.model, row]))
    providers[id] = {
      else: others,
      ...(searchesApart === undefined ? {} : { searchesApart }),
      models: models.flatMap((model) => {
        try {
          return rowOf(completed(id, model), priceDays(id, model), before.get(model.id), today, uncounted)
        } catch (error) {
          wrong.push(`${id}/${model.id}: ${(error as Error).message}`)
          return []
        }
      }),
    }
  }
  const { changed, risky } = difference(previous.providers, providers)
  if (wrong.length > 0) throw new Refused(wrong.join('\n'))
  if (risky.length > 0 && !force) throw new Refused(`${risky.join('\n')}\nTo accept this: npm run prices -- --force`)
  const changes =
    changed.length === 0
      ? previous.changes
      : [{ imported: today, source, changed: shortened(changed) }, ...previous.changes].slice(0, CHANGES_KEPT)
  return {
    file: { source, imported: changed.length === 0 ? previous.imported : today, changes, own: previous.own, providers },
    changed,
    uncounted,
  }
}

const shortened = (lines: string[]): string[] =>
  lines.length <= CHANGE_LINES ? lines : [...lines.slice(0, CHANGE_LINES), `and ${lines.length - CHANGE_LINES} more`]

/** No row for a model without a price that applies to our fee items: its cost is unknown. */
function rowOf(
  model: ModelInfo,
  whichDays: Pick<PriceChange, 'days' | 'except'>,
  before: PriceRow | undefined,
  today: string,
  uncounted: Record<string, number>,
): PriceRow[] {
  const [first, ...schedule] = currentAndFuture(
    Array.isArray(model.prices) ? model.prices : [{ prices: model.prices }],
    today,
  ).map(({ constraint, prices }) => ({ ...whenOf(constraint, whichDays), prices: priceOf(prices, uncounted) }))
  if (first === undefined || Object.keys(first.prices).length === 0) return []
  const row = {
    model: model.id,
    match: matchOf(model.match),
    version: today,
    prices: first.prices,
    ...(schedule.length === 0 ? {} : { schedule }),
  }
  return [before !== undefined && ratesText(before) === ratesText(row) ? { ...row, version: before.version } : row]
}

const ratesText = ({ prices, schedule = [] }: PriceRow): string =>
  JSON.stringify([
    encodeRates(ratesOf(prices)),
    schedule.map(({ prices: other, ...when }) => [when, encodeRates(ratesOf(other))]),
  ])

/** The price that began last, without its date, followed by the future ones. */
function currentAndFuture(prices: ConditionalPrice[], today: string): ConditionalPrice[] {
  const last = prices.findLastIndex(
    ({ constraint }) => constraint?.type === 'start_date' && constraint.start_date <= today,
  )
  return last <= 0 ? prices : [{ prices: prices[last]!.prices }, ...prices.slice(last + 1)]
}

function whenOf(
  constraint: ConditionalPrice['constraint'],
  whichDays: Pick<PriceChange, 'days' | 'except'>,
): Omit<PriceChange, 'prices'> {
  if (constraint === undefined) return {}
  if (constraint.type === 'start_date') return { from: constraint.start_date }
  const [start, end] = [constraint.start_time, constraint.end_time].map((time) => /^(\d\d:\d\d):00Z$/.exec(time)?.[1])
  if (start === undefined || end === undefined)
    throw new Error(
      `applies from ${constraint.start_time} to ${constraint.end_time}, which is not in whole minutes of UTC`,
    )
  return { hours: `${start}-${end}`, ...whichDays }
}

function priceOf(prices: ModelPrice, uncounted: Record<string, number>): PriceText {
  const read: PriceText = {}
  for (const [unit, value] of Object.entries(prices)) {
    const known = ITEMS[unit]
    if (known === undefined) uncounted[unit] = (uncounted[unit] ?? 0) + 1
    else if (value !== undefined) read[known.item] = rateText(value, known.perThousand === true)
  }
  return read
}

function rateText(value: NonNullable<ModelPrice[string]>, perThousand: boolean): RateText {
  if (typeof value !== 'object' || !Array.isArray(value.tiers)) return usd(value, perThousand)
  const tiers = [...value.tiers]
    .sort((a, b) => a.start - b.start)
    .map(({ start, price }) => ({ over: start, rate: usd(price, perThousand) }))
  return [usd(value.base, perThousand), ...tiers]
}

/** Digits after the ninth decimal are rounding errors of the source's floats. */
function usd(value: unknown, perThousand: boolean): number {
  if (typeof value !== 'number' || !Number.isFinite(value) || value < 0) throw new Error(`${value} is not a price`)
  const nano = nanoOf(value.toFixed(9))
  const rate = usdOf(perThousand ? divideHalfEven(nano, 1000n) : nano)
  const max = perThousand ? MAX_USD.perOne : MAX_USD.perMillionTokens
  if (rate > max) throw new Error(`${rate} USD is above ${max}, the highest possible price`)
  return rate
}

/** A rule of the source as patterns. Throws for a rule that patterns cannot represent. */
function matchOf(rule: MatchLogic): string[] {
  const text = (found: string): string => {
    if (/[*#!]/.test(found)) throw new Error(`the name ${found} contains a wildcard of patterns`)
    return found.toLowerCase()
  }
  if ('or' in rule)
    return [...new Set(rule.or.flatMap(matchOf))].sort((a, b) => Number(a.startsWith('!')) - Number(b.startsWith('!')))
  if ('equals' in rule) return [text(rule.equals)]
  if ('starts_with' in rule) return [`${text(rule.starts_with)}*`]
  if ('ends_with' in rule) return [`*${text(rule.ends_with)}`]
  if ('contains' in rule) return [`*${text(rule.contains)}*`]
  if ('regex' in rule) return [expressionOf(rule.regex)].flat()
  const [within, ...limits] = [...rule.and.flatMap(matchOf)].sort(
    (a, b) => Number(a.startsWith('!')) - Number(b.startsWith('!')),
  )
  if (within === undefined || !limits.every((limit) => limit.startsWith('!')))
    throw new Error(`the rule ${JSON.stringify(rule)} cannot be written as patterns`)
  return [within, ...limits]
}

const NOT_SPEECH = '^(?!.*-[tT][tT][sS](?:$|-))'

function expressionOf(regex: string): string[] {
  if (regex === NOT_SPEECH) return ['!*-tts', '!*-tts-*']
  const named = regex
    .replaceAll(/\\d\{(\d)\}/g, (_, times: string) => '#'.repeat(Number(times)))
    .replaceAll('\\d', '#')
    .replaceAll('\\.', '.')
  if (!/^\^[\w./#-]+\$?$/.test(named)) throw new Error(`the expression ${regex} cannot be written as a pattern`)
  return [named.endsWith('$') ? named.slice(1, -1) : `${named.slice(1)}*`]
}

/** The changes, one per line, and those that must be reviewed. */
function difference(
  before: PriceFile['providers'],
  after: PriceFile['providers'],
): { changed: string[]; risky: string[] } {
  const changed: string[] = []
  const risky: string[] = []
  for (const [id, { models }] of Object.entries(after)) {
    if (before[id] === undefined) {
      if (models.length > 0) changed.push(`${id}: ${models.length} models, all new`)
      continue
    }
    const old = new Map((before[id]?.models ?? []).map((row) => [row.model, row]))
    for (const row of models) {
      const was = old.get(row.model)
      old.delete(row.model)
      if (was === undefined) changed.push(`${id}/${row.model}: new`)
      else if (ratesText(was) !== ratesText(row))
        changed.push(`${id}/${row.model}: ${pricesText(was)} -> ${pricesText(row)}`)
      else if (`${was.match}` !== `${row.match}`) changed.push(`${id}/${row.model}: other names`)
      if (was !== undefined && changedMuch(was.prices, row.prices))
        risky.push(
          `${id}/${row.model} changed by a factor above ${MAX_FACTOR}: ${pricesText(was)} -> ${pricesText(row)}`,
        )
    }
    for (const gone of old.keys()) {
      changed.push(`${id}/${gone}: gone`)
      risky.push(`${id}/${gone} has disappeared`)
    }
  }
  return { changed, risky }
}

const pricesText = ({ prices, schedule }: PriceRow): string =>
  JSON.stringify(schedule === undefined ? prices : [prices, ...schedule])

/** True if a base rate or the highest tier changed much, or if prompt or completion lost its rate. */
function changedMuch(was: PriceText, is: PriceText): boolean {
  const [before, after] = [ratesOf(was), ratesOf(is)]
  const far = (a: Nano, b: Nano): boolean => a > b * MAX_FACTOR || b > a * MAX_FACTOR
  const top = ({ base, tiers }: Rate): Nano => tiers.at(-1)?.rate ?? base
  return (Object.entries(before) as [FeeItem, Rate][]).some(([item, rate]) => {
    const now = after[item]
    return now === undefined
      ? item === 'prompt' || item === 'completion'
      : far(rate.base, now.base) || far(top(rate), top(now))
  })
}

/** The text of the file, one line per model. */
export function fileText({ source, imported, changes, own, providers }: PriceFile): string {
  const rows = (list: PriceRow[], indent: string): string =>
    list.length === 0 ? '[]' : `[\n${list.map((row) => `${indent}  ${lineOf(row)}`).join(',\n')}\n${indent}]`
  const lines = Object.entries(providers).map(([id, { else: others, searchesApart, models }]): [string, string] => {
    const apart = searchesApart === undefined ? '' : `"searchesApart": ${lineOf(searchesApart)}, `
    return [id, `{"else": ${lineOf(others)}, ${apart}"models": ${rows(models, '    ')}}`]
  })
  const members = (entries: [string, string][]): string =>
    `{\n${entries.map(([name, text]) => `    ${JSON.stringify(name)}: ${text}`).join(',\n')}\n  }`
  return `{
  "source": ${JSON.stringify(source)},
  "imported": ${JSON.stringify(imported)},
  "changes": ${JSON.stringify(changes, null, 2).replaceAll('\n', '\n  ')},
  "own": ${members(Object.entries(own).map(([id, list]) => [id, rows(list, '    ')]))},
  "providers": ${members(lines)}
}
`
}

/** JSON on one line, with spaces after commas and colons. */
export const lineOf = (value: unknown): string =>
  Array.isArray(value)
    ? `[${value.map(lineOf).join(', ')}]`
    : typeof value === 'object' && value !== null
      ? `{${Object.entries(value)
          .map(([name, inner]) => `${JSON.stringify(name)}: ${lineOf(inner)}`)
          .join(', ')}}`
      : JSON.stringify(value)

function main(args: string[]): void {
  const path = join(import.meta.dir, '../catalog/prices.json')
  const { version } = JSON.parse(
    readFileSync(join(import.meta.dir, '../node_modules/@pydantic/genai-prices/package.json'), 'utf8'),
  ) as { version: string }
  const sources = Object.fromEntries(
    Object.values(PROVIDERS).flatMap(({ source }) => {
      const found = source === undefined ? undefined : findProvider({ providerId: source })
      return found === undefined ? [] : [[found.id, found]]
    }),
  )
  const previous = JSON.parse(readFileSync(path, 'utf8')) as PriceFile
  const { file, changed, uncounted } = importPrices(sources, previous, {
    source: `@pydantic/genai-prices ${version}`,
    today: new Date().toISOString().slice(0, 10),
    force: args.includes('--force'),
  })
  // Renamed, so that an interruption leaves the previous file.
  writeFileSync(`${path}.new`, fileText(file))
  renameSync(`${path}.new`, path)
  console.log(changed.length === 0 ? 'No price has changed.' : changed.join('\n'))
  console.log(
    `Not imported, because usage does not have these units: ${Object.entries(uncounted)
      .map(([unit, times]) => `${unit} (${times})`)
      .join(', ')}`,
  )
}

if (import.meta.main) {
  try {
    main(process.argv.slice(2))
  } catch (error) {
    if (!(error instanceof Refused)) throw error
    console.error(`The prices were not imported; catalog/prices.json is unchanged.\n${error.message}`)
    process.exitCode = 1
  }
}
