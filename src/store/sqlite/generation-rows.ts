import { noUsage, type Usage } from '../../generation/usage.ts'
import type { GenerationRecord } from '../ledger.ts'

/** Usage bucket -> column, in the order in which a row is bound. */
const BUCKETS = {
  inputTokens: 'input_tokens',
  cacheReadTokens: 'cache_read_tokens',
  cacheWrite5mTokens: 'cache_write_5m_tokens',
  cacheWrite1hTokens: 'cache_write_1h_tokens',
  inputAudioTokens: 'input_audio_tokens',
  outputTokens: 'output_tokens',
  reasoningTokens: 'reasoning_tokens',
  outputAudioTokens: 'output_audio_tokens',
  outputImageTokens: 'output_image_tokens',
  webSearches: 'web_searches',
  images: 'images',
} satisfies Record<keyof Usage, string>
export const USAGE_BUCKETS = Object.keys(BUCKETS) as (keyof Usage)[]
export const USAGE_COLUMNS: readonly string[] = Object.values(BUCKETS)

export const INSERT_GENERATION = `
  INSERT INTO generations (id, account, key, kind, api, model, provider, finish, ending, created_at, latency, duration,
    streamed, retries, attempts, translation, estimated, estimation, disputed, price, discount, held, bill, flows,
    client, ${USAGE_COLUMNS.join(', ')})
  VALUES (${Array(25 + USAGE_BUCKETS.length)
    .fill('?')
    .join(', ')}) ON CONFLICT (id) DO NOTHING`

const nameSql = (column: string): string => `(SELECT text FROM names WHERE names.id = g.${column})`
/** Amounts are read as text, since SQLite's integers arrive in JavaScript as doubles. */
const SELECT_GENERATION = `
  SELECT lower(hex(g.id)) AS id, ${nameSql('account')} AS accountId, ${nameSql('key')} AS keyId,
    ${nameSql('kind')} AS kind, ${nameSql('api')} AS api, ${nameSql('model')} AS model,
    ${nameSql('provider')} AS provider, ${nameSql('client')} AS client,
    ${nameSql('finish')} AS finish, ${nameSql('ending')} AS ending,
    g.created_at AS createdAt, g.latency, g.duration, g.streamed, g.retries, g.attempts, g.translation, g.estimated,
    g.estimation, g.disputed, g.discount, p.version AS priceVersion, p.model AS priceModel, p.rates AS priceRates,
    CAST(g.held AS TEXT) AS held, CAST(g.bill AS TEXT) AS bill, CAST(g.flows AS TEXT) AS flows,
    ${Object.entries(BUCKETS)
      .map(([bucket, column]) => `g.${column} AS ${bucket}`)
      .join(', ')}
  FROM generations AS g LEFT JOIN prices AS p ON p.id = g.price`
export const FIND_GENERATION = `${SELECT_GENERATION}
  WHERE g.id = ? AND g.account = (SELECT id FROM names WHERE text = ?)`
export const PAGE_OF_GENERATIONS = `${SELECT_GENERATION} WHERE g.id > ? ORDER BY g.id LIMIT ?`

export type GenerationRow = Omit<
  GenerationRecord,
  'streamed' | 'estimated' | 'usage' | 'price' | 'held' | 'bill' | 'flows'
> &
  Usage & {
    streamed: number
    estimated: number
    held: string
    bill: string
    flows: string
    priceVersion: string | null
    priceModel: string
    priceRates: string
  }

export function toGenerationRecord(row: GenerationRow): GenerationRecord {
  const { priceVersion, priceModel, priceRates, streamed, estimated, held, bill, flows, ...rest } = row
  const usage = noUsage()
  for (const bucket of USAGE_BUCKETS) {
    usage[bucket] = row[bucket]
    delete (rest as Partial<Usage>)[bucket]
  }
  return {
    ...rest,
    usage,
    streamed: streamed === 1,
    estimated: estimated === 1,
    held: BigInt(held),
    bill: BigInt(bill),
    flows: BigInt(flows),
    price: priceVersion === null ? null : { version: priceVersion, model: priceModel, rates: priceRates },
  }
}

export const isGenerationId = (id: string): boolean => /^[0-9a-f]{32}$/.test(id)

export function generationIdBytes(id: string): Uint8Array {
  if (!isGenerationId(id))
    throw new Error(`the generation id ${JSON.stringify(id)} must be 32 hex digits in lower case`)
  return Uint8Array.fromHex(id)
}
