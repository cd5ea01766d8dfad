import { firstIdAt as firstHexIdAt } from '../../generation-ids.ts'
import { HOUR_MS } from '../../usage-pieces.ts'
import { OUTPUT_TOKENS, USAGE_COLUMNS } from '../../usage-columns.ts'
import { SPEED_KEY, SPEED_SUMS, USAGE_KEY, USAGE_SUMS } from './roll-ups.ts'

/** Ids begin with the time of their request; those of earlier versions and the time of a record may differ by this. */
export const ID_SLACK_MS = 2 * HOUR_MS

/** The first token's time as its bucket in speed_hours. */
const BUCKET = 'CAST(round(8 * log2(max(1, latency))) AS INTEGER)'

const idOf = (text: string): string => `(SELECT id FROM names WHERE text = '${text}')`

/** Each generation as the row of usage_hours that it makes alone. */
const usageOf = (where: string): string => `
  SELECT created_at / ${HOUR_MS} AS hour, account, key, model, coalesce(provider, 0) AS provider, ending, 1 AS requests,
    ${USAGE_COLUMNS.join(', ')}, CASE WHEN kind = ${idOf('subscription')} THEN 0 ELSE bill END AS bill,
    CASE WHEN kind = ${idOf('subscription')} THEN bill ELSE 0 END AS listed, flows, latency, duration
  FROM generations ${where}`

const speedsOf = (where: string): string => `
  SELECT created_at / ${HOUR_MS} AS hour, coalesce(provider, 0) AS provider, model, ${BUCKET} AS bucket, 1 AS requests,
    ${OUTPUT_TOKENS} AS tokens, duration
  FROM generations ${where} streamed = 1 AND ending = ${idOf('completed')}`

const difference = (key: readonly string[], sums: readonly string[], records: string, rolled: string): string => `
  SELECT ${key.join(', ')}, ${sums.map((name) => `sum(${name}) AS ${name}`).join(', ')}
  FROM (${records} UNION ALL SELECT ${key.join(', ')}, ${sums.map((name) => `-${name}`).join(', ')} FROM ${rolled})
  GROUP BY ${key.join(', ')} HAVING ${sums.map((name) => `sum(${name}) <> 0`).join(' OR ')}`

/** The records of an id range, and in it of a range of hours; the second needs no order of ids. */
const IN_RANGE = 'WHERE id >= ?1 AND id < ?2 AND created_at >= ?3 AND created_at < ?4'
const HOURS = `WHERE hour >= ?3 / ${HOUR_MS} AND hour < ?4 / ${HOUR_MS}`

/** The streams of a range as rows of speed_hours, with the same parameters. */
export const SPEEDS_IN_RANGE = speedsOf(`${IN_RANGE} AND`)

/** The sums that the roll-ups of a range of hours lack of their records: first id, end of ids, beginning, end. */
export const USAGE_LACKING = difference(USAGE_KEY, USAGE_SUMS, usageOf(IN_RANGE), `usage_hours ${HOURS}`)
export const SPEED_LACKING = difference(SPEED_KEY, SPEED_SUMS, SPEEDS_IN_RANGE, `speed_hours ${HOURS}`)

/** The same of all hours, whatever the ids are. */
export const ALL_USAGE_LACKING = difference(USAGE_KEY, USAGE_SUMS, usageOf(''), 'usage_hours')
export const ALL_SPEED_LACKING = difference(SPEED_KEY, SPEED_SUMS, speedsOf('WHERE'), 'speed_hours')

/** The least id of an instant. */
export const firstIdAt = (at: number): Uint8Array => Uint8Array.fromHex(firstHexIdAt(at))
