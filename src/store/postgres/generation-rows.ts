import { type ReadRecord, recordOf } from '../generation-row.ts'
import type { GenerationRecord } from '../ledger.ts'
import { usageSelected } from '../usage-columns.ts'

const SELECT_GENERATION = `
  SELECT g.id, g.account AS "accountId", g.key AS "keyId", g.kind, g.api, g.model, g.provider, g.client, g.finish,
    g.ending, g.created_at AS "createdAt", g.latency, g.duration, g.streamed, g.retries, g.attempts, g.translation,
    g.estimated, g.estimation, g.disputed, g.discount, p.version AS "priceVersion", p.model AS "priceModel",
    p.rates AS "priceRates", g.held::text AS held, g.bill::text AS bill, g.flows::text AS flows,
    ${usageSelected((column) => `g.${column}`)}
  FROM generations AS g LEFT JOIN prices AS p ON p.id = g.price`
export const FIND_GENERATION = `${SELECT_GENERATION} WHERE g.id = $1::uuid AND g.account = $2`
export const PAGE_OF_GENERATIONS = `${SELECT_GENERATION} WHERE g.id > $1::uuid ORDER BY g.id LIMIT $2`
export const FIRST_PAGE_OF_GENERATIONS = `${SELECT_GENERATION} ORDER BY g.id LIMIT $1`

export const toGenerationRecord = (row: ReadRecord): GenerationRecord => recordOf({ ...row, id: idOfUuid(row.id) })

/** The 32 hex digits of an id that was read as `uuid`. */
export const idOfUuid = (uuid: string): string => uuid.replaceAll('-', '')
