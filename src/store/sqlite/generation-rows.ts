import { USAGE_BUCKETS } from '../../generation/usage.ts'
import { isGenerationId } from '../generation-ids.ts'
import { type ReadRecord, recordOf } from '../generation-row.ts'
import type { GenerationRecord } from '../ledger.ts'
import { USAGE_COLUMNS, usageSelected } from '../usage-columns.ts'

export const INSERT_GENERATION = `
  INSERT INTO generations (id, account, key, kind, api, model, provider, finish, ending, created_at, latency, duration,
    streamed, retries, attempts, translation, estimated, estimation, disputed, price, discount, held, bill, flows,
    client, ${USAGE_COLUMNS.join(', ')})
  VALUES (${Array(25 + USAGE_BUCKETS.length)
    .fill('?')
    .join(', ')}) ON CONFLICT (id) DO NOTHING`

const nameSql = (column: string): string => `(SELECT text FROM names WHERE names.id = g.${column})`
const SELECT_GENERATION = `
  SELECT lower(hex(g.id)) AS id, ${nameSql('account')} AS accountId, ${nameSql('key')} AS keyId,
    ${nameSql('kind')} AS kind, ${nameSql('api')} AS api, ${nameSql('model')} AS model,
    ${nameSql('provider')} AS provider, ${nameSql('client')} AS client,
    ${nameSql('finish')} AS finish, ${nameSql('ending')} AS ending,
    g.created_at AS createdAt, g.latency, g.duration, g.streamed, g.retries, g.attempts, g.translation, g.estimated,
    g.estimation, g.disputed, g.discount, p.version AS priceVersion, p.model AS priceModel, p.rates AS priceRates,
    CAST(g.held AS TEXT) AS held, CAST(g.bill AS TEXT) AS bill, CAST(g.flows AS TEXT) AS flows,
    ${usageSelected((column) => `g.${column}`)}
  FROM generations AS g LEFT JOIN prices AS p ON p.id = g.price`
export const FIND_GENERATION = `${SELECT_GENERATION}
  WHERE g.id = ? AND g.account = (SELECT id FROM names WHERE text = ?)`
export const PAGE_OF_GENERATIONS = `${SELECT_GENERATION} WHERE g.id > ? ORDER BY g.id LIMIT ?`

export type GenerationRow = Omit<ReadRecord, 'streamed' | 'estimated'> & { streamed: number; estimated: number }

export const toGenerationRecord = (row: GenerationRow): GenerationRecord =>
  recordOf({ ...row, streamed: row.streamed === 1, estimated: row.estimated === 1 })

export function generationIdBytes(id: string): Uint8Array {
  if (!isGenerationId(id))
    throw new Error(`the generation id ${JSON.stringify(id)} must be 32 hex digits in lower case`)
  return Uint8Array.fromHex(id)
}
