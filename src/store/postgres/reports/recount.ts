import { HOUR_MS } from '../../usage-pieces.ts'
import { OUTPUT_TOKENS } from '../../usage-columns.ts'
import { SPEED_BUCKET, SPEED_SUMS, USAGE_SUMS } from '../closing-statement.ts'

const USAGE_KEY = ['hour', 'account', 'key', 'model', 'provider', 'ending']
const SPEED_KEY = ['hour', 'provider', 'model', 'bucket']

/** Sums that are not those of a column with their name. */
const OTHER_SUMS: Record<string, string> = {
  requests: '1',
  bill: "CASE WHEN kind = 'subscription' THEN 0 ELSE bill END",
  listed: "CASE WHEN kind = 'subscription' THEN bill ELSE 0 END",
}

/** Each generation as the row of usage_hours that it makes alone. */
const USED = `
  SELECT created_at / ${HOUR_MS} AS hour, account, key, model, coalesce(provider, '') AS provider, ending,
    ${USAGE_SUMS.map((name) => `${OTHER_SUMS[name] ?? name} AS ${name}`).join(', ')}
  FROM generations`

const SPED = `
  SELECT created_at / ${HOUR_MS} AS hour, coalesce(provider, '') AS provider, model, ${SPEED_BUCKET} AS bucket,
    1 AS requests, ${OUTPUT_TOKENS} AS tokens, duration
  FROM generations WHERE streamed AND ending = 'completed'`

const difference = (key: readonly string[], sums: readonly string[], records: string, rolled: string): string => `
  SELECT hour, sum(requests) AS lacks
  FROM (${records} UNION ALL SELECT ${key.join(', ')}, ${sums.map((name) => `-${name}`).join(', ')} FROM ${rolled}) AS r
  GROUP BY ${key.join(', ')} HAVING ${sums.map((name) => `sum(${name}) <> 0`).join(' OR ')} ORDER BY hour`

/** The hours in which roll-ups differ from their records, and the requests that they lack. */
export const WRONG_ROLL_UPS = {
  usage: difference(USAGE_KEY, USAGE_SUMS, USED, 'usage_hours'),
  speed: difference(SPEED_KEY, SPEED_SUMS, SPED, 'speed_hours'),
}
